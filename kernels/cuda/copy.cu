// The copy is a pointwise identity, computed in the compute type of the two dtypes promoted.
#include "mezzo/kernels/cuda/copy.h"

#include <array>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cuda.h"

namespace mezzo::kernels::cuda {

void copy(Device device, const View& to, const View& from) {
  dispatch_compute(promote(to.dtype, from.dtype), [&]<class T>(TypeTag<T>) {
    pointwise<T>(device, scalar::IdentityFn{}, to, std::array{from});
  });
}

}  // namespace mezzo::kernels::cuda
