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

/// The most columns whose sums are taken at once: 256 bytes of f32 of a row.
inline constexpr std::int64_t kColumns = 64;
/// Rows after which sums in the compute type are added up in double, as many additions as row_sums allows.
inline constexpr std::int64_t kColumnSpan = kSumAdditions;

/// What is known of each channel: an array each, that others can be put in the place of.
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

/// step(j, in[0][j], ...) for columns j of [first, end). What `step` writes overlaps with no input but that
/// it stands for, so iterations are independent.
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

/// totals = the sums of Terms over the rows of a matrix [rows, channels].
template <class T, std::size_t N, class Terms>
struct ColumnSums {
  static void run(std::array<const T*, N> in, std::int64_t rows, std::int64_t channels, ChannelFacts<T> facts,
                  ColumnTotals totals) {
    for (std::int64_t first = 0; first < channels; first += kColumns) {
      const std::int64_t end = channels - first < kColumns ? channels : first + kColumns;
      add_up(in, rows, channels, first, end, facts, totals);
    }
  }

 private:
  struct Step {
    const ChannelFacts<T>& facts;
    std::int64_t from;
    T* first;
    T* second;
    template <class... X>
    MEZZO_ALWAYS_INLINE void operator()(std::int64_t j, X... x) const {
      const auto terms = Terms::at(facts, j, x...);
      first[j - from] += terms[0];
      if constexpr (terms.size() == 2) second[j - from] += terms[1];
    }
  };
  static constexpr bool kTwo = !std::is_same_v<Terms, ValueTerms>;

  MEZZO_ALWAYS_INLINE static void add_up(const std::array<const T*, N>& in, std::int64_t rows,
                                         std::int64_t channels, std::int64_t first, std::int64_t end,
                                         const ChannelFacts<T>& facts, ColumnTotals totals) {
    double sums[2][kColumns] = {};
    for (std::int64_t begin = 0; begin < rows; begin += kColumnSpan) {
      const std::int64_t stop = rows - begin < kColumnSpan ? rows : begin + kColumnSpan;
      T span[2][kColumns] = {};
      const Step step{facts, first, span[0], span[1]};
      for (std::int64_t r = begin; r < stop; ++r)
        each_column(row_of(in, r, channels), first, end, step, std::make_index_sequence<N>{});
      for (std::int64_t j = 0; j < end - first; ++j) {
        sums[0][j] += static_cast<double>(span[0][j]);
        sums[1][j] += static_cast<double>(span[1][j]);
      }
    }
    for (std::int64_t j = first; j < end; ++j) {
      totals.first[j] = sums[0][j - first];
      if constexpr (kTwo) totals.second[j] = sums[1][j - first];
    }
  }
};

/// out = F of each element of a matrix [rows, channels].
template <class T, std::size_t N, class F>
struct ColumnMap {
  static void run(T* out, std::array<const T*, N> in, std::int64_t rows, std::int64_t channels,
                  ChannelFacts<T> facts) {
    for (std::int64_t r = 0; r < rows; ++r) {
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
