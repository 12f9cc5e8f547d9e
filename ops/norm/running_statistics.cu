// How a batch moves the running statistics of batch_norm and instance_norm: one pass for each of the two.
#include "mezzo/ops/norm/common.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo::ops {

namespace {

/// `running` after a batch; what it was where a statistic of the batch is inf or NaN.
struct MovedFn {
  double kept, taken;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T running, T fresh, T other) const {
    const bool finite = fresh - fresh == T(0) && other - other == T(0);
    return finite ? running * T(kept) + fresh * T(taken) : running;
  }
};

}  // namespace

Tensor moved_statistic(const Tensor& running, const Tensor& fresh, const Tensor& other, double momentum,
                       double factor) {
  return map<3>("batch_norm", MovedFn{1 - momentum, momentum * factor}, {&running, &fresh, &other},
                compute_dtype(fresh.dtype()), running.dtype());
}

}  // namespace mezzo::ops
