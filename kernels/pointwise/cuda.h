// The CUDA loop behind kernels::pointwise: one kernel for arrays that lie alike in memory, eight elements per
// thread in vectors of 16 bytes, and one for any strides. The first is compiled for what a training
// step mostly computes, f32 arithmetic on f16, bf16, f32 and bool arrays: each dtype that it knows is in it
// once per operand. The second takes all the rest; neighbouring threads read neighbours there as well, and
// 8-byte elements fill whole memory transactions without packs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/resident_grid.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::cuda {

namespace detail {

/// Operands of a pointwise kernel; arrays[N] is the result. Bit k of `constants`: operand k is one value.
template <std::size_t N>
struct PointwiseArrays {
  Array arrays[N + 1];
  std::uint32_t constants;
  bool joined;         ///< packs are taken in pairs of neighbours, for 16-bit arrays (see TwoPacks)
  std::int64_t packs;  ///< an even number where they are joined; the elements behind them are fewer than 8
};

/// A NaN that is copied keeps its sign; one that is computed has none to keep.
template <class F>
inline constexpr NanSign kNanSign = std::is_same_v<F, scalar::IdentityFn> ? NanSign::kept : NanSign::any;

/// Threads of a block of pointwise_linear. Each takes two packs and is done: blocks that come and go one by
/// one keep memory busier than a resident grid whose threads loop. An H200 copies f32 at 4.15 TB/s so,
/// at 4.04 with 256 threads, at 3.8 with loops of any shape.
inline constexpr std::int64_t kLinearThreads = 128;

/// A grid with a thread for each two packs, in blocks of at least a warp, as the elements behind the packs
/// have a thread each.
[[nodiscard]] inline Grid linear_grid(std::int64_t packs) {
  const std::int64_t pairs = std::max<std::int64_t>((packs + 1) / 2, 1);
  const std::int64_t threads = std::min((pairs + kWarp - 1) / kWarp * kWarp, kLinearThreads);
  return {static_cast<unsigned>((pairs + threads - 1) / threads), static_cast<unsigned>(threads)};
}

/// out[i] = f(in[i]...) for the elements in packs, two packs per thread: neighbours, or the second a block's
/// threads behind the first, so that the vectors of neighbouring threads are neighbours. Where the array ends
/// between them, the second is the first once more.
template <class T, class F, std::size_t N, std::size_t... I>
__device__ MEZZO_ALWAYS_INLINE void pointwise_packs(const F& f, const PointwiseArrays<N>& operands,
                                                    std::index_sequence<I...>) {
  using R = decltype(f((static_cast<void>(I), T{})...));
  const std::int64_t threads = blockDim.x, of_block = 2 * threads * blockIdx.x;
  const std::int64_t first = of_block + (operands.joined ? 2 * threadIdx.x : threadIdx.x);
  if (first >= operands.packs) return;
  const std::int64_t next = first + (operands.joined ? 1 : threads);
  const TwoPacks at{first, next < operands.packs ? next : first, operands.joined};
  T in[N][2 * kPack];
  for (std::size_t k = 0; k < N; ++k) {
    if ((operands.constants >> k & 1U) != 0) {
      const T value = load<T>(operands.arrays[k].data, operands.arrays[k].dtype, 0);
      for (int j = 0; j < 2 * kPack; ++j) in[k][j] = value;
    } else {
      load_two_packs<T, Among::packed, kNanSign<F>>(operands.arrays[k], at, in[k]);
    }
  }
  R out[2 * kPack];
  for (int j = 0; j < 2 * kPack; ++j) out[j] = f(in[I][j]...);
  store_two_packs<R, Among::packed, kNanSign<F>>(operands.arrays[N], at, out);
}

template <class T, class F, std::size_t N, std::size_t... I>
__device__ MEZZO_ALWAYS_INLINE void pointwise_one(const F& f, const PointwiseArrays<N>& operands,
                                                  const std::int64_t (&at)[N + 1],
                                                  std::index_sequence<I...>) {
  using R = decltype(f((static_cast<void>(I), T{})...));
  const R result = f(load<T>(operands.arrays[I].data, operands.arrays[I].dtype, at[I])...);
  store<R>(operands.arrays[N].data, operands.arrays[N].dtype, at[N], result);
}

/// All arrays are one run each, or one value, and aligned to packs (joined ones to two).
template <class F, std::size_t N>
__global__ void pointwise_linear(F f, PointwiseArrays<N> operands, std::int64_t total) {
  using T = float;
  pointwise_packs<T>(f, operands, std::make_index_sequence<N>{});
  const std::int64_t i = kPack * operands.packs + first_index();  // the rest
  if (i < total) {
    std::int64_t at[N + 1];
    for (std::size_t k = 0; k <= N; ++k) at[k] = (operands.constants >> k & 1U) != 0 ? 0 : i;
    pointwise_one<T>(f, operands, at, std::make_index_sequence<N>{});
  }
}

template <class T, class F, std::size_t N>
__global__ void pointwise_strided(F f, PointwiseArrays<N> operands, Space<N + 1> space) {
  for (std::int64_t i = first_index(); i < space.total(); i += grid_size()) {
    std::int64_t at[N + 1];
    space.offsets(i, at);
    pointwise_one<T>(f, operands, at, std::make_index_sequence<N>{});
  }
}

}  // namespace detail

/// See kernels::pointwise; inputs are read as T (float, double or std::int64_t).
template <class T, class F, std::size_t N>
void pointwise(Device device, F f, const View& out, const std::array<View, N>& in) {
  static_assert(std::is_trivially_copyable_v<F>, "a functor is copied to the device");
  std::array<Dims, N + 1> strides;
  detail::PointwiseArrays<N> operands{};
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = in[k].strides;
    operands.arrays[k] = {in[k].data, in[k].dtype};
  }
  strides[N] = out.strides;
  operands.arrays[N] = {out.data, out.dtype};
  // Along the memory of the result: neighbouring threads write neighbours in any format.
  Shape shape = out.shape;
  layout::order_along(shape, strides, N);
  const Space<N + 1> space(shape, strides);
  const std::int64_t total = space.total();
  if (total == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    const auto packed = [&](std::size_t k) {
      return space.linear(k) && is_among(Among::packed, operands.arrays[k].dtype) &&
             takes_packs(operands.arrays[k]);
    };
    bool linear = true, joins = false, can_join = true;
    for (std::size_t k = 0; k <= N; ++k) {
      if (k < N && space.constant(k)) {
        operands.constants |= 1U << k;
        continue;
      }
      linear = linear && packed(k);
      if (!is_16_bit(operands.arrays[k].dtype)) continue;
      joins = true;
      can_join = can_join && is_aligned_to(operands.arrays[k], 2 * kPack);
    }
    operands.joined = joins && can_join;
    if (linear) {
      operands.packs = operands.joined ? total / (2 * kPack) * 2 : total / kPack;
      const Grid grid = detail::linear_grid(operands.packs);
      return mezzo::cuda::launch(detail::pointwise_linear<F, N>, grid.blocks, grid.threads, 0,
                                 mezzo::cuda::current_stream(device), f, operands, total);
    }
  }
  const Grid grid = resident_grid(detail::pointwise_strided<T, F, N>, total, device);
  mezzo::cuda::launch(detail::pointwise_strided<T, F, N>, grid.blocks, grid.threads, 0,
                      mezzo::cuda::current_stream(device), f, operands, space);
}

}  // namespace mezzo::kernels::cuda
