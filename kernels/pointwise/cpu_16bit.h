// The pointwise loop of functors of few instructions on arrays of one 16-bit type: widen, compute and round
// in registers. The general loop (cpu.h) does the three one after the other through buffers, which costs a
// fifth of the time of an op like gelu and half of the time of relu. A functor asks for this loop by `static
// constexpr bool kFuses16Bit = true`, and the source that passes it to pointwise() includes this header.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/vectors_16bit.h"
#include "mezzo/kernels/pointwise/cpu.h"

namespace mezzo::kernels::cpu::detail {

#if defined(__x86_64__) || defined(__aarch64__)

/// The largest block of the loops below, in elements.
inline constexpr std::int64_t kBlock16Bit = 32;

/// A block of results, an element each of the operands: the compilers make one or two vectors of it.
template <int Width, class F, std::size_t N, std::size_t... I>
MEZZO_ALWAYS_INLINE void apply_block(F f, float* y, const float (&x)[N][Width],
                                     std::index_sequence<I...> /*indices*/) {
  for (int j = 0; j < Width; ++j) y[j] = f(x[I][j]...);
}

#if defined(__x86_64__)
/// Blocks of 16 elements; returns how many elements it did.
template <class F, std::size_t N>
[[MEZZO_TARGET_V4, gnu::flatten, gnu::noinline]] std::int64_t half_blocks_v4(F f, Half* out,
                                                                             std::array<const Half*, N> in,
                                                                             std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    alignas(64) float x[N][16], y[16];
    for (std::size_t k = 0; k < N; ++k) _mm512_store_ps(x[k], widen_v4(in[k] + i));
    apply_block<16>(f, y, x, std::make_index_sequence<N>{});
    narrow_v4(_mm512_load_ps(y), out + i);
  }
  return i;
}

/// Blocks of 8 elements; returns how many elements it did.
template <class F, std::size_t N>
[[MEZZO_TARGET_V3, gnu::flatten, gnu::noinline]] std::int64_t half_blocks_v3(F f, Half* out,
                                                                             std::array<const Half*, N> in,
                                                                             std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    alignas(32) float x[N][8], y[8];
    for (std::size_t k = 0; k < N; ++k) _mm256_store_ps(x[k], widen_v3(in[k] + i));
    apply_block<8>(f, y, x, std::make_index_sequence<N>{});
    narrow_v3(_mm256_load_ps(y), out + i);
  }
  return i;
}

/// Blocks of 32 elements, even places before odd places, which needs no shuffle to widen.
template <class F, std::size_t N>
[[MEZZO_TARGET_V4_BF16, gnu::flatten, gnu::noinline]] std::int64_t bf16_blocks_v4(
    F f, BFloat16* out, std::array<const BFloat16*, N> in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    alignas(64) float x[N][32], y[32];
    for (std::size_t k = 0; k < N; ++k) widen_even_odd_v4(in[k] + i, x[k]);
    apply_block<32>(f, y, x, std::make_index_sequence<N>{});
    narrow_even_odd_v4(_mm512_load_ps(y), _mm512_load_ps(y + 16), out + i);
  }
  return i;
}

/// The loop over full blocks for isa(), nullptr where there is none: bf16 without AVX512_BF16's rounding is
/// faster through buffers.
template <class H, class F, std::size_t N>
auto blocks_16bit() -> std::int64_t (*)(F, H*, std::array<const H*, N>, std::int64_t) {
  if constexpr (std::is_same_v<H, BFloat16>) {
    return has_bf16_instructions() ? bf16_blocks_v4<F, N> : nullptr;
  } else {
    if (isa() == Isa::v4) return half_blocks_v4<F, N>;
    return isa() == Isa::v3 ? half_blocks_v3<F, N> : nullptr;
  }
}
#else
/// Blocks of f16 of as many elements as keep g++ 12 from taking them one by one; returns how many it did.
template <class F, std::size_t N>
[[gnu::flatten, gnu::noinline]] std::int64_t half_blocks_arm(F f, Half* out, std::array<const Half*, N> in,
                                                             std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kBlock16Bit <= n; i += kBlock16Bit) {
    alignas(16) float x[N][kBlock16Bit], y[kBlock16Bit];
    for (std::size_t k = 0; k < N; ++k) {
      for (int j = 0; j < kBlock16Bit; ++j) x[k][j] = static_cast<float>(in[k][i + j]);
    }
    apply_block<kBlock16Bit>(f, y, x, std::make_index_sequence<N>{});
    for (int j = 0; j < kBlock16Bit; j += 8) narrow_arm(y + j, out + i + j);
  }
  return i;
}

template <class H, class F, std::size_t N>
auto blocks_16bit() -> std::int64_t (*)(F, H*, std::array<const H*, N>, std::int64_t) {
  if constexpr (std::is_same_v<H, BFloat16>)
    return nullptr;
  else
    return half_blocks_arm<F, N>;
}
#endif

/// All n elements: full blocks, then the rest in a block that is filled up with zeros.
template <class H, class F, std::size_t N, class Blocks>
void run_16bit(Blocks blocks, F f, H* out, std::array<const H*, N> in, std::int64_t n) {
  const std::int64_t done = blocks(f, out, in, n);
  if (done == n) return;
  H rest[N][kBlock16Bit] = {}, results[kBlock16Bit];
  std::array<const H*, N> from;
  for (std::size_t k = 0; k < N; ++k) {
    std::copy_n(in[k] + done, n - done, rest[k]);
    from[k] = rest[k];
  }
  blocks(f, results, from, kBlock16Bit);
  std::copy_n(results, n - done, out + done);
}

#endif

/// out[i] = f(in[0][i], ..., in[N-1][i]) for n elements of H that lie one after the other: computed in f32
/// and rounded once, the bits of the general loop. False, and nothing done, where isa() has no such loop.
template <class H>
struct Loop16Bit {
  template <class F, std::size_t N>
  static bool run([[maybe_unused]] F f, [[maybe_unused]] H* out,
                  [[maybe_unused]] const std::array<const H*, N>& in, [[maybe_unused]] std::int64_t n) {
#if defined(__x86_64__) || defined(__aarch64__)
    if (const auto blocks = blocks_16bit<H, F, N>()) {
      cpu::parallel_for(n, std::int64_t{1} << 15, [&](std::int64_t begin, std::int64_t end) {
        std::array<const H*, N> from = in;
        for (const H*& x : from) x += begin;
        run_16bit(blocks, f, out + begin, from, end - begin);
      });
      return true;
    }
#endif
    return false;
  }
};

}  // namespace mezzo::kernels::cpu::detail
