// Tiles of matrices in shared memory, and their products by multiplications and additions of the compute
// type. A block of 16 x 16 threads owns a square of the product of two matrices; each thread keeps a small
// square of it in registers, and reads what it multiplies in packs of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/attention/attention_math.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/shared.h"
#include "mezzo/kernels/math/float_parts.h"

namespace mezzo::kernels::cuda {

using math::detail::add_product;

/// The matrix [rows, width] that a [B, H, rows, width] view holds of one batch entry and head, or of as many
/// heads that follow each other as read one of its heads. Between its columns the step is 1.
struct TileSource {
  Array array;
  std::int64_t batch_step = 0, head_step = 0, row_step = 0, readers = 1;
  std::int64_t rows = 0, width = 0;
  bool packed = false;  ///< every row begins at a multiple of kPack elements and is as long
  bool joined = false;  ///< the same for 2 * kPack elements
  std::int64_t begin = 0;

  TileSource() = default;
  explicit TileSource(const View& view, std::int64_t readers_of_head = 1)
      : array{view.data, view.dtype},
        batch_step(view.strides[0]),
        head_step(view.strides[1]),
        row_step(view.strides[2]),
        readers(readers_of_head),
        rows(view.shape[2]),
        width(view.shape[3]),
        packed(takes_packs(array) && (batch_step | head_step | row_step | width) % kPack == 0),
        joined(is_aligned_to(array, 2 * kPack) &&
               (batch_step | head_step | row_step | width) % (2 * kPack) == 0) {}

  /// The matrix of one head.
  [[nodiscard]] __device__ TileSource of(std::int64_t batch, std::int64_t head) const {
    TileSource result = *this;
    result.begin = batch * batch_step + head / readers * head_step;
    return result;
  }
  /// Elements `column` (a multiple of kPack) and its next three of a row, as T; 0 outside of the matrix.
  template <class T>
  __device__ MEZZO_ALWAYS_INLINE void load_four(std::int64_t row, std::int64_t column,
                                                T (&values)[kPack]) const {
    with_stored<Among::floating>(
        array.dtype, [&](auto stored) { load_four_stored<decltype(stored)>(row, column, values); });
  }
  /// load_four for an array that is known to be of S.
  template <class S, class T>
  __device__ MEZZO_ALWAYS_INLINE void load_four_stored(std::int64_t row, std::int64_t column,
                                                       T (&values)[kPack]) const {
    for (int i = 0; i < kPack; ++i) values[i] = T{};
    if (row >= rows || column >= width) return;
    const std::int64_t at = begin + row * row_step + column;
    if (packed) {
      const Pack<S> pack = static_cast<const Pack<S>*>(array.data)[at / kPack];
      for (int i = 0; i < kPack; ++i) values[i] = cast<T>(pack.values[i]);
      return;
    }
    MEZZO_UNROLL
    for (int i = 0; i < kPack; ++i) {
      if (column + i < width) values[i] = cast<T>(static_cast<const S*>(array.data)[at + i]);
    }
  }
};

/// kSize neighbours in shared memory, moved by one instruction.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Neighbours {
  T values[kSize];
};

/// Lines of kPacks packs in shared memory. Packs of a line are permuted by the line's number, so that threads
/// that write one place of many lines, as one does to transpose, do not meet in one bank.
template <class T, int kSize, int kPacks>
class SharedTile {
 public:
  using Values = Neighbours<T, kSize>;
  static constexpr int kWidth = kSize * kPacks;
  __device__ SharedTile(int lines, std::size_t offset)
      : packs_(static_cast<std::size_t>(lines * kPacks), offset),
        values_(static_cast<std::size_t>(lines * kWidth), offset) {}

  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE Values get(int line, int pack) const {
    return packs_.get(place(line, pack));
  }
  __device__ MEZZO_ALWAYS_INLINE void set(int line, int pack, const Values& values) const {
    packs_.set(place(line, pack), values);
  }
  __device__ MEZZO_ALWAYS_INLINE void set_one(int line, int at, T value) const {
    values_.set(place(line, at / kSize) * kSize + static_cast<std::size_t>(at % kSize), value);
  }

 private:
  static_assert((kPacks & (kPacks - 1)) == 0);
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::size_t place(int line, int pack) const {
    return static_cast<std::size_t>(line * kPacks + (pack ^ (line / kPack % kPacks)));
  }
  Shared<Values> packs_;
  Shared<T> values_;
};

/// The products of attention for results of 16 * kOut columns. The square of weights has kSide rows and as
/// many columns, of which a thread has kOwn neighbouring rows and kOwn neighbouring columns; of the result it
/// has the same rows. The 16 threads that share a row are neighbours in a warp. S: how sources are stored.
template <class T, int kOut, class S = T>
class FmaTiles {
 public:
  using Number = T;
  using Powers = PowersOfE<T>;
  static constexpr bool kPlain = false, kHasPieces = true;
  static constexpr int kAcross = 16;  ///< threads that share a row
  static constexpr int kThreads = kAcross * kAcross;
  static constexpr int kBlocksOfProcessor = 2;  ///< at a time; bounds the registers
  static constexpr int kOwn = 16 / static_cast<int>(sizeof(T));
  static constexpr int kRows = kOwn, kColumns = kOwn, kOutColumns = kOut;
  static constexpr int kSide = kAcross * kOwn, kRowSide = kSide, kColumnSide = kSide;
  static constexpr int kOutWidth = kAcross * kOut;
  static constexpr std::size_t kBytes =
      sizeof(T) * (kSide * kSide + (2 * kSide > kOutWidth ? 2 * kSide : kOutWidth) * 32);

  [[nodiscard]] __device__ static int row(int i) {
    return static_cast<int>(threadIdx.x) / kAcross * kOwn + i;
  }
  [[nodiscard]] __device__ static int column(int j) {
    return static_cast<int>(threadIdx.x) % kAcross * kOwn + j;
  }
  [[nodiscard]] __device__ static int out_column(int j) {
    return (j / kOutPack * kAcross + across()) * kOutPack + j % kOutPack;
  }

  /// dots[i][j] = the product of row row_begin + row(i) of x and row column_begin + column(j) of y. Begins
  /// with a barrier.
  __device__ static void dot(const TileSource& x, std::int64_t row_begin, const TileSource& y,
                             std::int64_t column_begin, T (&dots)[kRows][kColumns]) {
    const Staged x_tile(kLines, kStage), y_tile(kLines, kStage + sizeof(T) * kLines * kSide);
    for (auto& of_row : dots)
      for (T& value : of_row) value = T(0);
    for (std::int64_t begin = 0; begin < x.width; begin += kLines) {
      const int lines = lines_of(x.width - begin);
      __syncthreads();
      stage_transposed(x, row_begin, begin, lines, x_tile);
      stage_transposed(y, column_begin, begin, lines, y_tile);
      __syncthreads();
      each_line(lines, [&](int line) {
        const auto a = x_tile.get(line, down()), b = y_tile.get(line, across());
        MEZZO_UNROLL
        for (int i = 0; i < kRows; ++i) {
          MEZZO_UNROLL
          for (int j = 0; j < kColumns; ++j) dots[i][j] = add_product(dots[i][j], a.values[i], b.values[j]);
        }
      });
    }
  }

  /// sums[i][j] += the product of the weights of row row(i), which belong to rows column_begin to
  /// column_begin + kSide - 1 of z, and column out_begin + out_column(j) of z. Begins with a barrier.
  __device__ static void add_weighted(const T (&weights)[kRows][kColumns], const TileSource& z,
                                      std::int64_t column_begin, std::int64_t out_begin,
                                      T (&sums)[kRows][kOut]) {
    const Staged weight_tile(kSide, 0);
    const Summed z_tile(kLines, kStage);
    __syncthreads();
    for (int j = 0; j < kColumns; ++j) {
      typename Staged::Values own;
      for (int i = 0; i < kRows; ++i) own.values[i] = weights[i][j];
      weight_tile.set(column(j), down(), own);
    }
    for (int begin = 0; begin < kSide && column_begin + begin < z.rows; begin += kLines) {
      const int lines = lines_of(z.rows - column_begin - begin);
      __syncthreads();
      stage(z, column_begin + begin, out_begin, lines, z_tile);
      __syncthreads();
      each_line(lines, [&](int line) {
        const auto w = weight_tile.get(begin + line, down());
        MEZZO_UNROLL
        for (int g = 0; g < kOut / kOutPack; ++g) {
          const auto b = z_tile.get(line, g * kAcross + across());
          MEZZO_UNROLL
          for (int i = 0; i < kRows; ++i) {
            MEZZO_UNROLL
            for (int j = 0; j < kOutPack; ++j) {
              T& sum = sums[i][g * kOutPack + j];
              sum = add_product(sum, w.values[i], b.values[j]);
            }
          }
        }
      });
    }
  }

 private:
  static constexpr int kLines = 32;  ///< of a sum's terms that are in shared memory at once
  static constexpr int kOutPack = kOut < kOwn ? kOut : kOwn;
  static constexpr std::size_t kStage = sizeof(T) * kSide * kSide;  ///< behind the weights
  using Staged = SharedTile<T, kOwn, kAcross>;
  using Summed = SharedTile<T, kOutPack, kOutWidth / kOutPack>;

  [[nodiscard]] __device__ static int down() { return static_cast<int>(threadIdx.x) / kAcross; }
  [[nodiscard]] __device__ static int across() { return static_cast<int>(threadIdx.x) % kAcross; }

  /// Lines of a stage when `left` terms are left of the sums: small heads and short sequences fill no stage.
  [[nodiscard]] __device__ static int lines_of(std::int64_t left) {
    return left < kLines ? static_cast<int>(left + kPack - 1) / kPack * kPack : kLines;
  }

  /// f(line) for `lines` lines of a stage, four copies of it in a row.
  template <class F>
  __device__ static MEZZO_ALWAYS_INLINE void each_line(int lines, const F& f) {
    static_assert(kPack == 4);
    MEZZO_KEEP_DEVICE_LOOP
    for (int first = 0; first < lines; first += 4) {
      MEZZO_UNROLL
      for (int line = first; line < first + 4; ++line) f(line);
    }
  }

  /// Columns `column` to column + lines - 1 of kSide rows, as lines.
  __device__ static void stage_transposed(const TileSource& from, std::int64_t row, std::int64_t column,
                                          int lines, const Staged& tile) {
    constexpr int kFours = kLines / kPack;
    MEZZO_KEEP_DEVICE_LOOP
    for (int k = static_cast<int>(threadIdx.x); k < kSide * kFours; k += kThreads) {
      const int line = k % kFours * kPack;
      if (line >= lines) continue;
      T values[kPack];
      from.template load_four_stored<S>(row + k / kFours, column + line, values);
      for (int i = 0; i < kPack; ++i) tile.set_one(line + i, k / kFours, values[i]);
    }
  }
  /// `lines` rows, of each columns `column` to column + kOutWidth - 1.
  __device__ static void stage(const TileSource& from, std::int64_t row, std::int64_t column, int lines,
                               const Summed& tile) {
    constexpr int kFours = kOutWidth / kPack;
    MEZZO_KEEP_DEVICE_LOOP
    for (int k = static_cast<int>(threadIdx.x); k < lines * kFours; k += kThreads) {
      const int line = k / kFours, four = k % kFours;
      T values[kPack];
      from.template load_four_stored<S>(row + line, column + four * kPack, values);
      MEZZO_UNROLL
      for (int g = 0; g < kPack / kOutPack; ++g) {
        typename Summed::Values pack;
        for (int i = 0; i < kOutPack; ++i) pack.values[i] = values[g * kOutPack + i];
        tile.set(line, four * (kPack / kOutPack) + g, pack);
      }
    }
  }
};

}  // namespace mezzo::kernels::cuda
