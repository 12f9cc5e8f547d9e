#include "mezzo/optim/clip.h"

#include <cmath>
#include <vector>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_layer.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"

namespace mezzo::optim {

namespace {
std::vector<Tensor> gradients_of(std::span<const Tensor> parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}
}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const NoGrad no_grad;
  const LayerGuard no_autocast{LayerState{}};
  if (!(max_norm >= 0)) {
    throw ValueError("clip_grad_norm_", "max_norm >= 0", std::to_string(max_norm),
                     "pass the largest norm that gradients may have");
  }
  const std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) {
    return zeros({}, {.device = parameters.empty() ? Device::cpu() : parameters.front().device()});
  }
  std::vector<Tensor> norms;
  for (const Tensor& gradient : gradients) {
    // 16-bit gradients are measured in f32: their squares would not fit.
    const DType dtype = gradient.dtype() == DType::f64 ? DType::f64 : DType::f32;
    norms.push_back(norm(gradient, norm_type, {}, false, dtype));
  }
  const Tensor total = norm(stack(norms), norm_type);
  if (error_if_nonfinite) {
    const double value = total.item();
    if (!std::isfinite(value)) {
      throw ValueError("clip_grad_norm_", "a finite total norm", std::to_string(value),
                       "look for the source with amp::find_nonfinite, or pass error_if_nonfinite = false");
    }
  }
  const Tensor factor = clamp(max_norm / (total + 1e-6), std::nullopt, 1.0);
  for (const Tensor& gradient : gradients) gradient.mul_(factor);
  return total;
}

void clip_grad_value_(std::span<const Tensor> parameters, double limit) {
  const NoGrad no_grad;
  const LayerGuard no_autocast{LayerState{}};
  if (!(limit >= 0))
    throw ValueError("clip_grad_value_", "limit >= 0", std::to_string(limit), "pass a positive limit");
  for (const Tensor& gradient : gradients_of(parameters)) gradient.copy_(clamp(gradient, -limit, limit));
}

}  // namespace mezzo::optim
