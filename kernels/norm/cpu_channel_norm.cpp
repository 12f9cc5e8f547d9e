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

/// The function that normalizes a row of runs, the row `index` of all, whose results go to `target`. Whether
/// its runs are taken as one depends on the layout only, and so do the bits.
template <class T>
[[nodiscard]] MEZZO_ALWAYS_INLINE scalar::NormalizedFn<T> channel_normalized(RunRow<T> x,
                                                                             const ChannelLayout& layout,
                                                                             const ChannelArrays<T>& arrays,
                                                                             std::int64_t index, double eps,
                                                                             const T* target) {
  if (arrays.given) return arrays.known(index, eps);
  const RunRow<T> whole{x.data, 1, layout.count(), layout.count()};
  const scalar::Moments<T> moments =
      row_moments<T>(layout.run_step == layout.length ? whole : x, x.next, target);
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

/// A row of results, or nullptr: it is not wanted.
template <class T>
struct ResultRow {
  T* data;
  std::int64_t distance;      ///< from a run to the next
  const T* target = nullptr;  ///< where they are to be in the end, to be prefetched; nullptr: not known
};

template <class T>
struct ChannelNormRow {
  /// Row `index` of all. `layout`: of the parameters in a row.
  static void run(ResultRow<T> out, RunRow<T> x, ChannelLayout layout, ChannelArrays<T> arrays, double eps,
                  std::int64_t index) {
    const scalar::NormalizedFn<T> normalized = channel_normalized(x, layout, arrays, index, eps, out.target);
    for (std::int64_t k = 0; k < layout.runs; ++k) {
      const std::int64_t channel = layout.channel(index, k);
      const ScaledFn<T> scaled{normalized, arrays.weight_of(channel), arrays.bias_of(channel)};
      row_map<T, 1>({x.data + k * x.distance}, out.data + k * out.distance, layout.length, scaled);
    }
  }
};

template <class T>
struct ChannelNormBackwardRow {
  static void run(ResultRow<T> out, RunRow<T> grad, RunRow<T> x, ChannelLayout layout,
                  ChannelArrays<T> arrays, ChannelSums<T> sums, double eps, std::int64_t index) {
    const scalar::NormalizedFn<T> normalized = channel_normalized(x, layout, arrays, index, eps, out.target);
    const std::array<double, 2> weighted = add_up(grad, x, layout, arrays, normalized, sums, index);
    if (out.data == nullptr) return;
    scalar::NormGradientFn<T> gradient{normalized, 0, 0};
    if (!arrays.given) {
      const double scale = 1.0 / static_cast<double>(layout.count());
      gradient.mean_grad = static_cast<T>(weighted[0] * scale);
      gradient.mean_dot = static_cast<T>(weighted[1] * scale);
    }
    for (std::int64_t k = 0; k < layout.runs; ++k) {
      const ScaledGradientFn<T> scaled{gradient, arrays.weight_of(layout.channel(index, k))};
      row_map<T, 2>({grad.data + k * grad.distance, x.data + k * x.distance}, out.data + k * out.distance,
                    layout.length, scaled);
    }
  }

 private:
  /// Stores the sums of grad and of grad times the normalized x, and returns the row's sums, weighted by
  /// channel.
  MEZZO_ALWAYS_INLINE static std::array<double, 2> add_up(RunRow<T> grad, RunRow<T> x,
                                                          const ChannelLayout& layout,
                                                          const ChannelArrays<T>& arrays,
                                                          scalar::NormalizedFn<T> normalized,
                                                          ChannelSums<T> sums, std::int64_t row) {
    std::array<double, 2> total{}, weighted{};
    for (std::int64_t k = 0; k < layout.runs; ++k) {
      const T* const g = grad.data + k * grad.distance;
      const std::array<double, 2> of_run =
          sums_of_run(g, x.data + k * x.distance, layout.length, normalized,
                      grad.next != nullptr ? grad.next + k * grad.distance : g + grad.distance);
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

/// A layout of rows of one channel, each taken as one piece.
[[nodiscard]] ChannelLayout as_one_run(ChannelLayout layout) {
  layout.length = layout.run_step = layout.count();
  layout.runs = 1;
  return layout;
}

/// One array of for_channel_rows. `gathered`: its runs are brought together even where they could be used in
/// place.
template <class T>
class ChannelRows {
 public:
  ChannelRows() = default;
  ChannelRows(const View& array, const ChannelLayout& layout, bool gathered)
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
  [[nodiscard]] ResultRow<T> row(std::int64_t row, T* buffer) const {
    const auto* const memory = reinterpret_cast<const T*>(runs_.packed(row * layout_.runs, layout_.runs));
    if (in_place()) return {data_ + row * layout_.row_step, layout_.run_step, memory};
    return {buffer, layout_.length, memory};
  }
  [[nodiscard]] RunRow<T> read(std::int64_t row, const ChannelLayout& seen, T* buffer) const {
    // Where runs of T are not used in place, there are several runs and rows, and RowOperand copies them.
    if (!in_place()) (void)runs_.template read<T>(row * layout_.runs, layout_.runs, buffer);
    const ResultRow<T> values = this->row(row, buffer);
    const std::byte* const next =
        row + 1 < layout_.rows ? runs_.packed((row + 1) * layout_.runs, layout_.runs) : nullptr;
    return {values.data, seen.runs, seen.length, values.distance, reinterpret_cast<const T*>(next)};
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

/// Calls `body(out, in, layout, row)` for every row as T, threads over them; `layout`: of the parameters in a
/// row. `out` may be nullptr.
template <class T, std::size_t N, class Body>
void for_channel_rows(ChannelLayout layout, const View* out, const std::array<View, N>& in,
                      const Body& body) {
  const bool one_stretch = layout.runs == 1 || layout.run_step == layout.length;
  if (one_stretch && layout.one_channel()) layout = as_one_run(layout);
  const bool gathered = !one_stretch && layout.one_channel() && layout.length < kShortRun;
  const ChannelLayout seen = gathered ? as_one_run(layout) : layout;
  std::array<ChannelRows<T>, N> operands;
  for (std::size_t i = 0; i < N; ++i) operands[i] = ChannelRows<T>(in[i], layout, gathered);
  const ChannelRows<T> target = out != nullptr ? ChannelRows<T>(*out, layout, gathered) : ChannelRows<T>();
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
      std::array<RunRow<T>, N> rows;
      for (std::size_t i = 0; i < N; ++i) rows[i] = operands[i].read(row, seen, scratch[i].data());
      body(out == nullptr ? ResultRow<T>{} : target.row(row, buffer), rows, seen, row);
      if (out != nullptr) target.finish(row, buffer);
    }
  });
}

}  // namespace

void channel_norm(const ChannelLayout& layout, const View& out, const View& x,
                  const NormParameters& parameters, const ChannelStatistics& statistics, double eps,
                  DType compute) {
  if (layout.rows == 0 || layout.count() == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    const ChannelArrays<T> arrays(parameters.weight, parameters.bias, statistics);
    if (layout.channels_last) return column_norm(layout, out, x, arrays, eps);
    for_channel_rows<T, 1>(
        layout, &out, {x},
        [&](ResultRow<T> y, const std::array<RunRow<T>, 1>& in, const ChannelLayout& seen, std::int64_t row) {
          run_isa<ChannelNormRow<T>>(y, in[0], seen, arrays, eps, row);
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
    for_channel_rows<T, 2>(layout, out.input, {grad, x},
                           [&](ResultRow<T> result, const std::array<RunRow<T>, 2>& in,
                               const ChannelLayout& seen, std::int64_t row) {
                             run_isa<ChannelNormBackwardRow<T>>(result, in[0], in[1], seen, arrays, sums, eps,
                                                                row);
                           });
  });
}

}  // namespace mezzo::kernels::cpu
