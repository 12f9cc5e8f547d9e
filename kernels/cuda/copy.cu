// The copy is a pointwise identity, computed in the compute type of the two dtypes promoted.
#include "mezzo/kernels/cuda/copy.h"

#include <array>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cuda.h"

namespace mezzo::kernels::cuda {

void copy(Device device, const View& to, const View& from) {
  // Float8 is exact in f16.
  const auto wide = [](DType dtype) { return is_float8(dtype) ? DType::f16 : dtype; };
  dispatch_compute(promote(wide(to.dtype), wide(from.dtype)), [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, scalar::IdentityFn{}, to, std::array{from});
  });
}

}  // namespace mezzo::kernels::cuda
