// Both directions are the passes of an update that changes nothing: kernels/optim has the halves.
#include "mezzo/optim/detail/split_masters.h"

#include "mezzo/kernels/optim/update.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::optim {

namespace {

/// The value stays, or becomes the gradient.
struct MoveRule {
  bool takes_gradient;
};
template <class T>
struct MoveFn : kernels::UpdateRule<0> {
  bool takes_gradient;

  MEZZO_HD static MoveFn at(const MoveRule& rule, const kernels::StepNow& /*now*/) {
    return {{}, rule.takes_gradient};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T gradient, T* /*state*/) const {
    p = takes_gradient ? gradient : p;
  }
};

void move(Device device, kernels::ParameterUpdate& update, bool takes_gradient) {
  const Tensor rates = zeros({2}, {.dtype = DType::f64, .device = device});
  const Tensor counts = zeros({2}, {.dtype = DType::i64, .device = device});  // a step count and a ticket
  auto* const numbers = static_cast<std::int64_t*>(counts.impl().data());
  update.step = numbers;
  const kernels::UpdateControl control{.rates = static_cast<const kernels::Rates*>(rates.impl().data()),
                                       .ticket = reinterpret_cast<std::uint32_t*>(numbers + 1)};
  kernels::update<MoveFn>(device, std::span(&update, 1), MoveRule{takes_gradient}, control);
}

}  // namespace

Tensor joined_masters(const Tensor& parameter, const Tensor& remainder) {
  const Tensor master = empty_like(parameter, DType::f32);
  kernels::ParameterUpdate update;
  update.value = ops::view_of(parameter);
  update.copies[2] = ops::view_of(remainder);
  update.is_split = true;
  update.gradient = update.value;
  update.copies[0] = ops::view_of(master);
  move(parameter.device(), update, false);
  return master;
}

Tensor split_masters(const Tensor& master, const Tensor& parameter) {
  const Tensor remainder = zeros_like(parameter, DType::i16);
  kernels::ParameterUpdate update;
  update.value = ops::view_of(parameter);
  update.copies[2] = ops::view_of(remainder);
  update.is_split = true;
  update.gradient = ops::view_of(master);
  move(parameter.device(), update, true);
  parameter.impl().storage->bump_version();
  return remainder;
}

Tensor followed_masters(const Tensor& master, const Tensor& parameter) {
  Tensor follows = eq(to(master, parameter.dtype()), parameter);
  if (parameter.dtype() == DType::bf16) {
    const Tensor away = empty_like(parameter);
    static_cast<void>(split_masters(master, away));
    follows = logical_or(follows, eq(away, parameter));
  }
  return where(follows, master, to(parameter, DType::f32));
}

}  // namespace mezzo::optim
