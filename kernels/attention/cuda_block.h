// Attention and its gradients by one block per tile of rows of one result: it walks over the tiles of the
// other side, computes the scores of both anew, makes weights of them and adds the weighted rows of a third
// matrix. So nothing is added up by several blocks, and the bits depend on sizes only; the price is eight
// products for all gradients where five would do with atomic additions. For f32 and f64, and for 16-bit heads
// that are too wide for cuda_flash.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/attention/cuda_tiles.h"
#include "mezzo/kernels/attention/cuda_weights.h"

namespace mezzo::kernels::cuda {

/// A tile of one result, in a block of Tiles::kThreads threads. All threads of a block walk over the same
/// tiles, so that all of them meet every barrier.
template <class Tiles, AttentionResult kResult>
class AttentionBlock : public AttentionWeights<Tiles, kResult> {
  using Base = AttentionWeights<Tiles, kResult>;
  using Base::column_begin_, Base::out_begin_, Base::pass_, Base::row_begin_, Base::of_head;
  using typename Base::Square;
  using typename Base::Sums;

 public:
  using typename Base::T;

  __device__ AttentionBlock(const AttentionPass<T>& pass, std::int64_t item) : Base(pass, item) {
    if constexpr (Base::kQueriesAreRows && !Base::kForward) load_queries(row_begin_);
  }

  __device__ void run() {
    const TileSource x = of_head(pass_.x), y = of_head(pass_.y), z = of_head(pass_.z);
    const std::int64_t end = Base::last_column(y.rows);
    Sums sums = {};
    for (column_begin_ = Base::first_column(); column_begin_ < end; column_begin_ += Tiles::kColumnSide) {
      Square weights;
      Tiles::dot(x, row_begin_, y, column_begin_, weights);
      Base::set_scores(weights);
      if constexpr (Base::kForward)
        Base::weigh_forward(weights, sums);
      else
        weigh_backward(weights);
      Tiles::add_weighted(weights, z, column_begin_, out_begin_, sums);
    }
    T factors[Tiles::kRows];
    if constexpr (Base::kForward) {
      Base::finish_softmax(factors);
    } else {
      MEZZO_UNROLL
      for (T& factor : factors) factor = Base::factor_of(kResult, pass_.scale);
    }
    Base::write(of_head(pass_.out), sums, factors);
  }

 private:
  /// Scores into the weights of the values' gradient, or into the gradients of the scores.
  __device__ MEZZO_ALWAYS_INLINE void weigh_backward(Square& weights) {
    if constexpr (!Base::kQueriesAreRows) load_queries(column_begin_);
    Base::to_softmax(weights, [&](int q) { return queries_[q].shift; });
    if constexpr (Base::kNeedsDelta) {
      Square grads;
      Tiles::dot(of_head(pass_.grad_x), row_begin_, of_head(pass_.grad_y), column_begin_, grads);
      Base::to_score_gradients(weights, grads, [&](int q) { return queries_[q].delta; });
    } else {
      Base::drop(weights);
    }
  }
  __device__ MEZZO_ALWAYS_INLINE void load_queries(std::int64_t begin) {
    MEZZO_UNROLL
    for (int q = 0; q < Base::kQueries; ++q)
      queries_[q] = Base::numbers_of(begin + (Base::kQueriesAreRows ? Tiles::row(q) : Tiles::column(q)));
  }

  typename Base::QueryNumbers queries_[Base::kQueries];
};

template <class Tiles, AttentionResult kResult>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocksOfProcessor)
    attention_kernel(AttentionPass<typename Tiles::Number> pass) {
  for (std::int64_t item = blockIdx.x; item < pass.items; item += gridDim.x)
    AttentionBlock<Tiles, kResult>(pass, item).run();
}

/// Fills in the pieces of work and starts the kernel.
template <class Tiles, AttentionResult kResult, class T>
void launch_attention_tiles(Device device, AttentionPass<T> pass, std::int64_t batch) {
  pass.divide(batch, Tiles::kRowSide, Tiles::kOutWidth);
  pass.score_scale = pass.scale * Tiles::Powers::kLogOfE;
  mezzo::cuda::launch(attention_kernel<Tiles, kResult>, dim3(pass.blocks()), dim3(Tiles::kThreads),
                      Tiles::kBytes, mezzo::cuda::current_stream(device), pass);
}

/// With the narrowest tiles, of 32, 64 or 128 columns (f64: 64; 16 bits: 128), that have all columns of the
/// result; of more columns each 128 (f64: 64) are pieces of work of their own.
template <AttentionResult kResult, class T>
void launch_attention(Device device, const AttentionPass<T>& pass, std::int64_t batch) {
  const std::int64_t width = pass.out.width;
  const auto launch = [&](auto tiles) {
    launch_attention_tiles<typename decltype(tiles)::type, kResult>(device, pass, batch);
  };
  if constexpr (std::is_same_v<T, double>) {
    launch(TypeTag<FmaTiles<T, 4>>{});
  } else {
    if (pass.x.array.dtype == DType::f16) return launch(TypeTag<FmaTiles<T, 8, Half>>{});
    if (pass.x.array.dtype == DType::bf16) return launch(TypeTag<FmaTiles<T, 8, BFloat16>>{});
    if (width <= 32) return launch(TypeTag<FmaTiles<T, 2>>{});
    width <= 64 ? launch(TypeTag<FmaTiles<T, 4>>{}) : launch(TypeTag<FmaTiles<T, 8>>{});
  }
}

}  // namespace mezzo::kernels::cuda
