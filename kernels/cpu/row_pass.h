// One pass over a row in groups of a fixed width: the loops from which softmax, cross-entropy and the
// normalizations are made.
// Apart from them because the width and the order of a sum, and with them the bits, are decided here.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels::cpu {

/// Elements in a group. Sums keep one partial sum per place in the group, whatever the vector width is, so
/// that every instruction set gives the same bits.
inline constexpr int kGroup = 16;
/// Groups that row_max takes at once.
inline constexpr int kMaxGroups = 4;
/// Sums that a row takes side by side, over all its functions, each with as many as there is room for, since
/// an addition takes longer than a load.
inline constexpr int kSideBySide = 4;
/// The locality argument of __builtin_prefetch for the next row: the second-level cache, as the first has no
/// room for two rows.
inline constexpr int kToSecondLevel = 2;
/// Additions in each partial sum after which all are added up in double: bounds the rounding error of long
/// rows.
inline constexpr std::int64_t kSumAdditions = 64;

namespace detail {

/// Partial sums or maxima of a group, folded pairwise.
template <class T, class Join>
[[nodiscard]] MEZZO_ALWAYS_INLINE T fold_group(const T* lanes, Join join) {
  T half[kGroup / 2];
  for (int j = 0; j < 8; ++j) half[j] = join(lanes[j], lanes[j + 8]);
  for (int j = 0; j < 4; ++j) half[j] = join(half[j], half[j + 4]);
  for (int j = 0; j < 2; ++j) half[j] = join(half[j], half[j + 2]);
  return join(half[0], half[1]);
}

struct Larger {
  /// `b` where it is larger: a NaN in `b` never wins.
  template <class T>
  MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

struct Plus {
  template <class T>
  MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};

/// out[j] = f(in[0][j], ...) for one whole group; lanes[j] += out[j] for j < count.
template <class T, std::size_t N, class F, std::size_t... I>
MEZZO_ALWAYS_INLINE void group_step(const std::array<const T*, N>& in, T* out, T* lanes, int count, F f,
                                    std::index_sequence<I...> /*indices*/) {
  T values[kGroup];
  MEZZO_KEEP_LOOP
  for (int j = 0; j < kGroup; ++j) values[j] = f(in[I][j]...);
  MEZZO_KEEP_LOOP
  for (int j = 0; j < kGroup; ++j) lanes[j] += j < count ? values[j] : T(0);
  MEZZO_KEEP_LOOP
  for (int j = 0; j < kGroup; ++j) out[j] = values[j];
}

/// lanes[j] += f(in[0][j], ...) for one whole group. In one loop: where f is the identity, compilers make
/// group_step's first loop a memcpy, and the loads that follow wait for its narrower stores.
template <class T, std::size_t N, class F, std::size_t... I>
MEZZO_ALWAYS_INLINE void group_sum(const std::array<const T*, N>& in, T* lanes, F f,
                                   std::index_sequence<I...> /*indices*/) {
  MEZZO_KEEP_LOOP
  for (int j = 0; j < kGroup; ++j) lanes[j] += f(in[I][j]...);
}

/// Copies count < kGroup elements: in pieces of fixed sizes, since a call of memcpy takes longer.
template <class T>
MEZZO_ALWAYS_INLINE void copy_part(const T* from, T* to, int count) {
  int done = 0;
  if ((count & 8) != 0) {
    __builtin_memcpy(to, from, 8 * sizeof(T));
    done = 8;
  }
  if ((count & 4) != 0) {
    __builtin_memcpy(to + done, from + done, 4 * sizeof(T));
    done += 4;
  }
  if ((count & 2) != 0) {
    __builtin_memcpy(to + done, from + done, 2 * sizeof(T));
    done += 2;
  }
  if ((count & 1) != 0) to[done] = from[done];
}

template <class T, std::size_t N>
[[nodiscard]] MEZZO_ALWAYS_INLINE std::array<const T*, N> advanced(std::array<const T*, N> in,
                                                                   std::int64_t i) {
  for (std::size_t k = 0; k < N; ++k) in[k] += i;
  return in;
}

/// group_step of every function; `out`, unless it is nullptr, gets the results of the first.
template <class T, std::size_t N, class... F>
MEZZO_ALWAYS_INLINE void add_group(const std::array<const T*, N>& in, T* out, T (*lanes)[kGroup], int count,
                                   F... f) {
  if (out == nullptr && count == kGroup) {
    ((group_sum(in, *lanes, f, std::make_index_sequence<N>{}), ++lanes), ...);
    return;
  }
  T unused[kGroup];
  T* target = out != nullptr ? out : unused;
  ((group_step(in, target, *lanes, count, f, std::make_index_sequence<N>{}), ++lanes, target = unused), ...);
}

/// add_group for count < kGroup elements.
template <class T, std::size_t N, class... F>
MEZZO_ALWAYS_INLINE void add_part(const std::array<const T*, N>& in, T* out, T (*lanes)[kGroup], int count,
                                  F... f) {
  T padded[N][kGroup] = {};
  std::array<const T*, N> at;
  for (std::size_t k = 0; k < N; ++k) {
    copy_part(in[k], padded[k], count);
    at[k] = padded[k];
  }
  T values[kGroup];
  add_group(at, values, lanes, count, f...);
  for (int j = 0; out != nullptr && j < count; ++j) out[j] = values[j];
}

}  // namespace detail

/// The largest of x[0, n); NaN is passed over, and -inf is the result where nothing else is there.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE T row_max(const T* x, std::int64_t n) {
  // Several groups side by side, for a maximum takes longer than a load.
  T lanes[kMaxGroups * kGroup];
  for (T& lane : lanes) lane = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  for (; i + kMaxGroups * kGroup <= n; i += kMaxGroups * kGroup) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kMaxGroups * kGroup; ++j) lanes[j] = detail::Larger{}(lanes[j], x[i + j]);
  }
  for (; i + kGroup <= n; i += kGroup) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kGroup; ++j) lanes[j] = detail::Larger{}(lanes[j], x[i + j]);
  }
  for (int j = 0; i + j < n; ++j) lanes[j] = detail::Larger{}(lanes[j], x[i + j]);
  for (int k = 1; k < kMaxGroups; ++k) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kGroup; ++j) lanes[j] = detail::Larger{}(lanes[j], lanes[k * kGroup + j]);
  }
  return detail::fold_group(lanes, detail::Larger{});
}

/// The sums over i in [0, n) of every f(in[0][i], ...); out[i] = the first of these values, unless `out`,
/// which may be one of the inputs, is nullptr. A group at the end that is not full is computed on copies
/// padded with zeros. `next` are the rows that come after, or nullptr: they are fetched meanwhile, since a
/// pass over a new row waits.
template <class T, std::size_t N, class... F>
[[nodiscard]] MEZZO_ALWAYS_INLINE std::array<double, sizeof...(F)> row_sums(std::array<const T*, N> in,
                                                                            T* out, std::int64_t n,
                                                                            std::array<const T*, N> next,
                                                                            F... f) {
  constexpr int kFunctions = sizeof...(F), kSets = kFunctions < kSideBySide ? kSideBySide / kFunctions : 1;
  constexpr std::int64_t kSpan = kSumAdditions * kSets * kGroup;
  std::array<double, sizeof...(F)> totals{};
  for (std::int64_t begin = 0; begin < n; begin += kSpan) {
    const std::int64_t end = n - begin < kSpan ? n : begin + kSpan;
    T lanes[kSets][kFunctions][kGroup] = {};
    std::int64_t i = begin;
    const auto group = [&](int set) {
      for (const T* row : next) {
        if (row != nullptr) __builtin_prefetch(row + i, 0, kToSecondLevel);
      }
      detail::add_group(detail::advanced(in, i), out != nullptr ? out + i : nullptr, lanes[set], kGroup,
                        f...);
      i += kGroup;
    };
    const auto groups = [&]<int... kSet>(std::integer_sequence<int, kSet...> /*sets*/) {
      (group(kSet), ...);
    };
    while (i + kSets * kGroup <= end) groups(std::make_integer_sequence<int, kSets>{});
    while (i + kGroup <= end) group(0);
    if (i < end)
      detail::add_part(detail::advanced(in, i), out != nullptr ? out + i : nullptr, lanes[0],
                       static_cast<int>(end - i), f...);
    for (int set = 1; set < kSets; ++set) {
      for (int k = 0; k < kFunctions; ++k) {
        MEZZO_KEEP_LOOP
        for (int j = 0; j < kGroup; ++j) lanes[0][k][j] += lanes[set][k][j];
      }
    }
    for (int k = 0; k < kFunctions; ++k)
      totals[k] += static_cast<double>(detail::fold_group(lanes[0][k], detail::Plus{}));
  }
  return totals;
}

/// row_sums of one function: out[i] = f(in[0][i], ...), and their sum.
template <class T, std::size_t N, class F>
MEZZO_ALWAYS_INLINE double row_pass(std::array<const T*, N> in, T* out, std::int64_t n, F f,
                                    std::array<const T*, N> next = {}) {
  return row_sums<T, N>(in, out, n, next, f)[0];
}

/// out[i] = f(in[0][i], ...) for i in [0, n), where the sum is not wanted.
template <class T, std::size_t N, class F>
MEZZO_ALWAYS_INLINE void row_map(std::array<const T*, N> in, T* out, std::int64_t n, F f) {
  detail::map_loop(in, out, n, f);
}

}  // namespace mezzo::kernels::cpu
