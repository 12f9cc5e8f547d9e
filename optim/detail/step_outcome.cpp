// A scaler's record, read on the device.
#include "mezzo/optim/step_outcome.h"

#include <cstddef>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/kernels/scaler/scaler_record.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::optim {

Tensor detail::was_made(const StepOutcome& outcome) {
  if (!outcome.record.defined()) return {};
  const NoGrad no_grad;
  static_assert(offsetof(ScalerRecord, found_inf) % 4 == 0);
  const TensorImpl& impl = outcome.record.impl();
  const std::int64_t at = (impl.offset + static_cast<std::int64_t>(offsetof(ScalerRecord, found_inf))) / 4;
  const Tensor found_inf(make_ref<TensorImpl>(impl.storage, at, Shape{}, Dims{}, DType::i32, false));
  return eq(found_inf, 0);
}

}  // namespace mezzo::optim
