// Loops whose iterations are independent, and how a compiler is told so: it then makes vectors of them
// without looking for overlaps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "mezzo/core/host_device.h"

/// Before a loop of which no iteration reads what another one writes.
/// MEZZO_KEEP_LOOP, for one of known short length, also keeps it a loop: g++ unrolls such a one before it
/// looks for vectors, and then finds none; clang the same.
#if defined(__clang__)
#define MEZZO_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define MEZZO_KEEP_LOOP _Pragma("clang loop unroll(disable) vectorize(assume_safety)")
#else
#define MEZZO_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#define MEZZO_KEEP_LOOP _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif

namespace mezzo::kernels::cpu::detail {

/// out[i] = f(in[0][i], in[1][i], ..) for i in [0, n). `out` may be one of the inputs (in-place ops) but
/// never overlaps one shifted.
template <class R, class T, std::size_t N, class F, std::size_t... I>
MEZZO_ALWAYS_INLINE void map_loop(const std::array<const T*, N>& in, R* out, std::int64_t n, F f,
                                  std::index_sequence<I...> /*indices*/) {
  MEZZO_INDEPENDENT_LOOP
  for (std::int64_t i = 0; i < n; ++i) out[i] = f(in[I][i]...);
}
template <class R, class T, std::size_t N, class F>
MEZZO_ALWAYS_INLINE void map_loop(const std::array<const T*, N>& in, R* out, std::int64_t n, F f) {
  map_loop(in, out, n, f, std::make_index_sequence<N>{});
}

}  // namespace mezzo::kernels::cpu::detail
