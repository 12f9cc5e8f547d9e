// Arrays that are computed from the index alone. In blocks of four, because that is what one Philox counter
// gives; constants and ranges do not mind.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/random/cpu_generate.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/random/cuda_generate.h"
#endif

namespace mezzo::kernels {

/// Elements 4 b to 4 b + 3 of `out`, in row-major order, = the four values that `f(b, values)` stores,
/// converted to out's dtype with one rounding. f is a small trivially copyable object with `MEZZO_HD void
/// operator()(std::int64_t block, T* values) const`; T is float, double or std::int64_t.
template <class T, class F, bool kDeviceCode = MEZZO_DEVICE_CODE>
void generate(Device device, F f, const View& out) {
  MEZZO_ON_CUDA(cuda::generate<T>(device, f, out))
  cpu::generate<T>(f, out);
}

/// One value everywhere.
template <class T>
struct Constant {
  T value;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t /*block*/, T* values) const {
    for (int i = 0; i < 4; ++i) values[i] = value;
  }
};

}  // namespace mezzo::kernels
