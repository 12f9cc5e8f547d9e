// The products of attention for 16-bit elements by the GPU's matrix units (matrix_unit.h), with sums in f32.
// The weights are rounded to the elements' type before the second product, as in PyTorch's fused kernels;
// sums of weights are not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/attention/cuda_tiles.h"
#include "mezzo/kernels/cuda/matrix_unit.h"

namespace mezzo::kernels::cuda {

/// FmaTiles on the matrix units, for sources of S (Half, BFloat16). Each of the four warps has 16 rows of the
/// square and all its columns: the weights, as the matrix unit leaves them in the lanes, are its next operand
/// as they are, and no lane asks another for them.
template <class S>
class MmaTiles {
 public:
  using Number = float;
  using Powers = PowersOfE<float>;
  static constexpr bool kPlain = false, kHasPieces = true;
  static constexpr int kAcross = 4;  ///< threads that share a row
  static constexpr int kThreads = 128;
  static constexpr int kBlocksOfProcessor = 2;
  static constexpr int kSide = 64, kRowSide = kSide, kColumnSide = kSide;
  static constexpr int kRows = 2, kColumns = kSide / kAcross, kOutColumns = 32;
  static constexpr int kOutWidth = kAcross * kOutColumns;

  [[nodiscard]] __device__ static int row(int i) {
    return static_cast<int>(threadIdx.x) / 32 * 16 + group() + 8 * i;
  }
  [[nodiscard]] __device__ static int column(int j) { return j / 2 * 8 + 2 * across() + j % 2; }
  [[nodiscard]] __device__ static int out_column(int j) { return column(j); }

  /// As FmaTiles::dot.
  __device__ static void dot(const TileSource& x, std::int64_t row_begin, const TileSource& y,
                             std::int64_t column_begin, float (&dots)[kRows][kColumns]) {
    const Staged x_tile(kStagedFours, 0), y_tile(kStagedFours, kStagedBytes);
    for (auto& of_row : dots)
      for (float& value : of_row) value = 0;
    for (std::int64_t begin = 0; begin < x.width; begin += kTerms) {
      __syncthreads();
      stage_rows(x, row_begin, begin, x_tile);
      stage_rows(y, column_begin, begin, y_tile);
      __syncthreads();
      MEZZO_KEEP_DEVICE_LOOP
      for (int k = 0; k < kTerms && begin + k < x.width; k += 16) {
        // A lane takes four neighbours for columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: another order of the
        // terms, and one load.
        const int four = k / 4 + across();
        const Four upper = x_tile.get(place(row(0), four)), lower = x_tile.get(place(row(1), four));
        const std::uint32_t a[4] = {upper.values[0], lower.values[0], upper.values[1], lower.values[1]};
        MEZZO_UNROLL
        for (int n = 0; n < kSide / 8; ++n) {
          const Four other = y_tile.get(place(8 * n + group(), four));
          const std::uint32_t b[2] = {other.values[0], other.values[1]};
          multiply_add_16x8<S>(dots[0] + 2 * n, dots[1] + 2 * n, a, b);
        }
      }
    }
  }

  /// As FmaTiles::add_weighted.
  __device__ static void add_weighted(const float (&weights)[kRows][kColumns], const TileSource& z,
                                      std::int64_t column_begin, std::int64_t out_begin,
                                      float (&sums)[kRows][kOutColumns]) {
    const Shared<std::uint32_t> z_tile(kSide / 2 * kPairStride);
    __syncthreads();
    stage_pairs(z, column_begin, out_begin);
    __syncthreads();
    MEZZO_UNROLL
    for (int k = 0; k < kSide / 16; ++k) {
      if (column_begin + 16 * k >= z.rows) continue;
      std::uint32_t a[4];
      for (int i = 0; i < 4; ++i)
        a[i] = pair_of<S>(weights[i % 2][4 * k + i / 2 * 2], weights[i % 2][4 * k + i / 2 * 2 + 1]);
      MEZZO_UNROLL
      for (int n = 0; n < kOutWidth / 8; ++n) {
        const int at = (8 * k + across()) * kPairStride + 8 * n + group();
        const std::uint32_t b[2] = {z_tile.get(static_cast<std::size_t>(at)),
                                    z_tile.get(static_cast<std::size_t>(at + 4 * kPairStride))};
        multiply_add_16x8<S>(sums[0] + 2 * n, sums[1] + 2 * n, a, b);
      }
    }
  }

 private:
  /// Four neighbouring elements as two pairs.
  using Four = Neighbours<std::uint32_t, 2>;
  using Staged = Shared<Four>;
  static constexpr int kTerms = 64;  ///< of a dot product that are in shared memory at once
  // Rows and lines of pairs are longer than what is in them, so that the lanes of a warp, in eight rows or
  // four lines, read from different banks.
  static constexpr int kFourStride = kTerms / 4 + 4, kPairStride = kOutWidth + 8;
  static constexpr std::size_t kStagedFours = kSide * kFourStride, kStagedBytes = kStagedFours * sizeof(Four);
  static constexpr std::size_t kPairBytes = sizeof(std::uint32_t) * kSide / 2 * kPairStride;

 public:
  static constexpr std::size_t kBytes = 2 * kStagedBytes > kPairBytes ? 2 * kStagedBytes : kPairBytes;

 private:
  [[nodiscard]] __device__ static int group() { return static_cast<int>(threadIdx.x) % 32 / 4; }
  [[nodiscard]] __device__ static int across() { return static_cast<int>(threadIdx.x) % 4; }
  [[nodiscard]] __device__ static std::size_t place(int row, int four) {
    return static_cast<std::size_t>(row * kFourStride + four);
  }

  /// Columns `column` to column + kTerms - 1 of kSide rows.
  __device__ static void stage_rows(const TileSource& from, std::int64_t row, std::int64_t column,
                                    const Staged& tile) {
    constexpr int kFours = kTerms / kPack;
    MEZZO_KEEP_DEVICE_LOOP
    for (int step = 0; step < kSide * kFours / kThreads; ++step) {
      const int k = step * kThreads + static_cast<int>(threadIdx.x);
      S values[kPack];
      from.load_four_stored<S>(row + k / kFours, column + k % kFours * kPack, values);
      tile.set(place(k / kFours, k % kFours),
               Four{{pair_of(values[0], values[1]), pair_of(values[2], values[3])}});
    }
  }
  /// kSide rows, two to a line of pairs, of each columns `column` to column + kOutWidth - 1.
  __device__ static void stage_pairs(const TileSource& from, std::int64_t row, std::int64_t column) {
    using Pairs = Neighbours<std::uint32_t, kPack>;
    const Shared<Pairs> tile(kSide / 2 * kPairStride / kPack);
    constexpr int kFours = kOutWidth / kPack;
    MEZZO_KEEP_DEVICE_LOOP
    for (int step = 0; step < kSide / 2 * kFours / kThreads; ++step) {
      const int k = step * kThreads + static_cast<int>(threadIdx.x), line = k / kFours, four = k % kFours;
      S even[kPack], odd[kPack];
      from.load_four_stored<S>(row + 2 * line, column + four * kPack, even);
      from.load_four_stored<S>(row + 2 * line + 1, column + four * kPack, odd);
      Pairs pairs;
      for (int i = 0; i < kPack; ++i) pairs.values[i] = pair_of(even[i], odd[i]);
      tile.set(static_cast<std::size_t>(line * (kPairStride / kPack) + four), pairs);
    }
  }
};

}  // namespace mezzo::kernels::cuda
