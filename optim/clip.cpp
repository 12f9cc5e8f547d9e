// Checks around the kernels of gradient clipping (kernels/clip/clip.h). The norm of order 0, the
// number of tensors that are not all zeros, is made of ops. Only error_if_nonfinite reads a value back.
#include "mezzo/optim/clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/autograd/gradient_locks.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/clip/clip.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

namespace {

void require_one_device(std::string_view op, std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.device() == tensors.front().device()) continue;
    throw DeviceError(op, "all gradients on " + to_string(tensors.front().device()),
                      to_string(tensor.device()), "clip those of each device by themselves");
  }
}

/// The gradients that are there, each of which can be written in place. With their locks held.
std::vector<Tensor> gradients_of(std::string_view op, std::span<const Tensor> parameters) {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Tensor& parameter : parameters) {
    if (!parameter.defined())
      throw ValueError(op, "defined parameters", "an undefined tensor", "leave absent ones out");
    const Tensor& gradient = autograd::locked_grad(parameter);
    if (!gradient.defined()) continue;
    require_compute_dtype(op, gradient.dtype());
    require_own_memory(op, gradient, "a gradient");
    gradients.push_back(gradient);
  }
  require_one_device(op, gradients);
  return gradients;
}

void require_max_norm(std::string_view op, double max_norm) {
  if (max_norm >= 0) return;
  throw ValueError(op, "max_norm >= 0", number_text(max_norm),
                   "pass the largest norm that gradients may have");
}

/// How many tensors are not all zeros: their "norm" of order 0, made of theirs.
Tensor count_nonzero(std::span<const Tensor> tensors, DType dtype) {
  std::vector<Tensor> counts;
  for (const Tensor& tensor : tensors) counts.push_back(norm(tensor, 0, {}, false, dtype));
  return norm(stack(counts), 0);
}

Tensor total_norm(std::string_view op, std::span<const Tensor> tensors, double norm_type) {
  if (std::isnan(norm_type))
    throw ValueError(op, "a number norm_type", "NaN", "pass 2 for the Euclidean norm");
  if (tensors.empty()) return zeros({});
  const bool needs_elements = norm_type < 0 || norm_type == std::numeric_limits<double>::infinity();
  DType dtype = DType::f32;
  for (const Tensor& tensor : tensors) {
    require_compute_dtype(op, tensor.dtype());
    if (!is_floating(tensor.dtype()))
      throw DTypeError(op, "floating tensors", to_string(tensor.dtype()), "leave others out");
    if (needs_elements && tensor.numel() == 0) {
      throw ShapeError(op, "elements for a norm of order " + number_text(norm_type),
                       to_string(tensor.shape()), "leave empty tensors out");
    }
    if (tensor.dtype() == DType::f64) dtype = DType::f64;
  }
  if (norm_type == 0) return count_nonzero(tensors, dtype);
  const Device device = tensors.front().device();
  Tensor total = empty({}, {.dtype = dtype, .device = device});
  kernels::total_norm(device, ops::views_of(tensors), norm_type, ops::view_of(total));
  return total;
}

void require_finite(std::string_view op, const Tensor& total) {
  const double value = total.item();
  if (std::isfinite(value)) return;
  throw ValueError(op, "a finite total norm", number_text(value),
                   "look for the source with autograd::detect_anomaly, or pass error_if_nonfinite = false");
}

void scale_to_norm(std::span<const Tensor> gradients, double max_norm, const Tensor& total) {
  kernels::scale_to_norm(total.device(), ops::views_of(gradients), max_norm, ops::view_of(total));
  for (const Tensor& gradient : gradients) gradient.impl().storage->bump_version();
}

}  // namespace

Tensor get_total_norm(TensorList tensors, double norm_type, bool error_if_nonfinite) {
  constexpr std::string_view op = "get_total_norm";
  const PlainOps plain;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined())
      throw ValueError(op, "defined tensors", "an undefined one", "leave absent ones out");
  }
  require_one_device(op, tensors);
  Tensor total = total_norm(op, tensors, norm_type);
  if (error_if_nonfinite) require_finite(op, total);
  return total;
}

Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  constexpr std::string_view op = "clip_grad_norm_";
  const Phase phase("clip");
  const PlainOps plain;
  require_max_norm(op, max_norm);
  const autograd::GradientLocks locks(parameters);
  const std::vector<Tensor> gradients = gradients_of(op, parameters);
  Tensor total = total_norm(op, gradients, norm_type);
  if (gradients.empty()) return parameters.empty() ? total : to(total, parameters[0].device());
  if (error_if_nonfinite) require_finite(op, total);
  scale_to_norm(gradients, max_norm, total);
  return total;
}

void clip_grads_with_norm_(TensorList parameters, double max_norm, const Tensor& total_norm) {
  constexpr std::string_view op = "clip_grads_with_norm_";
  const Phase phase("clip");
  const PlainOps plain;
  require_max_norm(op, max_norm);
  if (!total_norm.defined())
    throw ValueError(op, "a total norm", "an undefined tensor", "pass the result of get_total_norm");
  if (total_norm.numel() != 1)
    throw ShapeError(op, "a total norm of one element", to_string(total_norm.shape()), "pass a scalar");
  require_compute_dtype(op, total_norm.dtype());
  if (!is_floating(total_norm.dtype())) {
    throw DTypeError(op, "a floating total norm", to_string(total_norm.dtype()),
                     "pass the result of get_total_norm");
  }
  const autograd::GradientLocks locks(parameters);
  const std::vector<Tensor> gradients = gradients_of(op, parameters);
  if (gradients.empty()) return;
  if (!(total_norm.device() == gradients.front().device())) {
    throw DeviceError(op, "the total norm on " + to_string(gradients.front().device()),
                      to_string(total_norm.device()), "use to(device)");
  }
  const Tensor norm = total_norm.detach();
  scale_to_norm(gradients, max_norm, is_16bit(norm.dtype()) ? norm.to(DType::f32) : norm);
}

void clip_grad_value_(TensorList parameters, double limit) {
  constexpr std::string_view op = "clip_grad_value_";
  const Phase phase("clip");
  if (!(limit >= 0)) throw ValueError(op, "limit >= 0", number_text(limit), "pass a positive limit");
  const autograd::GradientLocks locks(parameters);
  const std::vector<Tensor> gradients = gradients_of(op, parameters);
  if (gradients.empty()) return;
  kernels::limit_values(gradients.front().device(), ops::views_of(gradients), limit);
  for (const Tensor& gradient : gradients) gradient.impl().storage->bump_version();
}

}  // namespace mezzo::optim
