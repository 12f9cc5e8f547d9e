// The device code of channel norms (cuda_channel_norm.cu): rows at once, pieces of rows, and what combines
// pieces.
#pragma once

#include <cstdint>

#include "mezzo/kernels/norm/channel_arrays.h"
#include "mezzo/kernels/norm/cuda_rows.h"

namespace mezzo::kernels::cuda {

/// place / length for the places of a row, by a product, as places and lengths are below 2^14:
/// at ceil(2^31 / length) / 2^31 exceeds at / length by less than at / 2^31 < 1 / length.
struct ChannelOfPlace {
  std::uint32_t factor;
  explicit ChannelOfPlace(std::int64_t length)
      : factor(static_cast<std::uint32_t>(((std::int64_t{1} << 31) + length - 1) / length)) {}
  [[nodiscard]] __device__ std::int64_t operator()(std::int64_t at) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(at) * factor) >> 31);
  }
};
static_assert(kLongestRegisterRow <= 1 << 14);

/// A channel norm, as kernels see it.
template <class T>
struct ChannelNorm : ChannelArrays<T> {
  ChannelLayout layout;
  double eps;
};

/// A whole row at once. Arrays: result, x, both with the row in one stretch.
template <class T>
struct ChannelNormRow {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  ChannelNorm<T> norm;
  ChannelOfPlace run_of;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const scalar::Moments<T> moments = row_moments<1>(row);
    if (row.leads()) norm.keep(index, moments);
    const scalar::NormalizedFn<T> normalized = moments.normalized(norm.eps);
    const std::int64_t first = norm.layout.channel(index, 0), step = norm.layout.run_channels;
    row.write([&](const auto& place) {
      const std::int64_t channel = first + run_of(place.at) * step;
      return normalized(x(place), norm.weight_of(channel), norm.bias_of(channel));
    });
  }
};

/// How rows are cut: piece k of row r is piece number index(r, k), and lies in run k / of_a_run. The numbers
/// of a row's pieces are neighbours; but in a channels-last array, where `columns` is the number of channels
/// and not 0, the pieces of all channels at one place are.
struct Pieces {
  std::int64_t rows, of_a_row, of_a_run, length;
  std::int64_t columns = 0, runs = 1;  ///< runs of a row, each a column

  [[nodiscard]] __device__ std::int64_t index(std::int64_t row, std::int64_t k) const {
    if (columns == 0) return row * of_a_row + k;
    const std::int64_t rows_across = columns / runs;
    const std::int64_t column = row % rows_across * runs + k / of_a_run;
    return (row / rows_across * of_a_run + k % of_a_run) * columns + column;
  }
  [[nodiscard]] __device__ std::int64_t row_of(std::int64_t index) const {
    if (columns == 0) return index / of_a_row;
    return index / columns / of_a_run * (columns / runs) + index % columns / runs;
  }
  [[nodiscard]] __device__ std::int64_t run_of(std::int64_t index) const {
    return columns == 0 ? index % of_a_row / of_a_run : index % columns % runs;
  }
  [[nodiscard]] MEZZO_HD std::int64_t total() const { return rows * of_a_row; }
};

/// Mean of a piece, and the sum of its elements' squared deviations from it.
struct PieceMoments {
  double mean, squares;
};
/// Arrays: x.
template <class T>
struct PieceMomentsRow {
  using Number = T;
  static constexpr std::size_t kResults = 0;
  PieceMoments* pieces;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const scalar::Moments<T> moments = row_moments<0>(row);
    if (row.leads()) pieces[index] = {moments.mean(), moments.variance * static_cast<double>(row.length())};
  }
};

/// Each row's normalizing function, from its pieces, all of one length, or given statistics; a block per row.
template <class T>
__global__ void finish_moments(ChannelNorm<T> norm, Pieces pieces, const PieceMoments* moments,
                               scalar::NormalizedFn<T>* normalized) {
  const BlockTeam team;
  for (std::int64_t row = blockIdx.x; row < pieces.rows; row += gridDim.x) {
    if (norm.given) {
      if (team.rank() == 0) normalized[row] = norm.known(row, norm.eps);
      continue;
    }
    const auto length = static_cast<double>(pieces.length);
    double sum = 0;
    for (std::int64_t k = team.rank(); k < pieces.of_a_row; k += team.size())
      sum += moments[pieces.index(row, k)].mean;
    const T shift = static_cast<T>(team.reduce(sum, AddTerms{}) / static_cast<double>(pieces.of_a_row));
    TwoSums around{0, 0};
    double farthest = 0;
    for (std::int64_t k = team.rank(); k < pieces.of_a_row; k += team.size()) {
      const PieceMoments piece = moments[pieces.index(row, k)];
      const double rest = piece.mean - static_cast<double>(shift);
      around.first += rest * length;
      around.second += piece.squares + rest * rest * length;
      farthest = LargerTerm{}(farthest, (rest < 0 ? -rest : rest) + std::sqrt(piece.squares));
    }
    around = team.reduce(around, AddTwoSums{});
    farthest = team.reduce(farthest, LargerTerm{});
    const scalar::Moments<T> whole =
        scalar::moments_of_parts(shift, around.first, around.second, norm.layout.count(), farthest);
    if (team.rank() != 0) continue;
    norm.keep(row, whole);
    normalized[row] = whole.normalized(norm.eps);
  }
}

/// Arrays: result, x.
template <class T>
struct NormalizePiece {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  ChannelNorm<T> norm;
  Pieces pieces;
  const scalar::NormalizedFn<T>* normalized_rows;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t r = pieces.row_of(index), channel = norm.layout.channel(r, pieces.run_of(index));
    const scalar::NormalizedFn<T> normalized = normalized_rows[r];
    const T weight = norm.weight_of(channel), bias = norm.bias_of(channel);
    row.write([&](const auto& place) { return normalized(row.template get<1>(place), weight, bias); });
  }
};

/// Sums of grad, and of grad times the normalized x, over a piece. Arrays: grad, x.
template <class T>
struct PieceSumsRow {
  using Number = T;
  static constexpr std::size_t kResults = 0;
  Pieces pieces;
  const scalar::NormalizedFn<T>* normalized_rows;
  TwoSums* sums;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const auto grad = [&](const auto& place) { return row.template get<0>(place); };
    const auto x = [&](const auto& place) { return row.template get<1>(place); };
    const TwoSums of_piece = gradient_sums(row, normalized_rows[pieces.row_of(index)], grad, x);
    if (row.leads()) sums[index] = of_piece;
  }
};

/// The gradients of the parameters, and the function for x's gradient in each row, from the sums of pieces; a
/// block per row. A thread has whole runs, unless the row is of one channel. `of_pieces` and what
/// `normalized` has are missing where statistics are given and no parameter's gradient is wanted.
template <class T>
__global__ void finish_sums(ChannelNorm<T> norm, Pieces pieces, const TwoSums* of_pieces,
                            const scalar::NormalizedFn<T>* normalized, ChannelSums<T> channels,
                            scalar::NormGradientFn<T>* gradients) {
  const BlockTeam team;
  const bool one = norm.layout.one_channel();
  const std::int64_t of_a_run = one ? 1 : pieces.of_a_run;
  const std::int64_t runs = of_pieces == nullptr ? 0 : one ? pieces.of_a_row : norm.layout.runs;
  for (std::int64_t row = blockIdx.x; row < pieces.rows; row += gridDim.x) {
    TwoSums total{0, 0};
    for (std::int64_t run = team.rank(); run < runs; run += team.size()) {
      TwoSums sums{0, 0};
      for (std::int64_t k = run * of_a_run; k < (run + 1) * of_a_run; ++k) {
        sums = AddTwoSums{}(sums, of_pieces[pieces.index(row, k)]);
      }
      if (!one) {
        channels.store(row * runs + run, sums.first, sums.second);
        const auto weight = static_cast<double>(norm.weight_of(norm.layout.channel(row, run)));
        sums = {sums.first * weight, sums.second * weight};
      }
      total = AddTwoSums{}(total, sums);
    }
    total = team.reduce(total, AddTwoSums{});
    if (team.rank() != 0) continue;
    if (one) channels.store(row, total.first, total.second);
    const double weight = one ? static_cast<double>(norm.weight_of(norm.layout.channel(row, 0))) : 1.0;
    const double scale = weight / static_cast<double>(norm.layout.count());
    if (norm.given) total = {0, 0};
    gradients[row] = {of_pieces == nullptr ? norm.known(row, norm.eps) : normalized[row],
                      static_cast<T>(total.first * scale), static_cast<T>(total.second * scale)};
  }
}

/// Arrays: result, grad, x.
template <class T>
struct GradientPiece {
  using Number = T;
  static constexpr std::size_t kResults = 1;
  ChannelNorm<T> norm;
  Pieces pieces;
  const scalar::NormGradientFn<T>* gradients;
  template <class Row>
  __device__ MEZZO_ALWAYS_INLINE void operator()(Row& row, std::int64_t index) const {
    const std::int64_t r = pieces.row_of(index);
    const scalar::NormGradientFn<T> gradient = gradients[r];
    const T weight = norm.weight_of(norm.layout.channel(r, pieces.run_of(index)));
    row.write([&](const auto& place) {
      return gradient(row.template get<1>(place), row.template get<2>(place), weight);
    });
  }
};

}  // namespace mezzo::kernels::cuda
