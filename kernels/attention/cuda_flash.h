// Attention and its gradients for heads of up to 128 16-bit elements, see cuda_flash_tiles.h. As in
// cuda_block.h a block makes a tile of rows and walks over the tiles of the other side, so that no sum is
// shared by blocks. While it computes with one tile the next one is on its way into the other half of shared
// memory. The gradients of keys and values come from one walk: seven products for all gradients. On an H200
// (64 x 8 heads, 512 x 512, 64 elements, f16) forward makes 204 TFLOP/s, q's gradient 258, those of k and v
// 233; with 128 elements 259, 328 and 272.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/attention/cuda_flash_tiles.h"
#include "mezzo/kernels/attention/cuda_weights.h"

namespace mezzo::kernels::cuda {

/// The widest head that FlashBlock takes.
inline constexpr int kWidestFlashHead = 128;

/// A tile of output or queries, or of keys_and_values. All threads of a block walk over the same tiles and
/// meet at the same barriers.
template <class Tiles, AttentionResult kResult>
class FlashBlock : public AttentionWeights<Tiles, kResult> {
  using Base = AttentionWeights<Tiles, kResult>;
  using Base::column_begin_, Base::pass_, Base::row_begin_, Base::of_head, Base::kForward,
      Base::kQueriesAreRows;
  using typename Base::Square;
  using typename Base::Sums;
  using S = typename Tiles::Stored;
  using Walk = FlashWalk<S>;
  using RowTile = typename Tiles::RowTile;
  using ColumnTile = typename Tiles::ColumnTile;

  static constexpr bool kBoth = kResult == AttentionResult::keys_and_values;
  static constexpr int kThreads = Tiles::kThreads;
  /// A stage: tiles of y and of the other matrix, and numbers of the queries if these are columns.
  static constexpr std::size_t kNumberBytes = kQueriesAreRows ? 0 : sizeof(float) * Tiles::kColumnSide;
  static constexpr std::size_t kStageBytes = 2 * (ColumnTile::kBytes + kNumberBytes);
  /// The block's rows are in shared memory until their fragments are in registers: where they fit there, in
  /// the stage that is filled second.
  static constexpr std::size_t kRowBytes = (kForward ? 1 : 2) * RowTile::kBytes;
  static constexpr bool kRowsBesideStage = kRowBytes <= kStageBytes;
  static constexpr std::size_t kRowOffset = kRowsBesideStage ? kStageBytes : 0;

 public:
  static constexpr std::size_t kBytes =
      2 * kStageBytes > kRowOffset + kRowBytes ? 2 * kStageBytes : kRowOffset + kRowBytes;
  static_assert(kBytes <= 48 * 1024);

  __device__ FlashBlock(const AttentionPass<float>& pass, std::int64_t item)
      : Base(pass, item),
        y_(ColumnTile::template walk<S>(of_head(pass.y), Base::first_column())),
        other_(ColumnTile::template walk<S>(of_head(other()), Base::first_column())) {}

  __device__ void run() {
    const std::int64_t end = Base::last_column(pass_.y.rows);
    column_begin_ = Base::first_column();
    const bool any = column_begin_ < end;
    if constexpr (kQueriesAreRows && !kForward) {
      MEZZO_UNROLL
      for (int i = 0; i < Tiles::kRows; ++i) queries_[i] = Base::numbers_of(row_begin_ + Tiles::row(i));
    }
    typename Tiles::Rows x, grad_x;
    load_rows(x, grad_x, any);
    Sums sums = {}, second_sums = {};
    MEZZO_KEEP_DEVICE_LOOP
    for (int stage = 0; column_begin_ < end; column_begin_ += Tiles::kColumnSide, stage ^= 1) {
      wait_for_copies();
      __syncthreads();  // the tile is there for all threads, and all have left the one before it
      if (column_begin_ + Tiles::kColumnSide < end) fill(stage ^ 1, column_begin_ + Tiles::kColumnSide);
      const ColumnTile y(y_offset(stage)), other(other_offset(stage));
      Square weights;
      Tiles::dot(x, y, weights);
      Base::set_scores(weights);
      add_tile(grad_x, weights, y, other, stage, sums, second_sums);
    }
    write(sums, second_sums);
  }

 private:
  [[nodiscard]] __device__ const TileSource& other() const { return kForward ? pass_.z : pass_.grad_y; }
  [[nodiscard]] __device__ static std::size_t y_offset(int stage) { return stage == 0 ? 0 : kStageBytes; }
  [[nodiscard]] __device__ static std::size_t other_offset(int stage) {
    return y_offset(stage) + ColumnTile::kBytes;
  }
  [[nodiscard]] __device__ static Shared<float> numbers(int stage) {
    return Shared<float>(2 * Tiles::kColumnSide, y_offset(stage) + 2 * ColumnTile::kBytes);
  }

  /// Begins to copy what belongs to the columns from `column` on.
  __device__ MEZZO_ALWAYS_INLINE void fill(int stage, std::int64_t column) {
    const int left = Base::near(pass_.y.rows - column);
    ColumnTile(y_offset(stage)).template stage<Tiles::kPlain, kThreads>(y_, pass_.y, left);
    ColumnTile(other_offset(stage)).template stage<Tiles::kPlain, kThreads>(other_, other(), left);
    if constexpr (!kQueriesAreRows) {
      static_assert(2 * Tiles::kColumnSide <= kThreads);
      const int thread = static_cast<int>(threadIdx.x), query = thread % Tiles::kColumnSide;
      if (thread >= 2 * Tiles::kColumnSide) return;
      const bool is_there = column + query < pass_.queries;
      const float* const from = thread < Tiles::kColumnSide ? pass_.logsumexp : pass_.delta;
      copy_async(numbers(stage), static_cast<std::size_t>(thread),
                 from + (is_there ? Base::head_ * pass_.queries + column + query : 0), is_there);
    }
  }

  __device__ MEZZO_ALWAYS_INLINE void load_rows(const RowTile& tile, const TileSource& from) const {
    auto walk = RowTile::template walk<S>(of_head(from), row_begin_);
    tile.template stage<Tiles::kPlain, kThreads>(walk, from, Base::near(from.rows - row_begin_));
  }
  /// The block's rows into registers, and the first tile of columns on its way, if there is one.
  __device__ MEZZO_ALWAYS_INLINE void load_rows(typename Tiles::Rows& x, typename Tiles::Rows& grad_x,
                                                bool any) {
    const RowTile x_tile(kRowOffset), grad_tile(kRowOffset + RowTile::kBytes);
    load_rows(x_tile, pass_.x);
    if constexpr (!kForward) load_rows(grad_tile, pass_.grad_x);
    if (kRowsBesideStage && any) fill(0, column_begin_);
    wait_for_copies();
    __syncthreads();
    x.load(x_tile);
    if constexpr (!kForward) grad_x.load(grad_tile);
    if (kRowsBesideStage) return;
    __syncthreads();
    if (any) fill(0, column_begin_);
  }

  /// The numbers of the thread's query q, a row or a column.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE float shift(int stage, int q) const {
    if constexpr (kQueriesAreRows) return queries_[q].shift;
    return Base::shift_of(numbers(stage).get(static_cast<std::size_t>(Tiles::column(q))));
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE float delta(int stage, int q) const {
    if constexpr (kQueriesAreRows) return queries_[q].delta;
    return numbers(stage).get(static_cast<std::size_t>(Tiles::kColumnSide + Tiles::column(q)));
  }

  /// Scores into weights, and their products into the sums.
  __device__ MEZZO_ALWAYS_INLINE void add_tile(const typename Tiles::Rows& grad_x, Square& weights,
                                               const ColumnTile& y, const ColumnTile& other, int stage,
                                               Sums& sums, Sums& second_sums) {
    using Weights = typename Tiles::Weights;
    if constexpr (kForward) {
      Base::weigh_forward(weights, sums);
      Tiles::add_weighted(Weights(weights), other, sums);
    } else {
      Base::to_softmax(weights, [&](int q) { return shift(stage, q); });
      if constexpr (kBoth) add_values(weights, other, second_sums);
      Square grads;
      Tiles::dot(grad_x, other, grads);
      Base::to_score_gradients(weights, grads, [&](int q) { return delta(stage, q); });
      Tiles::add_weighted(Weights(weights), y, sums);
    }
  }
  __device__ MEZZO_ALWAYS_INLINE void add_values(const Square& softmax, const ColumnTile& grads,
                                                 Sums& sums) const {
    Square weights;
    Base::each([&](int i, int j, int /*query*/, int /*key*/) { weights[i][j] = softmax[i][j]; });
    Base::drop(weights);
    Tiles::add_weighted(typename Tiles::Weights(weights), grads, sums);
  }

  __device__ MEZZO_ALWAYS_INLINE void write(const Sums& sums, const Sums& second_sums) {
    float factors[Tiles::kRows];
    if constexpr (kForward) {
      Base::finish_softmax(factors);
    } else {
      MEZZO_UNROLL
      for (float& factor : factors) factor = Base::factor_of(kResult, pass_.scale);
    }
    if (pass_.out.array.data != nullptr) Base::write(of_head(pass_.out), sums, factors);
    if constexpr (kBoth) {
      if (pass_.second_out.array.data == nullptr) return;
      MEZZO_UNROLL
      for (float& factor : factors) factor = 1;
      Base::write(of_head(pass_.second_out), second_sums, factors);
    }
  }

  Walk y_, other_;
  typename Base::QueryNumbers queries_[Tiles::kRows];  ///< if they are rows
};

/// Columns of a tile, for the registers: sums of 128 columns take as many as two results' sums of 64.
[[nodiscard]] constexpr int flash_columns(AttentionResult result, int width) {
  return (width > 64 ? 32 : 64) / (result == AttentionResult::keys_and_values ? 2 : 1);
}
/// Blocks of a multiprocessor that the registers are to suffice for: by measurement on an H200
/// (bench/results/2026-11-26-h200-second.md).
[[nodiscard]] constexpr int flash_blocks(AttentionResult result, int width, bool plain) {
  if (!plain) return 2;
  if (result == AttentionResult::output) return width > 64 ? 3 : 4;
  return width > 64 ? 2 : 3;
}

template <class Tiles, AttentionResult kResult>
__global__ void __launch_bounds__(Tiles::kThreads, flash_blocks(kResult, Tiles::kWidth, Tiles::kPlain))
    flash_kernel(AttentionPass<float> pass) {
  FlashBlock<Tiles, kResult>(pass, blockIdx.x).run();
}

/// Whether flash kernels have the heads of a call, and a grid has a block for each of their tiles.
[[nodiscard]] inline bool takes_flash(const Attention& attention) {
  const Shape &q = attention.q.shape, &v = attention.v.shape;
  const std::int64_t tiles = q[0] * q[1] * (std::max(q[2], v[2]) / kFlashRows + 1);
  return is_16_bit(attention.q.dtype) && q[3] <= kWidestFlashHead && v[3] <= kWidestFlashHead &&
         tiles <= std::numeric_limits<std::int32_t>::max();
}

template <class S, AttentionResult kResult, int kWidth, bool kPlain>
void launch_flash_tiles(Device device, AttentionPass<float> pass, std::int64_t batch) {
  using Tiles = FlashTiles<S, kWidth, flash_columns(kResult, kWidth), kPlain>;
  pass.divide(batch, Tiles::kRowSide, Tiles::kOutWidth);
  // A mask is added to scaled scores; and an infinite score times a scale below 0 would change sides. Not by
  // kPlain: that depends on where arrays begin, and bits do not.
  const bool later = pass.mask.data == nullptr && pass.scale > 0;
  (later ? pass.exponent_scale : pass.score_scale) = pass.scale * PowersOfTwo::kLogOfE;
  mezzo::cuda::launch(flash_kernel<Tiles, kResult>, dim3(pass.blocks()), dim3(Tiles::kThreads),
                      FlashBlock<Tiles, kResult>::kBytes, mezzo::cuda::current_stream(device), pass);
}

/// Starts a kernel with the narrowest tiles, of 32, 64 or 128 columns, that have all columns of both
/// products. joined: so are q, k, v and the gradient of the result, as TileSource has it.
template <AttentionResult kResult>
void launch_flash(Device device, const Attention& attention, bool joined, const AttentionPass<float>& pass) {
  const std::int64_t batch = attention.q.shape[0];
  const std::int64_t width = std::max(attention.q.shape[3], attention.v.shape[3]);
  const bool plain =
      joined && attention.mask.data == nullptr && attention.dropout_p == 0 && attention.scale > 0;
  const auto of = [&](auto stored) {
    using S = decltype(stored);
    if (!plain)
      return width <= 64 ? launch_flash_tiles<S, kResult, 64, false>(device, pass, batch)
                         : launch_flash_tiles<S, kResult, kWidestFlashHead, false>(device, pass, batch);
    if (width <= 32) return launch_flash_tiles<S, kResult, 32, true>(device, pass, batch);
    width <= 64 ? launch_flash_tiles<S, kResult, 64, true>(device, pass, batch)
                : launch_flash_tiles<S, kResult, kWidestFlashHead, true>(device, pass, batch);
  };
  attention.q.dtype == DType::f16 ? of(Half{}) : of(BFloat16{});
}

}  // namespace mezzo::kernels::cuda
