// Muon's step: one pass for the momentum, which leaves the updates in memory of their own; the iteration by
// products of the library; one pass per parameter that applies the result.
#include "mezzo/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/kernels/optim/update.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo::optim {

namespace {

/// Writes the momentum and the update that is to be made orthogonal; the parameter stays.
template <class T>
struct MuonMomentumFn : kernels::UpdateRule<2> {
  kernels::MovingAverage<T> average;
  T momentum;
  bool nesterov;

  MEZZO_HD static MuonMomentumFn at(const MuonOptions& o, const kernels::StepNow& now) {
    return {{}, kernels::MovingAverage<T>::of(now.rates.momentum), T(now.rates.momentum), o.nesterov};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& /*p*/, T gradient, T* state) const {
    using kernels::math::detail::mul_add;
    state[0] = average.with(state[0], gradient);
    state[1] = nesterov ? mul_add(momentum, state[0] - gradient, gradient) : state[0];
  }
};

/// The options that apply to one parameter.
struct MuonApplication {
  double weight_decay, ratio;
};
template <class T>
struct MuonApplyFn : kernels::UpdateRule<0> {
  T shrinkage, step_size;

  MEZZO_HD static MuonApplyFn at(const MuonApplication& rule, const kernels::StepNow& now) {
    return {{}, T(kernels::shrinkage(now.rates.lr, rule.weight_decay)), T(now.rates.lr * rule.ratio)};
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& p, T direction, T* /*state*/) const {
    using kernels::math::detail::mul_add, kernels::math::detail::multiply;
    p = mul_add(-step_size, direction, multiply(shrinkage, p));
  }
};

double lr_ratio(MuonLrAdjustment adjustment, const Shape& shape) {
  const auto a = static_cast<double>(shape[0]), b = static_cast<double>(shape[1]);
  switch (adjustment) {
    case MuonLrAdjustment::original:
      return std::sqrt(std::max(1.0, a / b));
    case MuonLrAdjustment::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(a, b));
    case MuonLrAdjustment::spectral_unclamped:
      return std::sqrt(a / b);
  }
  return 1;
}

/// A matrix with about the singular vectors of u and singular values of about 1, bf16.
Tensor orthogonal(const Tensor& u, const MuonOptions& o) {
  Tensor x = to(u, DType::bf16);
  const bool is_tall = u.size(0) > u.size(1);
  if (is_tall) x = t(x);
  x = div(x, clamp(norm(x), Scalar(o.eps)));
  for (std::int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(x, t(x));
    x = addmm(x, addmm(gram, gram, gram, o.ns_b, o.ns_c), x, o.ns_a);
  }
  return (is_tall ? t(x) : x).contiguous();
}

}  // namespace

void MuonOptions::check() const {
  require_not_negative(kOptimizer, {{"lr", lr}, {"weight_decay", weight_decay}, {"eps", eps}});
  require_below_one(kOptimizer, {{"momentum", momentum}});
  for (const double number : {ns_a, ns_b, ns_c})
    require_option(kOptimizer, std::isfinite(number), "finite ns_a, ns_b and ns_c", number);
  require_option(kOptimizer, ns_steps >= 0 && ns_steps < 100, "ns_steps in [0, 99]",
                 static_cast<double>(ns_steps));
}

template <>
struct AlgorithmOf<MuonOptions> : AlgorithmDefaults {
  static BufferNames buffers(const MuonOptions& /*o*/) { return {"momentum_buffer"}; }
  static void require_fitting(const MuonOptions& /*o*/, const std::string& name, const Tensor& parameter) {
    if (parameter.dim() == 2) return;
    throw ShapeError("Muon", "parameters of 2 dims",
                     (name.empty() ? "" : name + " ") + to_string(parameter.shape()),
                     "leave the others to AdamW, in an optimizer of their own");
  }
  static void update(const MuonOptions& o, Device device, Updates updates,
                     const kernels::UpdateControl& control) {
    std::vector<kernels::ParameterUpdate> first(updates.begin(), updates.end());
    std::vector<Tensor> directions;
    const Tensor uncounted = zeros({std::ssize(updates)}, {.dtype = DType::i64, .device = device});
    for (std::size_t i = 0; i < first.size(); ++i) {
      kernels::ParameterUpdate& update = first[i];
      const DType dtype = compute_dtype(update.value.dtype);
      directions.push_back(empty(update.value.shape, {.dtype = dtype, .device = device}));
      update.state[1] = ops::view_of(directions[i]);
      update.copies = {};
      update.step = static_cast<std::int64_t*>(uncounted.impl().data()) + i;
    }
    kernels::update<MuonMomentumFn>(device, first, o, control);
    kernels::UpdateControl apply = control;
    apply.unscale = false;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      kernels::ParameterUpdate update = updates[i];
      const Tensor direction = orthogonal(directions[i], o);
      update.gradient = ops::view_of(direction);
      update.state = {};
      const MuonApplication rule{o.weight_decay, lr_ratio(o.adjust_lr_fn, update.value.shape)};
      kernels::update<MuonApplyFn>(device, std::span(&update, 1), rule, apply);
    }
  }
};

template class TypedOptimizer<MuonOptions>;

}  // namespace mezzo::optim
