// The CPU's pointwise loop: tiles over the collapsed layout, threads over chunks of tiles, one vector loop
// per functor and compute type in three instruction sets.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/pointwise_16bit.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/math.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// Functors of one float that have a cheaper twin F::Near with the same bits for |x| < math::kNearZero.
template <class F, class T>
concept HasNear = std::is_same_v<T, float> && requires {
  typename F::Near;
};

template <class F, class R, class T, std::size_t N>
struct PointwiseTile {
  static void run(F f, R* out, std::array<const T*, N> in, std::int64_t n) {
    if constexpr (HasNear<F, T>) {
      if (is_near(in[0], n)) return map_loop(in, out, n, typename F::Near{});
    }
    map_loop(in, out, n, f);
  }

 private:
  [[gnu::always_inline]] static bool is_near(const float* x, std::int64_t n) {
    std::int32_t largest = 0;  // magnitudes as integers, which are in order; NaN is above all numbers
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, math::detail::magnitude_bits(x[i]));
    return math::detail::bit_cast<float>(largest) < math::kNearZero;
  }
};

/// One tile of a loop whose functor is behind `functor`.
template <class R, class T, std::size_t N>
using TileFunction = void (*)(const void* functor, R* out, std::array<const T*, N> in, std::int64_t n);

/// The loop over tiles, in chunks for the threads. It knows the functor by address only: there is one such
/// loop per types and number of operands, and not one per op, which would be a sixth of the library.
template <class R, class T, std::size_t N>
void pointwise_tiles(const void* functor, TileFunction<R, T, N> apply, const TileOperand& target,
                     const std::array<TileOperand, N>& operands, std::int64_t total) {
  cpu::parallel_for(total, 32 * kTile, [&](std::int64_t begin, std::int64_t end) {
    std::array<TileBuffer<T>, N> buffers;
    TileBuffer<R> result;
    for (std::int64_t at = begin; at < end; at += kTile) {
      const std::int64_t n = std::min(kTile, end - at);
      std::array<const T*, N> tiles;
      for (std::size_t k = 0; k < N; ++k) tiles[k] = operands[k].template read<T>(at, n, buffers[k]);
      apply(functor, target.template target<R>(at, result), tiles, n);
      target.template finish<R>(at, n, result);
    }
  });
}

/// The same over views of any strides.
template <class R, class T, std::size_t N>
void pointwise_strided(const void* functor, TileFunction<R, T, N> apply, const View& out,
                       const std::array<View, N>& in, std::int64_t total) {
  std::array<Dims, N + 1> strides;
  strides[N] = out.strides;
  for (std::size_t k = 0; k < N; ++k) strides[k] = in[k].strides;
  Shape shape = out.shape;
  layout::order_along(shape, strides, N);
  layout::collapse(shape, strides);
  const auto operands = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<TileOperand, N>{TileOperand(in[I], shape, strides[I])...};
  }
  (std::make_index_sequence<N>{});
  pointwise_tiles(functor, apply, TileOperand(out, shape, strides[N]), operands, total);
}

/// The same over views whose elements lie one after the other.
template <class R, class T, std::size_t N>
void pointwise_linear(const void* functor, TileFunction<R, T, N> apply, const View& out,
                      const std::array<View, N>& in, std::int64_t total) {
  const auto operands = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<TileOperand, N>{TileOperand(in[I])...};
  }
  (std::make_index_sequence<N>{});
  pointwise_tiles(functor, apply, TileOperand(out), operands, total);
}

/// Whether all operands lie in memory as the result does, without gaps: most calls. In which of the two
/// formats does not matter to elements that are taken one by one.
inline bool lies_alike(const View& out, std::span<const View> in) {
  return (layout::is_contiguous(out.shape, out.strides) ||
          layout::is_dense_in(out.shape, out.strides, MemoryFormat::channels_last)) &&
         std::all_of(in.begin(), in.end(), [&](const View& view) { return view.strides == out.strides; });
}

/// Runs the loop without buffers if there is one for operands that all have the type H. They lie one after
/// the other.
template <class H, class F, std::size_t N>
bool pointwise_fused(F f, const View& out, const std::array<View, N>& in, std::int64_t total) {
  std::array<const H*, N> from;
  for (std::size_t k = 0; k < N; ++k) {
    if (in[k].dtype != out.dtype) return false;
    from[k] = static_cast<const H*>(in[k].data);
  }
  return pointwise_16bit(f, static_cast<H*>(out.data), from, total);
}

}  // namespace detail

/// out[i] = f(in[0][i], ..., in[N-1][i]) with operands converted to T and the result stored in out's dtype.
/// The views have one shape (inputs expanded to it).
template <class T, class F, std::size_t N>
void pointwise(F f, const View& out, const std::array<View, N>& in) {
  using R = decltype([]<std::size_t... I>(F g, std::index_sequence<I...>) {
    return g((static_cast<void>(I), T{})...);
  }(f, std::make_index_sequence<N>{}));
  const std::int64_t total = layout::numel(out.shape);
  if (total == 0) return;
  const auto apply = [](const void* functor, R* to, std::array<const T*, N> from, std::int64_t n) {
    run_isa<detail::PointwiseTile<F, R, T, N>>(*static_cast<const F*>(functor), to, from, n);
  };
  if (!detail::lies_alike(out, in)) return detail::pointwise_strided<R, T, N>(&f, apply, out, in, total);
  if constexpr (std::is_same_v<T, float> && Fuses16Bit<F>) {
    if (out.dtype == DType::f16 && detail::pointwise_fused<Half>(f, out, in, total)) return;
    if (out.dtype == DType::bf16 && detail::pointwise_fused<BFloat16>(f, out, in, total)) return;
  }
  detail::pointwise_linear<R, T, N>(&f, apply, out, in, total);
}

}  // namespace mezzo::kernels::cpu
