// Class targets made ready: checks, class weights in the compute type, and the divisor of the mean in
// device memory. A wrong label throws at once on the CPU; on a CUDA device it becomes a fault
// (core/cuda/fault.h).
#include "mezzo/ops/loss/class_target.h"

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/reduce/reduce.h"
#include "mezzo/ops/ops.h"

namespace mezzo::ops {

namespace {

Tensor class_weights(const ClassDims& dims, const Tensor& weight, const TensorOptions& options) {
  return weight.defined() ? to(weight, options.dtype).contiguous() : ones({dims.classes}, options);
}

}  // namespace

ClassDims class_dims(std::string_view op, const Shape& shape) {
  if (shape.empty()) {
    throw ShapeError(op, "an input of shape [C], [N, C] or [N, C, d1, ...]", "[]", "add a dim of classes");
  }
  ClassDims dims{.dim = shape.size() == 1 ? std::size_t{0} : std::size_t{1}, .rows = shape};
  dims.classes = shape[dims.dim];
  dims.rows.erase(dims.dim);
  if (dims.classes == 0) {
    throw ShapeError(op, "at least one class", to_string(shape),
                     "the classes are dim " + std::to_string(dims.dim));
  }
  return dims;
}

void require_class_indices(std::string_view op, const ClassDims& dims, const Tensor& target) {
  if (target.dtype() != DType::i64) {
    throw DTypeError(op, "class indices of dtype i64", to_string(target.dtype()),
                     "convert the target with to(DType::i64)");
  }
  if (target.shape() == dims.rows) return;
  throw ShapeError(op, "a target of shape " + to_string(dims.rows), to_string(target.shape()),
                   "pass one class index per row: the input's shape without dim " + std::to_string(dims.dim));
}

void require_class_weight(std::string_view op, const ClassDims& dims, const Tensor& weight) {
  if (!weight.defined()) return;
  require_floating(op, weight);
  if (weight.shape() == Shape{dims.classes}) return;
  throw ShapeError(op, "a weight of shape " + to_string(Shape{dims.classes}), to_string(weight.shape()),
                   "pass one weight per class");
}

PreparedTarget::PreparedTarget(const char* op, const ClassDims& dims, const Tensor& target,
                               const Tensor& weight, std::int64_t ignore_index, DType compute)
    : target_(target.contiguous()), compute_(compute) {
  const Device device = target.device();
  weight_ = class_weights(dims, weight, {.dtype = compute, .device = device});
  divisor_ = empty({}, {.dtype = DType::f64, .device = device});
  view_.index = static_cast<const std::int64_t*>(target_.impl().data());
  view_.weight = weight_.impl().data();
  view_.ignore_index = ignore_index;
  const std::int64_t wrong = kernels::count_classes(device, op, view_, target_.numel(), dims.classes,
                                                    static_cast<double*>(divisor_.impl().data()), compute);
  if (wrong < 0) return;
  throw IndexError(
      op,
      "a class in [0, " + std::to_string(dims.classes) + ") or ignore_index " + std::to_string(ignore_index),
      std::to_string(view_.index[wrong]) + " at position " + std::to_string(wrong),
      "check the labels against the number of classes");
}

Tensor PreparedTarget::reduced(const Tensor& losses, Reduction reduction, DType result) const {
  if (reduction == Reduction::none) return to(losses, result);
  Tensor out = empty({}, {.dtype = result, .device = losses.device()});
  const std::array in{view_of(losses)};
  const auto* const divisor = static_cast<const double*>(divisor_.impl().data());
  kernels::map_reduce(losses.device(), kernels::SameValue{}, view_of(out), in, compute_,
                      reduction == Reduction::sum ? kernels::kKeepSum : kernels::divide_by(divisor));
  return out;
}

Tensor PreparedTarget::row_scales(const Tensor& grad, Reduction reduction) const {
  if (reduction != Reduction::mean) return to(grad, compute_).contiguous();
  Tensor out = empty({}, {.dtype = compute_, .device = grad.device()});
  kernels::pointwise_real(grad.device(), kernels::scalar::DivFn{}, view_of(out),
                          std::array{view_of(grad), view_of(divisor_)}, DType::f64);
  return out;
}

Tensor along_classes(const ClassDims& dims, const Tensor& weight) {
  Shape shape(dims.rows.size() + 1, 1);
  shape[dims.dim] = dims.classes;
  return reshape(weight, shape);
}

ClassMasks class_masks(const ClassDims& dims, const Tensor& target, std::int64_t ignore_index) {
  const Tensor rows = unsqueeze(target, static_cast<std::int64_t>(dims.dim));
  const Tensor classes = arange(0, dims.classes, 1, {.dtype = DType::i64, .device = target.device()});
  const Tensor valid = ne(rows, ignore_index);
  return {.own = logical_and(eq(rows, along_classes(dims, classes)), valid), .valid = valid};
}

Tensor weight_of_targets(const ClassMasks& masks, const ClassDims& dims, const Tensor& weight,
                         DType compute) {
  if (!weight.defined()) return sum(to(masks.own, compute));
  return sum(where(masks.own, along_classes(dims, weight), 0.0));
}

}  // namespace mezzo::ops
