// The products of attention for heads of up to 128 16-bit elements, as FlashAttention-2 makes them: fragments
// of the block's own rows stay in registers, tiles of the other side come by asynchronous copies into
// swizzled shared memory and by ldmatrix into the matrix units (matrix_unit.h). Sums are in f32; the weights
// are rounded to the elements' type before the second product, sums of weights are not. Source: Dao,
// "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/attention/cuda_tiles.h"
#include "mezzo/kernels/cuda/async_copy.h"
#include "mezzo/kernels/cuda/matrix_unit.h"

namespace mezzo::kernels::cuda {

inline constexpr int kFlashRows = 64;  ///< of a tile

/// Weights as powers of two, by the GPU's own instruction (error 2^-22): they become 16-bit operands.
struct PowersOfTwo {
  static constexpr float kLogOfE = 0x1.715476p+0F;  ///< log2(e)
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE float of(float x) {
#if defined(__CUDA_ARCH__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return std::exp2(x);
#endif
  }
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE float of_nonpositive(float x) { return of(x); }
};

/// Where a thread is in a matrix of S that is copied tile by tile: at the chunk of eight elements of the next
/// tile that it copies first.
template <class S>
struct FlashWalk {
  const S* next;
};

/// A tile of kRows rows of kWidth 16-bit elements in shared memory, as chunks of eight. The chunks of a row
/// are permuted by its number, so that one chunk of eight rows that follow each other comes from all banks.
template <int kRows, int kWidth>
class FlashTile {
 public:
  static constexpr int kChunks = kWidth / 8;  ///< of a row
  static constexpr std::size_t kBytes = sizeof(std::uint16_t) * kRows * kWidth;

  __device__ explicit FlashTile(std::size_t offset) : chunks_(kRows * kChunks, offset) {}

  /// At row row_begin of `from`, whose begin is a head's.
  template <class S>
  [[nodiscard]] __device__ static FlashWalk<S> walk(const TileSource& from, std::int64_t row_begin) {
    return {static_cast<const S*>(from.array.data) + from.begin + (row_begin + row()) * from.row_step +
            8 * chunk()};
  }
  /// Begins to copy the next kRows rows of a walk through `from`, of which `left` are left; zeros outside of
  /// it. The walk goes on behind them. kJoined: TileSource::joined is true.
  template <bool kJoined, int kThreads, class S>
  __device__ MEZZO_ALWAYS_INLINE void stage(FlashWalk<S>& walk, const TileSource& from, int left) const {
    constexpr int kAtOnce = kThreads / kChunks;
    static_assert(kThreads % kChunks == 0 && kRows % kAtOnce == 0);
    const int columns = from.width > 8 * chunk() ? static_cast<int>(from.width) - 8 * chunk() : 0;
    MEZZO_UNROLL
    for (int r = 0; r < kRows; r += kAtOnce) {
      const int at = r + row();
      const bool is_there = at < left && columns > 0;
      if constexpr (kJoined)
        copy_async(chunks_, place(at, chunk()), is_there ? walk.next : from.array.data, is_there);
      else
        chunks_.set(place(at, chunk()), is_there ? elements(walk.next, columns) : RawWords<4>{});
      walk.next += kAtOnce * from.row_step;
    }
  }

  /// Columns 16 k to 16 k + 15 of rows `row` to row + 15 (row % 16 == 0) as a left operand.
  __device__ MEZZO_ALWAYS_INLINE void left(int row, int k, std::uint32_t (&words)[4]) const {
    load_matrices<false>(chunks_, from(named(lane() % 16, lane() / 16), row, 2 * k), words);
  }
  /// The transpose of columns 16 k to 16 k + 15 of rows `row` to row + 15 (row % 16 == 0) as two right
  /// operands: words 0 and 1 of the first eight rows, 2 and 3 of the last eight.
  __device__ MEZZO_ALWAYS_INLINE void right_transposed(int row, int k, std::uint32_t (&words)[4]) const {
    load_matrices<false>(chunks_, from(named(lane() / 16 * 8 + lane() % 8, lane() / 8 % 2), row, 2 * k),
                         words);
  }
  /// Columns `column` to column + 15 (column % 16 == 0) of rows 16 k to 16 k + 15 as two right operands:
  /// words 0 and 1 of the first eight columns, 2 and 3 of the last eight.
  __device__ MEZZO_ALWAYS_INLINE void right(int k, int column, std::uint32_t (&words)[4]) const {
    load_matrices<true>(chunks_, from(named(lane() % 16, lane() / 16), 16 * k, column / 8), words);
  }

 private:
  static constexpr int kSpan = kChunks < 8 ? kChunks : 8;  ///< chunks that are permuted among each other
  static constexpr int kRowsOfLine = kChunks < 8 ? 8 / kChunks : 1;  ///< a line of all banks has 128 bytes

  [[nodiscard]] __device__ static int row() { return static_cast<int>(threadIdx.x) / kChunks; }
  [[nodiscard]] __device__ static int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  /// Eight elements that are not one aligned vector, or the `columns` that there are.
  template <class S>
  [[nodiscard]] __device__ static RawWords<4> elements(const S* from, int columns) {
    RawWords<4> raw;
    MEZZO_UNROLL
    for (int w = 0; w < 4; ++w) {
      const S first = 2 * w < columns ? from[2 * w] : S{},
              second = 2 * w + 1 < columns ? from[2 * w + 1] : S{};
      raw.words[w] = pair_of(first, second);
    }
    return raw;
  }
  [[nodiscard]] __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE int named(int row, int chunk) {
    return row * kChunks + (chunk ^ (row / kRowsOfLine % kSpan));
  }
  /// The place that is 16 n rows and an even number of chunks behind one of the first 16 rows and two chunks.
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE int from(int first, int rows, int chunks) {
    return (first ^ chunks) + rows * kChunks;
  }
  [[nodiscard]] __device__ static MEZZO_ALWAYS_INLINE std::size_t place(int row, int chunk) {
    return static_cast<std::size_t>(named(row, chunk));
  }

  Shared<RawWords<4>> chunks_;
};

/// A thread's part of the tile of weights, and the two products, for heads of up to kHeadWidth elements. Each
/// of the four warps has 16 rows and all columns: the weights, as the matrix unit leaves them in the lanes,
/// are its next operand as they are. kPlainCall: no mask, no dropout, and all rows are aligned vectors.
template <class S, int kHeadWidth, int kColumnsOfTile, bool kPlainCall>
class FlashTiles {
 public:
  using Stored = S;
  using Number = float;
  using Powers = PowersOfTwo;
  static constexpr bool kPlain = kPlainCall, kHasPieces = false;
  static constexpr int kAcross = 4;  ///< threads that share a row
  static constexpr int kThreads = 128;
  static constexpr int kWidth = kHeadWidth, kOutWidth = kWidth;
  static constexpr int kRowSide = kFlashRows, kColumnSide = kColumnsOfTile;
  static constexpr int kRows = 2, kColumns = kColumnSide / kAcross, kOutColumns = kWidth / kAcross;
  using RowTile = FlashTile<kRowSide, kWidth>;
  using ColumnTile = FlashTile<kColumnSide, kWidth>;

  [[nodiscard]] __device__ static int row(int i) { return first_row() + lane() / 4 + 8 * i; }
  [[nodiscard]] __device__ static int column(int j) { return j / 2 * 8 + 2 * (lane() % 4) + j % 2; }
  [[nodiscard]] __device__ static int out_column(int j) { return column(j); }

  /// The rows of the warp, as left operands.
  struct Rows {
    std::uint32_t words[kWidth / 16][4];
    __device__ MEZZO_ALWAYS_INLINE void load(const RowTile& tile) {
      MEZZO_UNROLL
      for (int k = 0; k < kWidth / 16; ++k) tile.left(first_row(), k, words[k]);
    }
  };
  /// The rows of the weights, rounded, as left operands.
  struct Weights {
    std::uint32_t words[kColumnSide / 16][4];
    __device__ MEZZO_ALWAYS_INLINE explicit Weights(const float (&weights)[kRows][kColumns]) {
      MEZZO_UNROLL
      for (int k = 0; k < kColumnSide / 16; ++k) {
        MEZZO_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float* const of_row = weights[i % 2] + 4 * k + i / 2 * 2;
          words[k][i] = pair_of<S>(of_row[0], of_row[1]);
        }
      }
    }
  };

  /// dots[i][j] = the product of row row(i) of x and row column(j) of y.
  __device__ static MEZZO_ALWAYS_INLINE void dot(const Rows& x, const ColumnTile& y,
                                                 float (&dots)[kRows][kColumns]) {
    MEZZO_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MEZZO_UNROLL
      for (int j = 0; j < kColumns; ++j) dots[i][j] = 0;
    }
    MEZZO_UNROLL
    for (int k = 0; k < kWidth / 16; ++k) {
      MEZZO_UNROLL
      for (int n = 0; n < kColumnSide / 16; ++n) {
        std::uint32_t both[4];
        y.right_transposed(16 * n, k, both);
        multiply_both(dots[0] + 4 * n, dots[1] + 4 * n, x.words[k], both);
      }
    }
  }
  /// sums[i][j] += the product of the weights of row row(i) and column out_column(j) of z.
  __device__ static MEZZO_ALWAYS_INLINE void add_weighted(const Weights& weights, const ColumnTile& z,
                                                          float (&sums)[kRows][kOutColumns]) {
    MEZZO_UNROLL
    for (int k = 0; k < kColumnSide / 16; ++k) {
      MEZZO_UNROLL
      for (int n = 0; n < kWidth / 16; ++n) {
        std::uint32_t both[4];
        z.right(k, 16 * n, both);
        multiply_both(sums[0] + 4 * n, sums[1] + 4 * n, weights.words[k], both);
      }
    }
  }

 private:
  [[nodiscard]] __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  [[nodiscard]] __device__ static int first_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  __device__ static MEZZO_ALWAYS_INLINE void multiply_both(float* c0, float* c1, const std::uint32_t (&a)[4],
                                                           const std::uint32_t (&both)[4]) {
    const std::uint32_t first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
    multiply_add_16x8<S>(c0, c1, a, first);
    multiply_add_16x8<S>(c0 + 2, c1 + 2, a, second);
  }
};

}  // namespace mezzo::kernels::cuda
