// What the reduction ops share: the dims an attribute names, the reduced shape, and gradients back over the
// dims that went. Included by ops/{reduction,extremum,statistics}.cpp only.
#pragma once

#include "mezzo/kernels/reduce.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/shape.h"

namespace mezzo::ops {

/// Which dims go and what is left.
struct Reduction {
  Dims dims;     ///< wrapped, sorted
  Shape kept;    ///< the input's shape with size 1 in the reduced dims
  Shape result;  ///< `kept`, or without these dims when keepdim is off
};

[[nodiscard]] inline Reduction reduction_of(std::string_view op, const Shape& shape, const Dims& dim,
                                            bool keepdim) {
  Reduction reduction{layout::wrap_dims(op, dim, shape.size()), shape, {}};
  for (const std::int64_t d : reduction.dims) reduction.kept[static_cast<std::size_t>(d)] = 1;
  if (keepdim) {
    reduction.result = reduction.kept;
    return reduction;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reduction.dims.contains(static_cast<std::int64_t>(i))) reduction.result.push_back(shape[i]);
  }
  return reduction;
}

/// Number of elements that become one.
[[nodiscard]] inline std::int64_t reduced_count(const Shape& shape, const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= shape[static_cast<std::size_t>(d)];
  return count;
}

/// A new tensor for the results of a reduction of x, and the kernel's view of it in x's shape.
struct ReductionTarget {
  Tensor out;
  kernels::View view;
};
[[nodiscard]] inline ReductionTarget target_of(const Tensor& x, const Reduction& reduction, DType dtype) {
  const Tensor out = empty(reduction.result, {.dtype = dtype, .device = x.device()});
  Dims strides = layout::contiguous_strides(reduction.kept);
  for (const std::int64_t d : reduction.dims) strides[static_cast<std::size_t>(d)] = 0;
  return {out, {out.impl().data(), dtype, x.shape(), strides}};
}

/// A result or its gradient with the reduced dims back as size 1, ready to broadcast against the input.
[[nodiscard]] inline Tensor with_kept_dims(const Tensor& reduced, const Reduction& reduction) {
  return reduced.shape() == reduction.kept ? reduced : reshape(reduced, reduction.kept);
}

}  // namespace mezzo::ops
