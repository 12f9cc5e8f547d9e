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
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::cuda {

namespace detail {

/// Operands of a pointwise kernel; arrays[N] is the result. Bit k of `constants`: operand k is one value.
template <std::size_t N>
struct PointwiseArrays {
  Array arrays[N + 1];
  std::uint32_t constants;
  bool joined;  ///< packs are taken in pairs of neighbours, for 16-bit arrays (see TwoPacks)

  /// Elements that are taken in packs; those behind them are fewer than a warp has lanes.
  [[nodiscard]] MEZZO_HD std::int64_t in_packs(std::int64_t total) const {
    return joined ? total / (2 * kPack) * (2 * kPack) : total / kPack * kPack;
  }
};

/// A NaN that is copied keeps its sign; one that is computed has none to keep.
template <class F>
inline constexpr NanSign kNanSign = std::is_same_v<F, scalar::IdentityFn> ? NanSign::kept : NanSign::any;

/// Float8 elements are copied and cast, nothing else.
template <class F>
inline constexpr Among kAmong = std::is_same_v<F, scalar::IdentityFn> ? Among::stored : Among::all;

/// Threads of a block of pointwise_linear, whose threads take two packs each and end: on an H200 that is as
/// fast as a copy, where 256 threads take 3 % longer and threads that go on by steps of the whole grid 9 %.
inline constexpr unsigned kLinearThreads = 128;

/// out[i] = f(in[i]...) for two packs: neighbours, or the second a block's threads behind the first. Where
/// the array ends between them, the second is the first once more.
template <class T, class F, std::size_t N, std::size_t... I>
__device__ MEZZO_ALWAYS_INLINE void pointwise_packs(const F& f, const PointwiseArrays<N>& operands,
                                                    std::int64_t total, std::index_sequence<I...>) {
  using R = decltype(f((static_cast<void>(I), T{})...));
  const std::int64_t packs = operands.in_packs(total) / kPack;
  const std::int64_t block = std::int64_t{2} * blockIdx.x * blockDim.x;
  const std::int64_t p = block + (operands.joined ? 2 : 1) * threadIdx.x;
  const std::int64_t distance = operands.joined ? 1 : blockDim.x;
  if (p < packs) {
    const TwoPacks at{p, p + distance < packs ? p + distance : p, operands.joined};
    T in[N][2 * kPack];
    for (std::size_t k = 0; k < N; ++k) {
      if ((operands.constants >> k & 1U) != 0) {
        const T value = load<T, kAmong<F>>(operands.arrays[k].data, operands.arrays[k].dtype, 0);
        for (int j = 0; j < 2 * kPack; ++j) in[k][j] = value;
      } else {
        load_two_packs<T, Among::packed, kNanSign<F>>(operands.arrays[k], at, in[k]);
      }
    }
    R out[2 * kPack];
    for (int j = 0; j < 2 * kPack; ++j) out[j] = f(in[I][j]...);
    store_two_packs<R, Among::packed, kNanSign<F>>(operands.arrays[N], at, out);
  }
}

template <class T, class F, std::size_t N, std::size_t... I>
__device__ MEZZO_ALWAYS_INLINE void pointwise_one(const F& f, const PointwiseArrays<N>& operands,
                                                  const std::int64_t (&at)[N + 1],
                                                  std::index_sequence<I...>) {
  using R = decltype(f((static_cast<void>(I), T{})...));
  const R result = f(load<T, kAmong<F>>(operands.arrays[I].data, operands.arrays[I].dtype, at[I])...);
  store<R, kAmong<F>>(operands.arrays[N].data, operands.arrays[N].dtype, at[N], result);
}

/// All arrays are one run each, or one value, and aligned to packs (joined arrays to two packs).
template <class F, std::size_t N>
__global__ void pointwise_linear(F f, PointwiseArrays<N> operands, std::int64_t total) {
  using T = float;
  pointwise_packs<T>(f, operands, total, std::make_index_sequence<N>{});
  // The rest, of fewer than two packs: the first threads, of whatever grid there is, have it.
  const std::int64_t i = operands.in_packs(total) + first_index();
  if (i < total) {
    std::int64_t at[N + 1];
    for (std::size_t k = 0; k <= N; ++k) at[k] = (operands.constants >> k & 1U) != 0 ? 0 : i;
    pointwise_one<T>(f, operands, at, std::make_index_sequence<N>{});
  }
}

/// Of 2^31 - 1 blocks at most, which take 2^41 elements.
[[nodiscard]] inline Grid linear_grid(std::int64_t total) {
  const std::int64_t items = (total + 2 * kPack - 1) / (2 * kPack);
  const auto threads =
      static_cast<unsigned>(std::min<std::int64_t>((items + kWarp - 1) / kWarp * kWarp, kLinearThreads));
  return {static_cast<unsigned>((items + threads - 1) / threads), threads};
}

/// Whether f has a form of its own for a 16-bit argument and result (kernels/math/float_parts.h, Fused), with
/// the bits of the other after rounding.
template <class F>
concept Has16BitForm = requires(F f) {
  f.of_16_bits(0.0F);
};

/// Its loop over runs of S that are aligned to vectors of eight: a thread has two of these, so that twice as
/// much is in flight while it computes.
template <class S, class F>
__global__ void __launch_bounds__(kLinearThreads)
    pointwise_16_bits(F f, const S* in, S* out, std::int64_t total) {
  constexpr int kEight = 2 * kPack;
  const std::int64_t vectors = total / kEight;
  const std::int64_t v = 2 * (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  const auto* const from = reinterpret_cast<const RawWords<kPack>*>(in);
  auto* const to = reinterpret_cast<RawWords<kPack>*>(out);
  if (v < vectors) {
    const bool both = v + 1 < vectors;
    RawWords<kPack> first = from[v], second = from[both ? v + 1 : v];
    float values[2][kEight];
    widen_words<S, NanSign::any>(first.words, values[0]);
    widen_words<S, NanSign::any>(second.words, values[1]);
    for (int k = 0; k < kEight; ++k) values[0][k] = f.of_16_bits(values[0][k]);
    for (int k = 0; k < kEight; ++k) values[1][k] = f.of_16_bits(values[1][k]);
    narrow_words<S, NanSign::any>(values[0], first.words);
    narrow_words<S, NanSign::any>(values[1], second.words);
    to[v] = first;
    if (both) to[v + 1] = second;
  }
  const std::int64_t i = vectors * kEight + first_index();  // the rest: fewer than eight
  if (i < total) out[i] = convert<S>(f.of_16_bits(convert<float>(in[i])));
}
template <class F>
void start_16_bits(Device device, F f, const View& out, const View& in, std::int64_t total) {
  const auto start = [&]<class S>(S /*stored*/) {
    constexpr std::int64_t kEach = 4 * kPack * std::int64_t{kLinearThreads};
    mezzo::cuda::launch(pointwise_16_bits<S, F>, dim3(static_cast<unsigned>((total + kEach - 1) / kEach)),
                        dim3(kLinearThreads), 0, mezzo::cuda::current_stream(device), f,
                        static_cast<const S*>(in.data), static_cast<S*>(out.data), total);
  };
  in.dtype == DType::f16 ? start(Half{}) : start(BFloat16{});
}

template <class T, class F, std::size_t N>
__global__ void pointwise_strided(F f, PointwiseArrays<N> operands, Space<N + 1> space) {
  for (std::int64_t i = first_index(); i < space.total(); i += grid_size()) {
    std::int64_t at[N + 1];
    space.offsets(i, at);
    pointwise_one<T>(f, operands, at, std::make_index_sequence<N>{});
  }
}

/// The layout of a launch's arrays. It depends on no functor, so that it is compiled once for each number of
/// operands.
template <std::size_t N>
struct PointwisePlan {
  PointwiseArrays<N> operands{};
  Space<N + 1> space;
  bool linear = false;  ///< pointwise_linear takes them
};

/// `packs`: inputs are read as f32, as pointwise_linear does.
template <std::size_t N>
[[gnu::noinline]] PointwisePlan<N> plan_pointwise(const View& out, const std::array<View, N>& in,
                                                  bool packs) {
  PointwisePlan<N> plan;
  PointwiseArrays<N>& operands = plan.operands;
  std::array<Dims, N + 1> strides;
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = in[k].strides;
    operands.arrays[k] = array_of(in[k]);
  }
  strides[N] = out.strides;
  operands.arrays[N] = array_of(out);
  // Along the memory of the result: neighbouring threads write neighbours in any format.
  Shape shape = out.shape;
  layout::order_along(shape, strides, N);
  plan.space = Space<N + 1>(shape, strides);
  bool joins = false, can_join = true;
  plan.linear = packs;
  for (std::size_t k = 0; k <= N && plan.linear; ++k) {
    const Array& array = operands.arrays[k];
    if (k < N && plan.space.constant(k)) {
      operands.constants |= 1U << k;
      continue;
    }
    plan.linear = plan.space.linear(k) && is_among(Among::packed, array.dtype) && takes_packs(array);
    if (!is_16_bit(array.dtype)) continue;
    joins = true;
    can_join = can_join && is_aligned_to(array, 2 * kPack);
  }
  operands.joined = joins && can_join;
  return plan;
}

}  // namespace detail

/// See kernels::pointwise; inputs are read as T (float, double or std::int64_t).
template <class T, class F, std::size_t N>
void pointwise(Device device, F f, const View& out, const std::array<View, N>& in) {
  static_assert(std::is_trivially_copyable_v<F>, "a functor is copied to the device");
  const auto plan = detail::plan_pointwise<N>(out, in, std::is_same_v<T, float>);
  const std::int64_t total = plan.space.total();
  if (total == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if constexpr (detail::Has16BitForm<F>) {
      if (plan.linear && plan.operands.joined && plan.operands.constants == 0 && in[0].dtype == out.dtype)
        return detail::start_16_bits(device, f, out, in[0], total);
    }
    if (plan.linear) {
      const Grid grid = detail::linear_grid(total);
      return mezzo::cuda::launch(detail::pointwise_linear<F, N>, grid.blocks, grid.threads, 0,
                                 mezzo::cuda::current_stream(device), f, plan.operands, total);
    }
  }
  start_resident(device, total, detail::pointwise_strided<T, F, N>, f, plan.operands, plan.space);
}

}  // namespace mezzo::kernels::cuda
