// The shapes around a reduction: a result is viewed with stride 0 in the reduced dims, and a gradient is
// expanded over them. Equal extrema share their gradient evenly.
#include "mezzo/ops/reduce/common.h"

#include "mezzo/ops/ops.h"

namespace mezzo::ops {

Reduced::Reduced(std::string_view op, const Shape& shape, const Dims& dim)
    : dims(layout::wrap_dims(op, dim, shape.size())), before(shape), kept(shape) {
  for (const std::int64_t d : dims) {
    kept[static_cast<std::size_t>(d)] = 1;
    count *= shape[static_cast<std::size_t>(d)];
  }
}

Shape Reduced::after(bool keepdim) const {
  if (keepdim) return kept;
  Shape result;
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (!dims.contains(static_cast<std::int64_t>(d))) result.push_back(before[d]);
  }
  return result;
}

kernels::View Reduced::view(const Tensor& out) const {
  Dims strides = layout::contiguous_strides(kept);
  for (const std::int64_t d : dims) strides[static_cast<std::size_t>(d)] = 0;
  return {out.impl().data(), out.dtype(), before, strides};
}

Tensor Reduced::make(const Tensor& x, bool keepdim, DType dtype) const {
  return empty(after(keepdim), {.dtype = dtype, .device = x.device()});
}

void Reduced::require_elements(std::string_view op) const {
  if (count > 0) return;
  throw ShapeError(op, "at least one element to choose from", "shape " + to_string(before),
                   "leave empty tensors out");
}

Tensor Reduced::with_dims(const Tensor& result) const { return reshape(result, kept); }

Tensor Reduced::spread(const Tensor& result) const { return expand(with_dims(result), before); }

Tensor share_evenly(const Tensor& gradient, const Tensor& mask, const Reduced& reduced) {
  // Without an equal element (the extremum is NaN) the share is not finite, and so is then every gradient.
  const Tensor share = div(reduced.with_dims(gradient), sum(mask, reduced.dims, true));
  return mul(share, mask);
}

}  // namespace mezzo::ops
