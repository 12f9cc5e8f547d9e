// The CPU's kernels of channel norms of channels-last arrays (ChannelLayout::channels_last), among them
// batch_norm of [N, C]: a matrix whose columns are the channels is taken in chunks of its rows, each with
// moments of its own, where gathering each channel would transpose the matrix twice. Apart from
// cpu_channel_norm.cpp, which chooses between the two.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "mezzo/core/threads.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/norm/channel_arrays.h"
#include "mezzo/kernels/norm/cpu_column_pass.h"
#include "mezzo/kernels/norm/cpu_moments.h"
#include "mezzo/kernels/norm/norm_layout.h"
#include "mezzo/kernels/norm/norm_math.h"

namespace mezzo::kernels::cpu::detail {

/// Elements of a chunk: 64 KiB of f32, which stay in the cache from one pass over them to the next.
inline constexpr std::int64_t kChunk = 16384;

/// The matrices of a layout, and how they are cut.
struct Chunks {
  explicit Chunks(const ChannelLayout& layout)
      : matrices(layout.rows / layout.row_period),
        length(layout.length),
        channels(layout.channels()),
        group(layout.row_channels),
        rows(std::max<std::int64_t>(kChunk / channels, kGroup)),
        count((length - 1) / rows + 1) {}
  std::int64_t matrices, length, channels;
  std::int64_t group;        ///< neighbouring channels that are normalized together
  std::int64_t rows, count;  ///< rows of a chunk but the last one, and chunks of a matrix

  [[nodiscard]] std::int64_t rows_of(std::int64_t chunk) const {
    return std::min(rows, length - chunk * rows);
  }
};

/// A part of a chunk that stays in the first-level cache for all passes over it. N: the number of inputs.
template <std::size_t N>
struct Span {
  std::int64_t chunk, rows;
  bool first;                          ///< of its chunk
  std::array<RowsAhead, N + 1> ahead;  ///< the next one of inputs and result
};

/// The spans of matrix `matrix` of an input or result.
struct SpanArray {
  SpanArray(const View& array, const Chunks& chunks, std::int64_t matrix)
      : dtype(array.dtype),
        row_bytes(chunks.channels * size_of(array.dtype)),
        data(static_cast<std::byte*>(array.data) + matrix * chunks.length * row_bytes) {}
  DType dtype;
  std::int64_t row_bytes;
  std::byte* data;

  [[nodiscard]] std::byte* row(std::int64_t row) const { return data + row * row_bytes; }
  [[nodiscard]] RowsAhead ahead(std::int64_t row) const { return {this->row(row), row_bytes}; }
  /// `n` elements from row `row` on as T: where they are, or widened into `buffer`.
  template <class T>
  [[nodiscard]] T* read(std::int64_t row, std::int64_t n, T* buffer) const {
    if (dtype == dtype_of<T>) return reinterpret_cast<T*>(this->row(row));
    convert(this->row(row), dtype, buffer, dtype_of<T>, n);
    return buffer;
  }
};

/// Calls `body(out, in, span)` for the spans of chunks [begin, end) of a matrix as T, and stores what it
/// leaves in `out`, which may be nullptr.
template <class T, std::size_t N, class Body>
void for_spans_of(const Chunks& chunks, const SpanArray* out, const std::array<SpanArray, N>& in,
                  std::int64_t begin, std::int64_t end, const Body& body) {
  const std::int64_t most = std::min({kColumnSpan, chunks.rows, chunks.length}) * chunks.channels;
  const auto size_for = [&](const SpanArray& array) { return array.dtype == dtype_of<T> ? 0 : most; };
  const auto scratch = [&]<std::size_t... I>(std::index_sequence<I...> /*indices*/) {
    return std::array<RowScratch<T>, N>{RowScratch<T>(size_for(in[I]))...};
  }
  (std::make_index_sequence<N>{});
  // A result may take the place of the first input.
  const bool shared = out != nullptr && in[0].dtype != dtype_of<T>;
  const RowScratch<T> own(out == nullptr || shared ? 0 : size_for(*out));
  // One array that is read where it is, and nothing written: the processor fetches that best by itself.
  const bool alone = N == 1 && out == nullptr && in[0].dtype == dtype_of<T>;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    const std::int64_t first = chunk * chunks.rows, last = first + chunks.rows_of(chunk);
    for (std::int64_t row = first; row < last; row += kColumnSpan) {
      Span<N> span{chunk, std::min(kColumnSpan, last - row), row == first, {}};
      const std::int64_t next = row + span.rows;
      if (!alone && next + kColumnSpan <= chunks.length) {
        for (std::size_t k = 0; k < N; ++k) span.ahead[k] = in[k].ahead(next);
        if (out != nullptr) span.ahead[N] = out->ahead(next);
      }
      const std::int64_t n = span.rows * chunks.channels;
      std::array<const T*, N> blocks;
      for (std::size_t k = 0; k < N; ++k) blocks[k] = in[k].template read<T>(row, n, scratch[k].data());
      if (out == nullptr) {
        body(static_cast<T*>(nullptr), blocks, span);
        continue;
      }
      const bool in_place = out->dtype == dtype_of<T>;
      T* const buffer = shared ? scratch[0].data() : own.data();
      T* const target = in_place ? reinterpret_cast<T*>(out->row(row)) : buffer;
      body(target, blocks, span);
      if (!in_place) convert(target, dtype_of<T>, out->row(row), out->dtype, n);
    }
  }
}

/// for_spans_of all chunks of a matrix, threads over them.
template <class T, std::size_t N, class Body>
void for_spans(const Chunks& chunks, std::int64_t matrix, const View* out, const std::array<View, N>& in,
               const Body& body) {
  const auto arrays = [&]<std::size_t... I>(std::index_sequence<I...> /*indices*/) {
    return std::array<SpanArray, N>{SpanArray(in[I], chunks, matrix)...};
  }
  (std::make_index_sequence<N>{});
  const SpanArray result(out != nullptr ? *out : in[0], chunks, matrix);
  const std::int64_t grain = cpu::in_parallel() || get_num_threads() == 1 ? chunks.count : 1;
  cpu::parallel_for(chunks.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for_spans_of<T, N>(chunks, out != nullptr ? &result : nullptr, arrays, begin, end, body);
  });
}

/// Sums of the chunks of one matrix, and facts of its channels.
template <class T>
class MatrixScratch {
 public:
  explicit MatrixScratch(const Chunks& chunks)
      : channels_(chunks.channels),
        of_channels_(ChannelFacts<T>::kArrays * chunks.channels),
        shifts_(chunks.count * chunks.channels),
        sums_(2 * kSums * chunks.count * chunks.channels) {}
  [[nodiscard]] ChannelFacts<T> facts() const { return {of_channels_.data(), channels_}; }
  /// The channels' shifts in a chunk, whose sums are of x - shift.
  [[nodiscard]] T* shift(std::int64_t chunk) const { return shifts_.data() + chunk * channels_; }
  /// Sums of x - shift and of its squares.
  [[nodiscard]] ColumnTotals deviations(std::int64_t chunk) const { return totals(kSums * chunk); }
  /// Sums of grad, and of grad times x - shift.
  [[nodiscard]] ColumnTotals gradients(std::int64_t chunk) const { return totals(kSums * chunk + 1); }

 private:
  static constexpr std::int64_t kSums = 2;  ///< pairs of sums
  [[nodiscard]] ColumnTotals totals(std::int64_t pair) const {
    double* const first = sums_.data() + 2 * pair * channels_;
    return {first, first + channels_};
  }
  std::int64_t channels_;
  RowScratch<T> of_channels_, shifts_;
  RowScratch<double> sums_;
};

/// Sums of a span, before they are merged into the sums of its chunk.
template <class T>
class SpanScratch {
 public:
  explicit SpanScratch(std::int64_t channels) : channels_(channels), shift_(channels), sums_(2 * channels) {}
  [[nodiscard]] T* shift() const { return shift_.data(); }
  [[nodiscard]] ColumnTotals totals() const { return {sums_.data(), sums_.data() + channels_}; }

 private:
  std::int64_t channels_;
  RowScratch<T> shift_;
  RowScratch<double> sums_;
};

/// Merges a span's moments into its chunk's moments, relative to the means of the chunk's first span.
template <class T, std::size_t N>
void add_moments(const Chunks& chunks, const T* x, const Span<N>& span, const MatrixScratch<T>& scratch,
                 const SpanScratch<T>& own) {
  const std::int64_t rows = span.rows, channels = chunks.channels;
  const ColumnTotals sums = own.totals();
  ChannelFacts<T> facts = scratch.facts();
  facts.shift = own.shift();
  run_isa<ColumnSums<T, 1, ValueTerms>>(std::array{x}, rows, channels, facts, sums, RowsAhead{});
  run_isa<MeansOfSums<T>>(static_cast<const double*>(sums.first), rows, channels, facts.shift);
  run_isa<ColumnSums<T, 1, DeviationTerms>>(std::array{x}, rows, channels, facts, sums, span.ahead[N - 1]);
  // Sums of squares are not finite either where sums are not.
  if (!run_isa<AllFinite>(static_cast<const double*>(sums.second), channels)) {
    for (std::int64_t j = 0; j < channels; ++j) {
      const RunRow<T> column{x + j, rows, 1, channels};
      if (scalar::leaves_number<T>(sums.first[j])) {
        const scalar::Moments<T> again = row_moments_again(column);
        const auto count = static_cast<double>(rows);
        facts.shift[j] = again.shift;
        sums.first[j] = again.rest * count;
        sums.second[j] = (again.variance + again.rest * again.rest) * count;
        continue;
      }
      sums.second[j] = finite_squares(column, facts.shift[j], sums.second[j]);
    }
  }
  T* const shift = scratch.shift(span.chunk);
  const ColumnTotals totals = scratch.deviations(span.chunk);
  if (span.first) {
    std::copy_n(facts.shift, channels, shift);
    std::copy_n(sums.first, channels, totals.first);
    std::copy_n(sums.second, channels, totals.second);
    return;
  }
  run_isa<MergeSpan<T>>(static_cast<const T*>(shift), static_cast<const T*>(facts.shift), rows, channels,
                        sums, totals);
}

/// Computes sums of grad and of grad * (x - shift) that are not finite in `totals` anew in f64.
template <class T>
void finish_gradients(const std::array<const T*, 2>& in, std::int64_t rows, const ChannelFacts<T>& facts,
                      std::int64_t channels, const ColumnTotals& totals) {
  for (std::int64_t j = 0; j < channels; ++j) {
    if (!scalar::leaves_number<T>(totals.second[j])) continue;
    const scalar::MinusFn<double> minus{static_cast<double>(facts.shift[j])};
    double grads = 0, dots = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto grad = static_cast<double>(in[0][r * channels + j]),
                 x = static_cast<double>(in[1][r * channels + j]);
      grads += grad;
      dots += grad * minus(x);
    }
    totals.first[j] = grads;
    totals.second[j] = dots;
  }
}

/// Merges the sums of grad and of grad * (x - shift) over a span into the sums of its chunk. `shift`: the
/// span's. Sums that are not finite in T are taken in f64.
template <class T>
void add_gradients(const Chunks& chunks, const std::array<const T*, 2>& in, const Span<2>& span, T* shift,
                   const MatrixScratch<T>& scratch, const SpanScratch<T>& own) {
  const std::int64_t rows = span.rows, channels = chunks.channels;
  const ColumnTotals sums = own.totals(), totals = scratch.gradients(span.chunk);
  ChannelFacts<T> facts = scratch.facts();
  facts.shift = shift;
  run_isa<ColumnSums<T, 2, GradientTerms>>(in, rows, channels, facts, sums, span.ahead[0]);
  if (!run_isa<AllFinite>(static_cast<const double*>(sums.second), channels))
    finish_gradients(in, rows, facts, channels, sums);
  if (span.first) {
    std::fill_n(totals.first, channels, 0.0);
    std::fill_n(totals.second, channels, 0.0);
  }
  run_isa<MergeGradients<T>>(static_cast<const T*>(scratch.shift(span.chunk)), static_cast<const T*>(shift),
                             channels, sums, totals);
}

/// The moments of the group of channels from `first` on, from the moments of the chunks.
template <class T>
[[nodiscard]] scalar::Moments<T> group_moments(const Chunks& chunks, std::int64_t first,
                                               const MatrixScratch<T>& scratch) {
  const auto each = [&](const auto& f) {
    for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      const ColumnTotals totals = scratch.deviations(chunk);
      for (std::int64_t j = first; j < first + chunks.group; ++j)
        f(static_cast<double>(chunks.rows_of(chunk)), static_cast<double>(scratch.shift(chunk)[j]),
          totals.first[j], totals.second[j]);
    }
  };
  const std::int64_t count = chunks.length * chunks.group;
  double sum = 0;
  each([&](double rows, double mean, double rest, double /*squares*/) { sum += rows * mean + rest; });
  const T shift = static_cast<T>(sum / static_cast<double>(count));
  double deviations = 0, squares = 0, farthest = 0;
  each([&](double rows, double mean, double rest, double around) {
    const double moved = mean - static_cast<double>(shift);
    deviations += rest + rows * moved;
    squares += around + moved * (2 * rest + rows * moved);
    farthest = std::max(farthest, std::abs(moved) + std::sqrt(around));
  });
  return scalar::moments_of_parts(shift, deviations, squares, count, farthest);
}

/// Fills in statistics and parameters of all channels of a matrix, and stores the statistics.
template <class T>
void find_facts(const Chunks& chunks, std::int64_t matrix, const ChannelArrays<T>& arrays, double eps,
                const MatrixScratch<T>& scratch) {
  const ChannelFacts<T> facts = scratch.facts();
  const std::int64_t groups = chunks.channels / chunks.group;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = g * chunks.group, row = matrix * groups + g;
    scalar::NormalizedFn<T> normalized;
    if (arrays.given) {
      normalized = arrays.known(row, eps);
    } else {
      const scalar::Moments<T> moments = group_moments(chunks, first, scratch);
      arrays.keep(row, moments);
      normalized = moments.normalized(eps);
    }
    for (std::int64_t j = first; j < first + chunks.group; ++j)
      facts.set(j, normalized, arrays.weight_of(j), arrays.bias_of(j));
  }
}

/// Calls `body(matrix, scratch)` for every matrix: threads over matrices where there are enough of them, and
/// otherwise over chunks. The bits are the same, as both are cut alike.
template <class T, class Body>
void for_matrices(const Chunks& chunks, const Body& body) {
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    const MatrixScratch<T> scratch(chunks);
    for (std::int64_t matrix = begin; matrix < end; ++matrix) body(matrix, scratch);
  };
  const std::int64_t grain = std::max<std::int64_t>(2 * kChunk / (chunks.length * chunks.channels), 1);
  if (chunks.matrices >= get_num_threads())
    cpu::parallel_for(chunks.matrices, grain, some);
  else
    some(0, chunks.matrices);
}

template <class T>
void column_norm(const ChannelLayout& layout, const View& out, const View& x, const ChannelArrays<T>& arrays,
                 double eps) {
  const Chunks chunks(layout);
  for_matrices<T>(chunks, [&](std::int64_t matrix, const MatrixScratch<T>& scratch) {
    if (!arrays.given) {
      for_spans<T, 1>(chunks, matrix, nullptr, {x},
                      [&](T* /*out*/, const std::array<const T*, 1>& in, const Span<1>& span) {
                        add_moments(chunks, in[0], span, scratch, SpanScratch<T>(chunks.channels));
                      });
    }
    find_facts(chunks, matrix, arrays, eps, scratch);
    for_spans<T, 1>(chunks, matrix, &out, {x},
                    [&](T* y, const std::array<const T*, 1>& in, const Span<1>& span) {
                      run_isa<ColumnMap<T, 1, ColumnForward>>(y, in, span.rows, chunks.channels,
                                                              scratch.facts(), span.ahead);
                    });
  });
}

/// The sums of grad and of grad times the normalized x over channel j.
template <class T>
[[nodiscard]] std::array<double, 2> channel_sums(const Chunks& chunks, std::int64_t j,
                                                 const MatrixScratch<T>& scratch) {
  const scalar::NormalizedFn<T> normalized = scratch.facts().normalized(j);
  std::array<double, 2> sums{};
  double dot = 0;
  for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk) {
    const ColumnTotals totals = scratch.gradients(chunk);
    const double moved = static_cast<double>(scratch.shift(chunk)[j]) - static_cast<double>(normalized.shift);
    sums[0] += totals.first[j];
    dot += totals.second[j] + moved * totals.first[j];
  }
  // (x - mean) * rstd, in two steps as NormalizedFn does.
  sums[1] = dot * static_cast<double>(normalized.rstd) + sums[0] * static_cast<double>(normalized.offset);
  return sums;
}

/// Stores the sums of each channel, and spreads them as what its group takes from every gradient.
template <class T>
void add_up_chunks(const Chunks& chunks, std::int64_t matrix, const ChannelArrays<T>& arrays,
                   const ChannelSums<T>& sums, const MatrixScratch<T>& scratch) {
  const ChannelFacts<T> facts = scratch.facts();
  const double scale = 1.0 / static_cast<double>(chunks.length * chunks.group);
  for (std::int64_t first = 0; first < chunks.channels; first += chunks.group) {
    std::array<double, 2> weighted{};
    for (std::int64_t j = first; j < first + chunks.group; ++j) {
      const std::array<double, 2> of_channel = channel_sums(chunks, j, scratch);
      sums.store(matrix * chunks.channels + j, of_channel[0], of_channel[1]);
      for (std::size_t i = 0; i < 2; ++i) weighted[i] += static_cast<double>(facts.weight[j]) * of_channel[i];
    }
    for (std::int64_t j = first; j < first + chunks.group; ++j) {
      facts.mean_grad[j] = arrays.given ? T(0) : static_cast<T>(weighted[0] * scale);
      facts.mean_dot[j] = arrays.given ? T(0) : static_cast<T>(weighted[1] * scale);
    }
  }
}

template <class T>
void column_norm_backward(const ChannelLayout& layout, const View* out, const View& grad, const View& x,
                          const ChannelArrays<T>& arrays, const ChannelSums<T>& sums, double eps) {
  const Chunks chunks(layout);
  for_matrices<T>(chunks, [&](std::int64_t matrix, const MatrixScratch<T>& scratch) {
    for_spans<T, 2>(chunks, matrix, nullptr, {grad, x},
                    [&](T* /*out*/, const std::array<const T*, 2>& in, const Span<2>& span) {
                      const SpanScratch<T> own(chunks.channels);
                      T* shift = own.shift();
                      if (arrays.given) {
                        // One channel to a row of statistics: only batches have given ones.
                        shift = scratch.shift(span.chunk);
                        std::copy_n(arrays.mean, chunks.channels, shift);
                      } else {
                        add_moments(chunks, in[1], span, scratch, own);
                      }
                      add_gradients(chunks, in, span, shift, scratch, own);
                    });
    find_facts(chunks, matrix, arrays, eps, scratch);
    add_up_chunks(chunks, matrix, arrays, sums, scratch);
    if (out == nullptr) return;
    for_spans<T, 2>(chunks, matrix, out, {grad, x},
                    [&](T* result, const std::array<const T*, 2>& in, const Span<2>& span) {
                      run_isa<ColumnMap<T, 2, ColumnGradient>>(result, in, span.rows, chunks.channels,
                                                               scratch.facts(), span.ahead);
                    });
  });
}

}  // namespace mezzo::kernels::cpu::detail
