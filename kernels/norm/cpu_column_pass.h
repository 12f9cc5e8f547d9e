// Passes over a matrix whose columns are channels with facts of their own: sums over each column, and
// functions of each element. The loops of cpu_column_norm.h, all in vectors along the rows.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu::detail {

/// Accumulators of sums that are taken at once, in the columns of one or two sums: 256 bytes of f32, as many
/// registers as AVX2 can spare.
inline constexpr int kAccumulators = 64;
/// Rows of a span: its sums are taken in the compute type, and added up in double, so as many as row_sums has
/// additions.
inline constexpr std::int64_t kColumnSpan = kSumAdditions;

/// Facts of each channel, an array per fact; other arrays may take the place of these.
template <class T>
struct ChannelFacts {
  static constexpr std::int64_t kArrays = 7;
  ChannelFacts(T* memory, std::int64_t channels)
      : shift(memory),
        rstd(memory + channels),
        offset(memory + 2 * channels),
        weight(memory + 3 * channels),
        bias(memory + 4 * channels),
        mean_grad(memory + 5 * channels),
        mean_dot(memory + 6 * channels) {}
  T *shift, *rstd, *offset, *weight, *bias, *mean_grad, *mean_dot;

  /// The facts of the channels from `first` on.
  [[nodiscard]] MEZZO_ALWAYS_INLINE ChannelFacts from(std::int64_t first) const {
    ChannelFacts facts = *this;
    for (T** array : {&facts.shift, &facts.rstd, &facts.offset, &facts.weight, &facts.bias, &facts.mean_grad,
                      &facts.mean_dot})
      *array += first;
    return facts;
  }
  [[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> normalized(std::int64_t j) const {
    return {shift[j], rstd[j], offset[j]};
  }
  void set(std::int64_t j, scalar::NormalizedFn<T> function, T w, T b) const {
    shift[j] = function.shift;
    rstd[j] = function.rstd;
    offset[j] = function.offset;
    weight[j] = w;
    bias[j] = b;
  }
};

/// Terms of one or two sums over each column, and functions of each element.
struct ValueTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 1> at(const ChannelFacts<T>& /*facts*/, std::int64_t /*j*/, T x) {
    return {x};
  }
};
struct DeviationTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 2> at(const ChannelFacts<T>& facts, std::int64_t j, T x) {
    return {scalar::MinusFn<T>{facts.shift[j]}(x), scalar::SquaredDeviationFn<T>{facts.shift[j]}(x)};
  }
};
struct GradientTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 2> at(const ChannelFacts<T>& facts, std::int64_t j, T grad, T x) {
    return {grad, grad * scalar::MinusFn<T>{facts.shift[j]}(x)};
  }
};
struct ColumnForward {
  template <class T>
  MEZZO_ALWAYS_INLINE static T at(const ChannelFacts<T>& facts, std::int64_t j, T x) {
    return facts.normalized(j)(x, facts.weight[j], facts.bias[j]);
  }
};
struct ColumnGradient {
  template <class T>
  MEZZO_ALWAYS_INLINE static T at(const ChannelFacts<T>& facts, std::int64_t j, T grad, T x) {
    return scalar::NormGradientFn<T>{facts.normalized(j), facts.mean_grad[j], facts.mean_dot[j]}(
        grad, x, facts.weight[j]);
  }
};

/// Sums over each column of a matrix; `second` is not touched by terms of one sum.
struct ColumnTotals {
  double* first;
  double* second;
};

/// step(j, in[0][j], ...) for columns j of [first, end). `step` writes over no inputs but its own column's,
/// so iterations are independent.
template <class T, std::size_t N, class Step, std::size_t... I>
MEZZO_ALWAYS_INLINE void each_column(const std::array<const T*, N>& in, std::int64_t first, std::int64_t end,
                                     Step step, std::index_sequence<I...> /*indices*/) {
  MEZZO_INDEPENDENT_LOOP
  for (std::int64_t j = first; j < end; ++j) step(j, in[I][j]...);
}

/// `in` from row `row` of `channels` elements on.
template <class T, std::size_t N>
[[nodiscard]] MEZZO_ALWAYS_INLINE std::array<const T*, N> row_of(std::array<const T*, N> in, std::int64_t row,
                                                                 std::int64_t channels) {
  for (std::size_t i = 0; i < N; ++i) in[i] += row * channels;
  return in;
}

/// Memory that will be used soon, a stretch for each row of a span; nullptr where nothing is known.
struct RowsAhead {
  const std::byte* data = nullptr;
  std::int64_t row_bytes = 0;

  MEZZO_ALWAYS_INLINE void fetch(std::int64_t row) const {
    constexpr std::int64_t kLine = 64;
    if (data == nullptr) return;
    const std::byte* const at = data + row * row_bytes;
    for (std::int64_t b = 0; b < row_bytes; b += kLine) __builtin_prefetch(at + b, 0, kToSecondLevel);
  }
};

/// totals = the sums of Terms over the rows of a span [rows, channels]. `ahead` is fetched meanwhile, with
/// the first columns.
template <class T, std::size_t N, class Terms>
struct ColumnSums {
  static void run(std::array<const T*, N> in, std::int64_t rows, std::int64_t channels, ChannelFacts<T> facts,
                  ColumnTotals totals, RowsAhead ahead) {
    std::int64_t first = 0;
    for (; first + kWidth <= channels; first += kWidth, ahead.data = nullptr)
      add_up<kWidth>(in, rows, channels, first, facts, totals, ahead);
    for (; first + kGroup <= channels; first += kGroup, ahead.data = nullptr)
      add_up<kGroup>(in, rows, channels, first, facts, totals, ahead);
    if (first < channels) add_up_rest(in, rows, channels, first, facts, totals);
  }

 private:
  static constexpr int kSums = std::is_same_v<Terms, ValueTerms> ? 1 : 2;
  static constexpr int kWidth = kAccumulators / kSums;

  template <int kColumns, std::size_t... I>
  MEZZO_ALWAYS_INLINE static void add_row(const std::array<const T*, N>& in, const ChannelFacts<T>& facts,
                                          T (&sums)[kSums][kColumns], std::index_sequence<I...> /*indices*/) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kColumns; ++j) {
      const auto terms = Terms::at(facts, j, in[I][j]...);
      sums[0][j] += terms[0];
      if constexpr (kSums == 2) sums[1][j] += terms[1];
    }
  }
  template <int kColumns>
  MEZZO_ALWAYS_INLINE static void add_up(const std::array<const T*, N>& in, std::int64_t rows,
                                         std::int64_t channels, std::int64_t first,
                                         const ChannelFacts<T>& facts, ColumnTotals totals,
                                         const RowsAhead& ahead) {
    const ChannelFacts<T> here = facts.from(first);
    T sums[kSums][kColumns];
    // Not zeros: compilers make a memset of zeros, in stores too narrow for the loads that follow.
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kColumns; ++j) {
      sums[0][j] = T(-0.0);
      if constexpr (kSums == 2) sums[1][j] = T(-0.0);
    }
    std::array<const T*, N> row = row_of(in, 1, first);
    for (std::int64_t r = 0; r < rows; ++r, row = row_of(row, 1, channels)) {
      ahead.fetch(r);
      add_row<kColumns>(row, here, sums, std::make_index_sequence<N>{});
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kColumns; ++j) totals.first[first + j] = static_cast<double>(sums[0][j]);
    if constexpr (kSums == 2) {
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kColumns; ++j) totals.second[first + j] = static_cast<double>(sums[1][j]);
    }
  }
  /// Fewer columns than a group, on copies padded with zeros.
  MEZZO_ALWAYS_INLINE static void add_up_rest(const std::array<const T*, N>& in, std::int64_t rows,
                                              std::int64_t channels, std::int64_t first,
                                              const ChannelFacts<T>& facts, ColumnTotals totals) {
    const auto count = static_cast<int>(channels - first);
    for (int j = 0; j < count; ++j) {
      T sums[kSums][1] = {};
      const ChannelFacts<T> here = facts.from(first + j);
      for (std::int64_t r = 0; r < rows; ++r)
        add_row<1>(row_of(in, 1, r * channels + first + j), here, sums, std::make_index_sequence<N>{});
      totals.first[first + j] = static_cast<double>(sums[0][0]);
      if constexpr (kSums == 2) totals.second[first + j] = static_cast<double>(sums[1][0]);
    }
  }
};

/// Merges the sums of a span of `rows` rows, which has other shifts, into the sums of its chunk.
template <class T>
struct MergeSpan {
  static constexpr bool kOfF32 = std::is_same_v<T, float>;
  /// Sums of x - shift and of its squares.
  static void run(const T* shift, const T* span_shift, std::int64_t rows, std::int64_t channels,
                  ColumnTotals span, ColumnTotals totals) {
    const auto count = static_cast<double>(rows);
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t j = 0; j < channels; ++j) {
      const double moved = static_cast<double>(span_shift[j]) - static_cast<double>(shift[j]);
      const double rest = span.first[j];
      totals.first[j] += rest + count * moved;
      totals.second[j] += span.second[j] + moved * (2 * rest + count * moved);
    }
  }
};
/// MergeSpan for sums of grad, and of grad times x - shift.
template <class T>
struct MergeGradients {
  static constexpr bool kOfF32 = std::is_same_v<T, float>;
  static void run(const T* shift, const T* span_shift, std::int64_t channels, ColumnTotals span,
                  ColumnTotals totals) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t j = 0; j < channels; ++j) {
      const double moved = static_cast<double>(span_shift[j]) - static_cast<double>(shift[j]);
      totals.first[j] += span.first[j];
      totals.second[j] += span.second[j] + moved * span.first[j];
    }
  }
};
/// shift = the means of the columns whose sums are given.
template <class T>
struct MeansOfSums {
  static constexpr bool kOfF32 = std::is_same_v<T, float>;
  static void run(const double* sums, std::int64_t rows, std::int64_t channels, T* shift) {
    const double scale = 1.0 / static_cast<double>(rows);
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t j = 0; j < channels; ++j) shift[j] = static_cast<T>(sums[j] * scale);
  }
};
/// Whether all sums are finite.
struct AllFinite {
  static constexpr bool kOfF32 = true;
  static bool run(const double* sums, std::int64_t n) {
    // Whole groups side by side, whose order does not count: 0, or NaN.
    double lanes[8] = {}, all = 0;
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (int j = 0; j < 8; ++j) lanes[j] += sums[i + j] - sums[i + j];
    }
    for (; i < n; ++i) all += sums[i] - sums[i];
    for (const double lane : lanes) all += lane;
    return all == 0.0;
  }
};

/// out = F of each element of a matrix [rows, channels].
template <class T, std::size_t N, class F>
struct ColumnMap {
  /// `out` may be one of the inputs. `ahead` is fetched meanwhile.
  static void run(T* out, std::array<const T*, N> in, std::int64_t rows, std::int64_t channels,
                  ChannelFacts<T> facts, std::array<RowsAhead, N + 1> ahead) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (const RowsAhead& one : ahead) one.fetch(r);
      each_column(row_of(in, r, channels), 0, channels, Step{facts, out + r * channels},
                  std::make_index_sequence<N>{});
    }
  }

 private:
  struct Step {
    const ChannelFacts<T>& facts;
    T* out;
    template <class... X>
    MEZZO_ALWAYS_INLINE void operator()(std::int64_t j, X... x) const {
      out[j] = F::at(facts, j, x...);
    }
  };
};

}  // namespace mezzo::kernels::cpu::detail
