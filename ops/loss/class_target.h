// Shared by nll_loss and cross_entropy: the checks of targets and weights, and the targets in the forms that
// kernels and plain compositions want.
#pragma once

#include "mezzo/kernels/softmax/softmax.h"
#include "mezzo/ops/loss/common.h"

namespace mezzo::ops {

/// Where the classes are in an input of shape [C], [N, C] or [N, C, d1, ...], and the shape of the rest.
struct ClassDims {
  std::size_t dim = 0;
  std::int64_t classes = 0;
  Shape rows;
};
/// Throws ShapeError for a 0-dim input or one without classes.
[[nodiscard]] ClassDims class_dims(std::string_view op, const Shape& shape);

/// Throws unless the target is i64 class indices of the shape of the rows.
void require_class_indices(std::string_view op, const ClassDims& dims, const Tensor& target);
/// Throws unless `weight` is undefined, or floating of shape [classes].
void require_class_weight(std::string_view op, const ClassDims& dims, const Tensor& weight);

/// A checked target, weight and divisor of the mean in the form kernels take; keeps their memory.
class PreparedTarget {
 public:
  /// Class indices. Throws IndexError for one that is neither a class nor ignore_index.
  PreparedTarget(const char* op, const ClassDims& dims, const Tensor& target, const Tensor& weight,
                 std::int64_t ignore_index, DType compute);

  [[nodiscard]] const kernels::ClassTarget& view() const { return view_; }
  void set_label_smoothing(double value) { view_.label_smoothing = value; }

  /// Losses of the rows (contiguous, in the compute type), reduced and rounded once to `result`.
  [[nodiscard]] Tensor reduced(const Tensor& losses, Reduction reduction, DType result) const;
  /// The factor that grad and reduction put on each row's gradient: one per row, or one number.
  [[nodiscard]] Tensor row_scales(const Tensor& grad, Reduction reduction) const;

 private:
  Tensor target_, weight_;
  Tensor divisor_;  ///< of the mean: f64, one element
  DType compute_;
  kernels::ClassTarget view_;
};

/// Pieces of compositions, all broadcasting to the input's shape, with the class dim in its place.
struct ClassMasks {
  Tensor own;    ///< true at the class of each row that counts
  Tensor valid;  ///< true in rows that count
};
[[nodiscard]] ClassMasks class_masks(const ClassDims& dims, const Tensor& target, std::int64_t ignore_index);
/// [classes] shown along the class dim.
[[nodiscard]] Tensor along_classes(const ClassDims& dims, const Tensor& weight);
/// The divisor of the mean for class indices; differentiable in the weight.
[[nodiscard]] Tensor weight_of_targets(const ClassMasks& masks, const ClassDims& dims, const Tensor& weight,
                                       DType compute);
[[nodiscard]] inline Dims class_dim(const ClassDims& dims) { return {static_cast<std::int64_t>(dims.dim)}; }

}  // namespace mezzo::ops
