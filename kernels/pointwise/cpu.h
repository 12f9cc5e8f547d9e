// The CPU's pointwise loop: tiles over the collapsed layout, threads over chunks of tiles, one vector loop
// per functor and compute type in three instruction sets.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/strided_copy.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/math/scalar_math.h"

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

/// A pointwise loop as its driver sees it, which is one for all ops: a tile's loop by address, and the types
/// that it takes and makes.
struct PointwiseLoop {
  const void* functor;
  void (*tile)(const void* functor, void* out, const void* const* in, std::int64_t n);
  DType result, operand;
};

/// Whether all operands lie in memory as the result does, without gaps: most calls. In which of the two
/// formats does not matter to elements that are taken one by one.
[[nodiscard]] bool lies_alike(const View& out, std::span<const View> in);
/// The loop over tiles, in chunks for the threads, over views that lie alike ...
void pointwise_linear(const PointwiseLoop& loop, const View& out, std::span<const View> in);
/// ... and over views of any strides.
void pointwise_strided(const PointwiseLoop& loop, const View& out, std::span<const View> in);

template <class F>
concept Fuses16Bit = requires {
  requires F::kFuses16Bit;
};
/// The loop for these, on arrays of H (Half or BFloat16). Its definition is in cpu_16bit.h, which a
/// source with such a functor includes: it needs the processor's intrinsics, and reading these takes a
/// compiler long.
template <class H>
struct Loop16Bit;

/// Runs the loop without buffers if there is one for operands that all have the type H. They lie one after
/// the other.
template <class H, class F, std::size_t N>
bool pointwise_fused(F f, const View& out, const std::array<View, N>& in, std::int64_t total) {
  std::array<const H*, N> from;
  for (std::size_t k = 0; k < N; ++k) {
    if (in[k].dtype != out.dtype) return false;
    from[k] = static_cast<const H*>(in[k].data);
  }
  return Loop16Bit<H>::run(f, static_cast<H*>(out.data), from, total);
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
  if constexpr (std::is_same_v<F, scalar::IdentityFn>) {
    if (copy_elements(out, in[0])) return;
  }
  const auto tile = [](const void* functor, void* to, const void* const* from, std::int64_t n) {
    std::array<const T*, N> x;
    for (std::size_t k = 0; k < N; ++k) x[k] = static_cast<const T*>(from[k]);
    run_isa<detail::PointwiseTile<F, R, T, N>>(*static_cast<const F*>(functor), static_cast<R*>(to), x, n);
  };
  const detail::PointwiseLoop loop{&f, tile, dtype_of<R>, dtype_of<T>};
  if (!detail::lies_alike(out, in)) return detail::pointwise_strided(loop, out, in);
  if constexpr (std::is_same_v<T, float> && detail::Fuses16Bit<F>) {
    if (out.dtype == DType::f16 && detail::pointwise_fused<Half>(f, out, in, total)) return;
    if (out.dtype == DType::bf16 && detail::pointwise_fused<BFloat16>(f, out, in, total)) return;
  }
  detail::pointwise_linear(loop, out, in);
}

}  // namespace mezzo::kernels::cpu
