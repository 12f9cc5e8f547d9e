// The CPU's kernels of group_norm, instance_norm and batch_norm: forward and backward, one row of runs at a
// time while it is in the cache.
#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/norm/channel_arrays.h"
#include "mezzo/kernels/norm/cpu_column_norm.h"
#include "mezzo/kernels/norm/cpu_moments.h"
#include "mezzo/kernels/norm/norm.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu {

namespace {

using namespace detail;

/// Rows that are `row_distance` apart, each of runs that are `run_distance` apart.
template <class T>
struct RunBlock {
  T* data = nullptr;
  std::int64_t row_distance = 0, run_distance = 0;
  RowBlock<T> rows = {};  ///< where they come from, for next()
  [[nodiscard]] MEZZO_ALWAYS_INLINE const T* next(std::int64_t r) const { return rows.next(r); }
  [[nodiscard]] MEZZO_ALWAYS_INLINE T* row(std::int64_t r) const { return data + r * row_distance; }
  /// The row for its statistics. Whether its runs are taken as one depends on the layout only, and so do the
  /// bits.
  [[nodiscard]] MEZZO_ALWAYS_INLINE RunRow<T> whole_row(std::int64_t r, const ChannelLayout& layout) const {
    if (layout.run_step == layout.length) return {row(r), 1, layout.count(), layout.count()};
    return {row(r), layout.runs, layout.length, run_distance};
  }
};

/// The function that normalizes row `row` of `x`, the row `index` of all.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> channel_normalized(RunBlock<T> x, std::int64_t row,
                                                                             const ChannelLayout& layout,
                                                                             const ChannelArrays<T>& arrays,
                                                                             std::int64_t index, double eps,
                                                                             const T* target) {
  if (arrays.given) return arrays.known(index, eps);
  const scalar::Moments<T> moments = row_moments(x.whole_row(row, layout), x.next(row), target);
  arrays.keep(index, moments);
  return moments.normalized(eps);
}

/// A function of values, with the weight and bias of a run.
template <class T>
struct ScaledFn {
  scalar::NormalizedFn<T> normalized;
  T weight, bias;
  MEZZO_ALWAYS_INLINE T operator()(T x) const { return normalized(x, weight, bias); }
};
template <class T>
struct ScaledGradientFn {
  scalar::NormGradientFn<T> gradient;
  T weight;
  MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const { return gradient(grad, x, weight); }
};

template <class T>
struct ChannelNormRows {
  /// Rows `first`, `first + 1`, ... of all. `layout`: of the parameters in a row.
  static void run(RunBlock<T> out, RunBlock<T> in, ChannelLayout layout, ChannelArrays<T> arrays, double eps,
                  std::int64_t first, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const RunRow<T> x{in.row(r), layout.runs, layout.length, in.run_distance};
      const scalar::NormalizedFn<T> normalized =
          channel_normalized(in, r, layout, arrays, first + r, eps, out.next(r));
      for (std::int64_t k = 0; k < layout.runs; ++k) {
        const std::int64_t channel = layout.channel(first + r, k);
        const ScaledFn<T> scaled{normalized, arrays.weight_of(channel), arrays.bias_of(channel)};
        row_map<T, 1>({x.data + k * x.distance}, out.row(r) + k * out.run_distance, layout.length, scaled);
      }
    }
  }
};

template <class T>
struct ChannelNormBackwardRows {
  /// `out.data` is nullptr where the gradient of x is not wanted.
  static void run(RunBlock<T> out, RunBlock<T> grads, RunBlock<T> in, ChannelLayout layout,
                  ChannelArrays<T> arrays, ChannelSums<T> sums, double eps, std::int64_t first,
                  std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const RunRow<T> x{in.row(r), layout.runs, layout.length, in.run_distance};
      const RunRow<T> grad{grads.row(r), layout.runs, layout.length, grads.run_distance};
      const scalar::NormalizedFn<T> normalized =
          channel_normalized(in, r, layout, arrays, first + r, eps, out.next(r));
      const std::array<double, 2> weighted =
          add_up(grad, x, grads.next(r), layout, arrays, normalized, sums, first + r);
      if (out.data == nullptr) continue;
      scalar::NormGradientFn<T> gradient{normalized, 0, 0};
      if (!arrays.given) {
        const double scale = 1.0 / static_cast<double>(layout.count());
        gradient.mean_grad = static_cast<T>(weighted[0] * scale);
        gradient.mean_dot = static_cast<T>(weighted[1] * scale);
      }
      for (std::int64_t k = 0; k < layout.runs; ++k) {
        const ScaledGradientFn<T> scaled{gradient, arrays.weight_of(layout.channel(first + r, k))};
        row_map<T, 2>({grad.data + k * grad.distance, x.data + k * x.distance},
                      out.row(r) + k * out.run_distance, layout.length, scaled);
      }
    }
  }

 private:
  /// Stores the sums of grad and of grad times the normalized x, and returns the row's sums, weighted by
  /// channel. `next` is what may be fetched meanwhile; nullptr: the runs themselves, one after the other.
  MEZZO_ALWAYS_INLINE static std::array<double, 2> add_up(RunRow<T> grad, RunRow<T> x, const T* next,
                                                          const ChannelLayout& layout,
                                                          const ChannelArrays<T>& arrays,
                                                          scalar::NormalizedFn<T> normalized,
                                                          ChannelSums<T> sums, std::int64_t row) {
    std::array<double, 2> total{}, weighted{};
    for (std::int64_t k = 0; k < layout.runs; ++k) {
      const T* const g = grad.data + k * grad.distance;
      const T* const ahead = next != nullptr ? next + k * layout.length : g + grad.distance;
      const std::array<double, 2> of_run =
          sums_of_run(g, x.data + k * x.distance, layout.length, normalized, ahead);
      if (!layout.one_channel()) sums.store(row * layout.runs + k, of_run[0], of_run[1]);
      const auto weight = static_cast<double>(arrays.weight_of(layout.channel(row, k)));
      for (std::size_t i = 0; i < 2; ++i) {
        total[i] += of_run[i];
        weighted[i] += weight * of_run[i];
      }
    }
    if (layout.one_channel()) sums.store(row, total[0], total[1]);
    return weighted;
  }

  MEZZO_ALWAYS_INLINE static std::array<double, 2> sums_of_run(const T* grad, const T* x, std::int64_t length,
                                                               scalar::NormalizedFn<T> normalized,
                                                               const T* next) {
    const scalar::GradDotFn<T> dot{normalized};
    if (length >= kGroup)
      return row_sums<T, 2>({grad, x}, nullptr, length, {next, nullptr}, scalar::WeightedGradFn{}, dot);
    std::array<double, 2> sums{};
    for (std::int64_t i = 0; i < length; ++i) {
      sums[0] += static_cast<double>(grad[i]);
      sums[1] += static_cast<double>(dot(grad[i], x[i]));
    }
    return sums;
  }
};

/// Whether the elements of a row are at even distances.
[[nodiscard]] bool is_even(const ChannelLayout& layout) {
  return layout.runs == 1 || layout.run_step == layout.length;
}

/// An array as rows for for_row_blocks; see is_even.
[[nodiscard]] RowOperand even_rows(const View& array, const ChannelLayout& layout) {
  return {View{array.data, array.dtype, {layout.rows, layout.count()}, {layout.row_step, 1}}, 1};
}

/// A layout of rows of one channel, each in one piece.
[[nodiscard]] ChannelLayout as_one_run(ChannelLayout layout) {
  layout.length = layout.run_step = layout.count();
  layout.runs = 1;
  return layout;
}

/// Calls `body(out, in, layout, first row, rows)` for blocks of rows as T, threads over them; `layout`: of
/// the parameters in the blocks. `out` may be nullptr.
template <class T, std::size_t N, class Body>
void for_even_rows(const ChannelLayout& layout, const View* out, const std::array<View, N>& in,
                   const Body& body) {
  ChannelLayout packed = layout.one_channel() ? as_one_run(layout) : layout;
  packed.run_step = packed.length;
  const auto runs_of = [&](RowBlock<T> rows) {
    return RunBlock<T>{rows.data, rows.distance, packed.length, rows};
  };
  std::array<RowOperand, N> operands;
  for (std::size_t i = 0; i < N; ++i) operands[i] = even_rows(in[i], layout);
  const RowOperand target = out != nullptr ? even_rows(*out, layout) : RowOperand();
  for_row_blocks<T, N>(
      out != nullptr ? &target : nullptr, operands,
      [&](RowBlock<T> result, const std::array<RowBlock<T>, N>& blocks, std::int64_t first,
          std::int64_t rows) {
        std::array<RunBlock<T>, N> runs;
        for (std::size_t i = 0; i < N; ++i) runs[i] = runs_of(blocks[i]);
        body(runs_of(result), runs, packed, first, rows);
      },
      1, Buffers::shared);
}

/// One array of for_split_rows. `gathered`: its runs are brought together even where they could be used in
/// place.
template <class T>
class SplitRows {
 public:
  SplitRows() = default;
  SplitRows(const View& array, const ChannelLayout& layout, bool gathered)
      // Viewed as [rows, runs, length]: to RowOperand the runs of a row are neighbouring rows.
      : runs_(View{array.data,
                   array.dtype,
                   {layout.rows, layout.runs, layout.length},
                   {layout.row_step, layout.run_step, 1}},
              2),
        layout_(layout),
        data_(array.dtype == dtype_of<T> && !gathered ? static_cast<T*>(array.data) : nullptr) {}

  [[nodiscard]] bool in_place() const { return data_ != nullptr; }
  [[nodiscard]] std::int64_t scratch() const { return in_place() ? 0 : layout_.count(); }
  /// A row where it is, or in `buffer`, which has the array's values after `read`.
  [[nodiscard]] RunBlock<T> row(std::int64_t row, T* buffer) const {
    if (in_place()) return {data_ + row * layout_.row_step, 0, layout_.run_step};
    return {buffer, 0, layout_.length};
  }
  [[nodiscard]] RunBlock<T> read(std::int64_t row, T* buffer) const {
    // There are several runs and rows, which are not one run of memory: RowOperand copies, whatever the
    // dtype.
    if (!in_place()) (void)runs_.template read<T>(row * layout_.runs, layout_.runs, buffer);
    return this->row(row, buffer);
  }
  void finish(std::int64_t row, const T* buffer) const {
    if (!in_place()) runs_.template finish<T>(row * layout_.runs, layout_.runs, buffer);
  }

 private:
  RowOperand runs_;
  ChannelLayout layout_;
  T* data_ = nullptr;
};

/// Runs shorter than this are put together before they are added up: the end of each run costs as much as
/// copying it.
constexpr std::int64_t kShortRun = 256;

/// for_even_rows for rows of separate runs: one call of `body` per row.
template <class T, std::size_t N, class Body>
void for_split_rows(const ChannelLayout& layout, const View* out, const std::array<View, N>& in,
                    const Body& body) {
  const bool gathered = layout.length < kShortRun && layout.one_channel();
  const ChannelLayout seen = gathered ? as_one_run(layout) : layout;
  std::array<SplitRows<T>, N> operands;
  for (std::size_t i = 0; i < N; ++i) operands[i] = SplitRows<T>(in[i], layout, gathered);
  const SplitRows<T> target = out != nullptr ? SplitRows<T>(*out, layout, gathered) : SplitRows<T>();
  const std::int64_t grain = std::max<std::int64_t>(16 * kRowBlock / layout.count(), 1);
  cpu::parallel_for(layout.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const auto scratch = [&]<std::size_t... I>(std::index_sequence<I...> /*indices*/) {
      return std::array<RowScratch<T>, N>{RowScratch<T>(operands[I].scratch())...};
    }
    (std::make_index_sequence<N>{});
    // A result may take the place of the first input, element by element: less of the cache is needed.
    const bool shared = !operands[0].in_place();
    const RowScratch<T> own(out == nullptr || shared ? 0 : target.scratch());
    T* const buffer = shared ? scratch[0].data() : own.data();
    for (std::int64_t row = begin; row < end; ++row) {
      std::array<RunBlock<T>, N> blocks;
      for (std::size_t i = 0; i < N; ++i) blocks[i] = operands[i].read(row, scratch[i].data());
      body(out == nullptr ? RunBlock<T>{} : target.row(row, buffer), blocks, seen, row, std::int64_t{1});
      if (out != nullptr) target.finish(row, buffer);
    }
  });
}

template <class T, std::size_t N, class Body>
void for_run_rows(const ChannelLayout& layout, const View* out, const std::array<View, N>& in,
                  const Body& body) {
  if (is_even(layout))
    for_even_rows<T, N>(layout, out, in, body);
  else
    for_split_rows<T, N>(layout, out, in, body);
}

}  // namespace

void channel_norm(const ChannelLayout& layout, const View& out, const View& x,
                  const NormParameters& parameters, const ChannelStatistics& statistics, double eps,
                  DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const ChannelArrays<T> arrays(parameters.weight, parameters.bias, statistics);
    if (layout.channels_last) return column_norm(layout, out, x, arrays, eps);
    for_run_rows<T, 1>(layout, &out, {x},
                       [&](RunBlock<T> y, const std::array<RunBlock<T>, 1>& in, const ChannelLayout& runs,
                           std::int64_t first, std::int64_t rows) {
                         run_isa<ChannelNormRows<T>>(y, in[0], runs, arrays, eps, first, rows);
                       });
  });
}

void channel_norm_backward(const ChannelLayout& layout, const ChannelNormGradients& out, const View& grad,
                           const View& x, const void* weight, const ChannelStatistics& statistics, double eps,
                           DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const ChannelArrays<T> arrays(weight, nullptr, statistics);
    const ChannelSums<T> sums{static_cast<T*>(out.weight), static_cast<T*>(out.bias)};
    if (layout.channels_last) return column_norm_backward(layout, out.input, grad, x, arrays, sums, eps);
    for_run_rows<T, 2>(layout, out.input, {grad, x},
                       [&](RunBlock<T> result, const std::array<RunBlock<T>, 2>& in,
                           const ChannelLayout& runs, std::int64_t first, std::int64_t rows) {
                         run_isa<ChannelNormBackwardRows<T>>(result, in[0], in[1], runs, arrays, sums, eps,
                                                             first, rows);
                       });
  });
}

}  // namespace mezzo::kernels::cpu
