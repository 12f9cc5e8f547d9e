// The CPU's kernels of batch_norm of [N, C]: its rows are the columns of a matrix. A block of neighbouring
// columns is taken at once, all in vectors, where gathering each column would transpose the matrix twice.
// Apart from run_norm.h, which chooses between the two.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/row_pass.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/run_arrays.h"
#include "mezzo/kernels/norm_layout.h"
#include "mezzo/kernels/norm_math.h"

namespace mezzo::kernels::cpu {

namespace detail {

/// The most columns in a block: 256 bytes of f32 of a row.
inline constexpr std::int64_t kColumns = 64;
/// Rows after which sums in the compute type are added up in double, as many additions as row_sums allows.
inline constexpr std::int64_t kColumnSpan = kSumSpan / kGroup;

/// What is known of a block of columns.
template <class T>
struct ColumnFacts {
  T shift[kColumns] = {}, rstd[kColumns] = {}, offset[kColumns] = {};
  T weight[kColumns] = {}, bias[kColumns] = {};
  T mean_grad[kColumns] = {}, mean_dot[kColumns] = {};

  [[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> normalized(std::int64_t j) const {
    return {shift[j], rstd[j], offset[j]};
  }
};

/// Terms of one or two sums over each column, and functions of each element.
struct ValueTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 1> at(const ColumnFacts<T>& /*facts*/, std::int64_t /*j*/, T x) {
    return {x};
  }
};
struct DeviationTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 2> at(const ColumnFacts<T>& facts, std::int64_t j, T x) {
    return {scalar::MinusFn<T>{facts.shift[j]}(x), scalar::SquaredDeviationFn<T>{facts.shift[j]}(x)};
  }
};
struct GradientTerms {
  template <class T>
  MEZZO_ALWAYS_INLINE static std::array<T, 2> at(const ColumnFacts<T>& facts, std::int64_t j, T grad, T x) {
    return {grad, scalar::GradDotFn<T>{facts.normalized(j)}(grad, x)};
  }
};
struct ColumnForward {
  template <class T>
  MEZZO_ALWAYS_INLINE static T at(const ColumnFacts<T>& facts, std::int64_t j, T x) {
    return facts.normalized(j)(x, facts.weight[j], facts.bias[j]);
  }
};
struct ColumnGradient {
  template <class T>
  MEZZO_ALWAYS_INLINE static T at(const ColumnFacts<T>& facts, std::int64_t j, T grad, T x) {
    return scalar::NormGradientFn<T>{facts.normalized(j), facts.mean_grad[j], facts.mean_dot[j]}(
        grad, x, facts.weight[j]);
  }
};

template <class T>
using ColumnTotals = std::array<std::array<double, kColumns>, 2>;

/// step(j, in[0][r][j], ...) for the columns j of row r. What `step` writes overlaps with no input but that
/// it stands for, so iterations are independent.
template <class T, std::size_t N, class Step, std::size_t... I>
MEZZO_ALWAYS_INLINE void each_column(const std::array<RowBlock<const T>, N>& in, std::int64_t r,
                                     std::int64_t width, Step step, std::index_sequence<I...> /*indices*/) {
  const std::array<const T*, N> x{(in[I].data + r * in[I].distance)...};
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::int64_t j = 0; j < width; ++j) step(j, x[I][j]...);
}

/// totals = the sums of Terms over the rows, for each of `width` columns.
template <class T, std::size_t N, class Terms>
struct ColumnSums {
  static void run(std::array<RowBlock<const T>, N> in, std::int64_t rows, std::int64_t width,
                  const ColumnFacts<T>* facts, ColumnTotals<T>* totals) {
    for (std::int64_t begin = 0; begin < rows; begin += kColumnSpan) {
      const std::int64_t end = rows - begin < kColumnSpan ? rows : begin + kColumnSpan;
      T first[kColumns] = {}, second[kColumns] = {};
      for (std::int64_t r = begin; r < end; ++r)
        each_column(in, r, width, Step{facts, first, second}, std::make_index_sequence<N>{});
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(j);
        (*totals)[0][at] += static_cast<double>(first[j]);
        (*totals)[1][at] += static_cast<double>(second[j]);
      }
    }
  }

 private:
  struct Step {
    const ColumnFacts<T>* facts;
    T* first;
    T* second;
    template <class... X>
    MEZZO_ALWAYS_INLINE void operator()(std::int64_t j, X... x) const {
      const auto terms = Terms::at(*facts, j, x...);
      first[j] += terms[0];
      if constexpr (terms.size() == 2) second[j] += terms[1];
    }
  };
};

/// out = F of each element.
template <class T, std::size_t N, class F>
struct ColumnMap {
  static void run(RowBlock<T> out, std::array<RowBlock<const T>, N> in, std::int64_t rows, std::int64_t width,
                  const ColumnFacts<T>* facts) {
    for (std::int64_t r = 0; r < rows; ++r) {
      each_column(in, r, width, Step{facts, out.data + r * out.distance}, std::make_index_sequence<N>{});
    }
  }

 private:
  struct Step {
    const ColumnFacts<T>* facts;
    T* out;
    template <class... X>
    MEZZO_ALWAYS_INLINE void operator()(std::int64_t j, X... x) const {
      out[j] = F::at(*facts, j, x...);
    }
  };
};

/// Fills in statistics and parameters of columns [first, first + width), and stores the former.
template <class T>
[[nodiscard]] ColumnFacts<T> column_facts(RowBlock<const T> x, std::int64_t rows, std::int64_t first,
                                          std::int64_t width, const RunArrays<T>& arrays, double eps) {
  ColumnFacts<T> facts;
  ColumnTotals<T> sums{}, moments{};
  if (!arrays.given) {
    run_isa<ColumnSums<T, 1, ValueTerms>>(std::array{x}, rows, width, &facts, &sums);
    for (std::int64_t j = 0; j < width; ++j)
      facts.shift[j] = static_cast<T>(sums[0][static_cast<std::size_t>(j)] / static_cast<double>(rows));
    run_isa<ColumnSums<T, 1, DeviationTerms>>(std::array{x}, rows, width, &facts, &moments);
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const scalar::NormalizedFn<T> normalized =
        arrays.given ? arrays.known(first + j, eps)
                     : arrays.found({facts.shift[j], moments[0][at], moments[1][at], rows}, first + j, eps);
    facts.shift[j] = normalized.shift;
    facts.rstd[j] = normalized.rstd;
    facts.offset[j] = normalized.offset;
    facts.weight[j] = arrays.weight_of(first + j);
    facts.bias[j] = arrays.bias_of(first + j);
  }
  return facts;
}

/// Calls `body(out, in, first column, columns)` for blocks of columns as T, threads over them; `out` may be
/// nullptr.
template <class T, std::size_t N, class Body>
void for_column_blocks(const RunLayout& layout, const View* out, const std::array<View, N>& in,
                       const Body& body) {
  // Narrow blocks where there are few columns: one for each thread.
  const std::int64_t most = layout.rows >= 4 * kColumns ? kColumns : kGroup;
  const auto columns_of = [&](const View& array, std::int64_t first, std::int64_t width) {
    auto* const at = static_cast<std::byte*>(array.data) + first * size_of(array.dtype);
    return RowOperand(View{at, array.dtype, {layout.runs, width}, {layout.run_step, 1}}, 1);
  };
  cpu::parallel_for(layout.rows, most, [&](std::int64_t first, std::int64_t end) {
    const std::int64_t width = end - first, rows = layout.runs;
    std::array<RowOperand, N> operands;
    for (std::size_t i = 0; i < N; ++i) operands[i] = columns_of(in[i], first, width);
    const RowOperand target = out != nullptr ? columns_of(*out, first, width) : RowOperand();
    const auto size_for = [&](const RowOperand& x) { return x.template in_place<T>() ? 0 : rows * width; };
    const auto scratch = [&]<std::size_t... I>(std::index_sequence<I...> /*indices*/) {
      return std::array<RowScratch<T>, N>{RowScratch<T>(size_for(operands[I]))...};
    }
    (std::make_index_sequence<N>{});
    const RowScratch<T> result(out != nullptr ? size_for(target) : 0);
    std::array<RowBlock<const T>, N> blocks;
    for (std::size_t i = 0; i < N; ++i) {
      const RowBlock<T> block = operands[i].template read<T>(0, rows, scratch[i].data());
      blocks[i] = {block.data, block.distance};
    }
    body(out != nullptr ? target.template target<T>(0, result.data()) : RowBlock<T>{}, blocks, first, width);
    if (out != nullptr) target.template finish<T>(0, rows, result.data());
  });
}

/// Whether rows are the columns of a matrix.
[[nodiscard]] inline bool is_columns(const RunLayout& layout) {
  return layout.length == 1 && layout.runs > 1 && layout.row_step == 1 && layout.one_channel();
}

template <class T>
void column_norm(const RunLayout& layout, const View& out, const View& x, const RunArrays<T>& arrays,
                 double eps) {
  for_column_blocks<T, 1>(
      layout, &out, {x},
      [&](RowBlock<T> y, const std::array<RowBlock<const T>, 1>& in, std::int64_t first, std::int64_t width) {
        const ColumnFacts<T> facts = column_facts(in[0], layout.runs, first, width, arrays, eps);
        run_isa<ColumnMap<T, 1, ColumnForward>>(y, in, layout.runs, width, &facts);
      });
}

template <class T>
void column_norm_backward(const RunLayout& layout, const View* out, const View& grad, const View& x,
                          const RunArrays<T>& arrays, const RunSums<T>& sums, double eps) {
  for_column_blocks<T, 2>(
      layout, out, {grad, x},
      [&](RowBlock<T> result, const std::array<RowBlock<const T>, 2>& in, std::int64_t first,
          std::int64_t width) {
        ColumnFacts<T> facts = column_facts(in[1], layout.runs, first, width, arrays, eps);
        ColumnTotals<T> totals{};
        run_isa<ColumnSums<T, 2, GradientTerms>>(in, layout.runs, width, &facts, &totals);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::array<double, 2> of_column{totals[0][static_cast<std::size_t>(j)],
                                                totals[1][static_cast<std::size_t>(j)]};
          sums.store(first + j, of_column);
          const double scale =
              arrays.given ? 0.0 : static_cast<double>(facts.weight[j]) / static_cast<double>(layout.runs);
          facts.mean_grad[j] = static_cast<T>(of_column[0] * scale);
          facts.mean_dot[j] = static_cast<T>(of_column[1] * scale);
        }
        if (result.data == nullptr) return;
        run_isa<ColumnMap<T, 2, ColumnGradient>>(result, in, layout.runs, width, &facts);
      });
}

}  // namespace detail
}  // namespace mezzo::kernels::cpu
