// Copying a tensor into a part of another, which joins and gradients of slices are made of. Included by
// ops/*.cpp only.
#pragma once

#include "mezzo/kernels/scalar_math.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// slot = x elementwise, converted to slot's dtype with one rounding. Both have one shape; any strides.
inline void copy_into(const Tensor& slot, const Tensor& x) {
  if (x.numel() == 0) return;  // there may be no memory to point to
  // The source's compute type holds its values exactly, so the store is the only rounding.
  kernels::pointwise(slot.device(), kernels::scalar::IdentityFn{}, view_of(slot), std::array{view_of(x)},
                     compute_dtype(x.dtype()));
}

}  // namespace mezzo::ops
