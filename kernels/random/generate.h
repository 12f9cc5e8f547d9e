// Arrays that are computed from the index alone. In blocks of four, because that is what one Philox counter
// gives; constants and ranges do not mind.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/device_code.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/cuda/strided.h"
#endif

namespace mezzo::kernels::cpu {

namespace detail {

template <class F, class T>
struct GenerateTile {
  static void run(F f, T* out, std::int64_t first_block, std::int64_t n) {
    const std::int64_t blocks = n / 4;
    for (std::int64_t b = 0; b < blocks; ++b) f(first_block + b, out + 4 * b);
    if (n % 4 == 0) return;
    T last[4];
    f(first_block + blocks, last);
    for (std::int64_t i = 0; i < n % 4; ++i) out[4 * blocks + i] = last[i];
  }
};

}  // namespace detail

/// kernels::generate below.
template <class T, class F>
void generate(F f, const View& out) {
  Shape shape = out.shape;
  std::array<Dims, 1> strides{out.strides};
  const std::int64_t total = layout::numel(shape);
  if (total == 0) return;
  layout::collapse(shape, strides);
  const TileOperand target(out, shape, strides[0]);
  static_assert(kTile % 4 == 0);
  parallel_for(total, 32 * kTile, [&](std::int64_t begin, std::int64_t end) {
    TileBuffer<T> buffer;
    for (std::int64_t at = begin; at < end; at += kTile) {
      const std::int64_t n = std::min(kTile, end - at);
      run_isa<detail::GenerateTile<F, T>>(f, target.target<T>(at, buffer), at / 4, n);
      target.finish<T>(at, n, buffer);
    }
  });
}

}  // namespace mezzo::kernels::cpu

#if MEZZO_DEVICE_CODE
namespace mezzo::kernels::cuda {

namespace detail {

template <class T, class F>
__global__ void generate(F f, Array out, Space<1> space) {
  if constexpr (requires { f.words.read_base(); }) f.words.read_base();
  const std::int64_t total = space.total();
  for (std::int64_t block = first_index(); 4 * block < total; block += grid_size()) {
    T values[4];
    f(block, values);
    const std::int64_t rest = total - 4 * block;
    for (std::int64_t i = 0; i < 4 && i < rest; ++i) {
      store(out.data, out.dtype, space.offset(4 * block + i), values[i]);
    }
  }
}

}  // namespace detail

/// kernels::generate below: a thread per block of four elements.
template <class T, class F>
void generate(Device device, F f, const View& out) {
  const Space<1> space(out.shape, {out.strides});
  start_resident(device, (space.total() + 3) / 4, detail::generate<T, F>, f, Array{out.data, out.dtype},
                 space);
}

}  // namespace mezzo::kernels::cuda
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
