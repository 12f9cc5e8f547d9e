// Matrices of elements of any dtype turned over, bit by bit, in 16-byte vectors, which every x86-64 has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels::cpu::detail {

/// A vector register of elements; U is an unsigned integer of an element's size.
template <class U>
struct Register {
  static constexpr std::size_t kCount = 16 / sizeof(U);
  using Type [[gnu::vector_size(16)]] = U;
};

/// a[0], b[0], a[1], b[1], ... from the lower or the upper half of both.
template <class U, bool kUpper, std::size_t... I>
MEZZO_ALWAYS_INLINE auto interleave(typename Register<U>::Type a, typename Register<U>::Type b,
                                    std::index_sequence<I...> /*places*/) {
  constexpr std::size_t kCount = Register<U>::kCount, kFirst = kUpper ? kCount / 2 : 0;
#if defined(__clang__) || __GNUC__ > 11
  return __builtin_shufflevector(a, b, static_cast<int>(kFirst + I / 2 + (I % 2 == 0 ? 0 : kCount))...);
#else
  using Places = typename Register<U>::Type;
  return __builtin_shuffle(a, b, Places{static_cast<U>(kFirst + I / 2 + (I % 2 == 0 ? 0 : kCount))...});
#endif
}

/// to[c][r] = from[r][c] for kCount rows and columns; pitches in elements.
template <class U>
MEZZO_ALWAYS_INLINE void transpose_square(const U* from, std::int64_t from_pitch, U* to,
                                          std::int64_t to_pitch) {
  constexpr std::size_t kCount = Register<U>::kCount;
  constexpr auto kPlaces = std::make_index_sequence<kCount>{};
  typename Register<U>::Type rows[kCount], mixed[kCount];
  for (std::size_t i = 0; i < kCount; ++i)
    std::memcpy(&rows[i], from + static_cast<std::int64_t>(i) * from_pitch, sizeof rows[i]);
  for (std::size_t step = 1; step < kCount; step *= 2) {
    for (std::size_t i = 0; i < kCount / 2; ++i) {
      mixed[2 * i] = interleave<U, false>(rows[i], rows[i + kCount / 2], kPlaces);
      mixed[2 * i + 1] = interleave<U, true>(rows[i], rows[i + kCount / 2], kPlaces);
    }
    for (std::size_t i = 0; i < kCount; ++i) rows[i] = mixed[i];
  }
  for (std::size_t i = 0; i < kCount; ++i)
    std::memcpy(to + static_cast<std::int64_t>(i) * to_pitch, &rows[i], sizeof rows[i]);
}

/// to[c][r] = from[r][c] for all rows and columns: in squares, and what is left of both one by one. Far rows
/// share a few sets of the cache, so there only a few lines of them are worked on at a time.
template <class U>
void transpose(const U* from, std::int64_t from_pitch, U* to, std::int64_t to_pitch, std::int64_t rows,
               std::int64_t columns) {
  constexpr auto kSide = static_cast<std::int64_t>(Register<U>::kCount);
  const std::int64_t whole_rows = rows - rows % kSide, whole_columns = columns - columns % kSide;
  constexpr std::int64_t kLine = 64 / sizeof(U);
  const std::int64_t block = from_pitch > to_pitch ? kLine : kSide;
  for (std::int64_t first = 0; first < whole_columns; first += block) {
    for (std::int64_t r = 0; r < whole_rows; r += kSide) {
      for (std::int64_t c = first; c < std::min(first + block, whole_columns); c += kSide)
        transpose_square(from + r * from_pitch + c, from_pitch, to + c * to_pitch + r, to_pitch);
    }
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      to[c * to_pitch + r] = from[r * from_pitch + c];
  }
}

}  // namespace mezzo::kernels::cpu::detail
