// Shared by the reduction families: which dims go, the shapes before and after, and how a gradient gets back.
#pragma once

#include <limits>

#include "mezzo/kernels/reduce/reduce.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/reduction.h"

namespace mezzo {

struct DimAttrs {
  Dims dim;
  bool keepdim = false;
  MEZZO_FIELDS(DimAttrs, dim, keepdim)
};

namespace ops {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The shapes of a reduction.
struct Reduced {
  Reduced(std::string_view op, const Shape& shape, const Dims& dim);

  Dims dims;               ///< the reduced dims: sorted, not negative
  Shape before;            ///< the input's shape
  Shape kept;              ///< `before` with 1 for each reduced dim
  std::int64_t count = 1;  ///< elements per output

  [[nodiscard]] Shape after(bool keepdim) const;
  /// `out`, of shape after(...), shown in the input's shape with stride 0 in the reduced dims.
  [[nodiscard]] kernels::View view(const Tensor& out) const;
  /// A new contiguous result.
  [[nodiscard]] Tensor make(const Tensor& x, bool keepdim, DType dtype) const;
  /// Throws ShapeError when a reduced dim is empty.
  void require_elements(std::string_view op) const;

  /// A tensor of shape after(...) with the reduced dims back as 1.
  [[nodiscard]] Tensor with_dims(const Tensor& result) const;
  /// with_dims(result), repeated to the input's shape without a copy.
  [[nodiscard]] Tensor spread(const Tensor& result) const;
};

/// `mask` marks the elements that an extremum equals: they get equal shares of its gradient.
[[nodiscard]] Tensor share_evenly(const Tensor& gradient, const Tensor& mask, const Reduced& reduced);

}  // namespace ops
}  // namespace mezzo
