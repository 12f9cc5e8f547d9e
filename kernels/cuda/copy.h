// Copies between strided arrays of any dtypes.
#pragma once

#include <array>

#include "mezzo/kernels/cuda/pointwise.h"
#include "mezzo/kernels/scalar_math.h"

namespace mezzo::kernels::cuda {

/// to = from, element by element, rounded once. `from` has the shape of `to`; its strides may be 0.
inline void copy(Device device, const View& to, const View& from) {
  dispatch_compute(promote(to.dtype, from.dtype), [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, scalar::IdentityFn{}, to, std::array{from});
  });
}

}  // namespace mezzo::kernels::cuda
