// The inner loops of reductions, compiled for three instruction sets: rows into lanes, and columns side by
// side. Apart from cpu.h, which feeds them.
#pragma once

#include <array>
#include <utility>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/reduce/reducers.h"

namespace mezzo::kernels::cpu::detail {

/// Rows that the loop over columns takes at once.
inline constexpr std::int64_t kReduceRows = 4;

/// How far ahead, in bytes, the loops over rows ask for memory: the processor by itself is too late for the
/// third-level cache.
inline constexpr std::int64_t kPrefetchAhead = 4096;

/// n <= kTile elements of N inputs into one accumulator.
template <class T, class R, std::size_t N>
struct RowTile {
  using Acc = typename R::template Acc<T>;

  MEZZO_ALWAYS_INLINE static Acc run(R reducer, std::array<const T*, N> x, double shift, std::int64_t n) {
    return loop(reducer, x, shift, n, std::make_index_sequence<N>{});
  }

 private:
  template <std::size_t... I>
  [[gnu::always_inline]] static Acc loop(R reducer, std::array<const T*, N> x, double shift, std::int64_t n,
                                         std::index_sequence<I...> /*inputs*/) {
    const auto value = [&](std::int64_t i) __attribute__((always_inline)) {
      if constexpr (R::kShifted)
        return reducer.map(x[I][i]..., shift);
      else
        return reducer.map(x[I][i]...);
    };
    Acc lanes[R::kLanes];
    for (int l = 0; l < R::kLanes; ++l) lanes[l] = reducer.template identity<T>();
    std::int64_t i = 0;
    for (; i + R::kLanes <= n; i += R::kLanes) {
      (prefetch(x[I] + i), ...);
      for (int l = 0; l < R::kLanes; ++l) lanes[l] = reducer.combine(lanes[l], value(i + l));
    }
    for (int l = 0; i < n; ++i, ++l) lanes[l] = reducer.combine(lanes[l], value(i));
    for (int half = R::kLanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] = reducer.combine(lanes[l], lanes[l + half]);
    }
    return lanes[0];
  }
  MEZZO_ALWAYS_INLINE static void prefetch(const T* group) {
    const char* const ahead = reinterpret_cast<const char*>(group) + kPrefetchAhead;
    for (std::size_t b = 0; b < R::kLanes * sizeof(T); b += 64) __builtin_prefetch(ahead + b);
  }
};

/// `total` goes on with n elements of N inputs, tile by tile: one call for a whole run.
template <class T, class R, std::size_t N>
struct RowRun {
  using Acc = typename R::template Acc<T>;

  static Acc run(R reducer, std::array<const T*, N> x, double shift, std::int64_t n, Acc total) {
    for (std::int64_t done = 0; done < n; done += kTile) {
      total = reducer.combine(total,
                              RowTile<T, R, N>::run(reducer, x, shift, n - done < kTile ? n - done : kTile));
      for (const T*& input : x) input += kTile;
    }
    return total;
  }
};

/// acc[c] goes on with element c of `rows` rows, in order. Every row adds to acc in turn, so taking several
/// at once changes no bit.
template <class T, class R>
struct ColumnTile {
  using Acc = typename R::template Acc<T>;

  static void run(R reducer, const T* x, std::int64_t stride, std::int64_t rows, const double* shifts,
                  Acc* acc, std::int64_t width) {
    std::int64_t r = 0;
    for (; r + kReduceRows <= rows; r += kReduceRows)
      take<kReduceRows>(reducer, x + r * stride, stride, shifts, acc, width);
    for (; r < rows; ++r) take<1>(reducer, x + r * stride, stride, shifts, acc, width);
  }

 private:
  template <std::int64_t Rows>
  [[gnu::always_inline]] static void take(R reducer, const T* x, std::int64_t stride, const double* shifts,
                                          Acc* acc, std::int64_t width) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t c = 0; c < width; ++c) {
      Acc a = acc[c];
      for (std::int64_t r = 0; r < Rows; ++r) {
        if constexpr (R::kShifted)
          a = reducer.combine(a, reducer.map(x[r * stride + c], shifts[c]));
        else
          a = reducer.combine(a, reducer.map(x[r * stride + c]));
      }
      acc[c] = a;
    }
  }
};

}  // namespace mezzo::kernels::cpu::detail
