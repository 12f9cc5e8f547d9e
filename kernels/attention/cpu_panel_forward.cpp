// Attention forward by panels. A task is a block of queries of one head. It transposes them once, so that
// k q^T has rows of keys and columns of queries: then the softmax goes down the columns, a vector of queries
// at a time, and the second product reads the weights as they are.
#include <algorithm>

#include "mezzo/kernels/attention/cpu_heads.h"
#include "mezzo/kernels/attention/cpu_panels.h"

namespace mezzo::kernels::cpu {
namespace {

/// Keys of a tile, which the panels of a block share. A tile of keys, one of values, and a panel of scores
/// are what the caches hold.
constexpr std::int64_t kTileKeys = 128;
constexpr std::int64_t kBlockPanels = 4, kBlockQueries = kBlockPanels * kPanel;

class ForwardPanels {
 public:
  ForwardPanels(const Attention& attention, const View& out, float* logsumexp, std::int64_t head,
                std::int64_t first)
      : tiles_(attention, head),
        out_(out, head),
        logsumexp_(logsumexp + head * tiles_.queries() + first),
        first_(first),
        rows_(std::min(kBlockQueries, tiles_.queries() - first)),
        value_cols_(whole_vectors(tiles_.value_size())),
        pairs_(tiles_.q.has_pairs() && tiles_.k.has_pairs() && has_pairs_product()) {}

  void run() {
    const std::int64_t size = tiles_.size();
    const bool has_factors = tiles_.a.mask.data != nullptr || tiles_.a.dropout_p > 0;
    float *k, *v;
    take_pieces<float>({{&k, kTileKeys * size},
                        {&v, kTileKeys * value_cols_},
                        {&queries_, kBlockQueries * size},
                        {&scores_, kTileKeys * kPanel},
                        {&sums_, kBlockQueries * value_cols_},
                        {&rows_of_factors_, has_factors ? kTileKeys * kPanel : 0},
                        {&factors_, has_factors ? kTileKeys * kPanel : 0}});
    const std::int64_t near = std::min(kTileKeys, tiles_.keys());
    fetch(tiles_.k, near), fetch(tiles_.v, near);
    take_queries(k);
    const std::int64_t end = tiles_.keys_before(first_ + rows_);
    for (std::int64_t key = 0; key < end; key += kTileKeys) {
      const std::int64_t count = std::min(kTileKeys, end - key);
      const Tile tile{key, count,
                      pairs_ ? TileRows<const float>{} : tiles_.k.load<float>(key, count, size, k),
                      tiles_.v.load<float>(key, count, value_cols_, v)};
      for (std::int64_t p = 0; p * kPanel < rows_; ++p) take(p, tile);
    }
    for (std::int64_t p = 0; p * kPanel < rows_; ++p) finish(p);
  }

 private:
  struct Tile {
    std::int64_t key, count;
    TileRows<const float> k, v;
  };
  /// A panel's part of a tile: the keys that its queries take.
  struct Part {
    std::int64_t query, rows, keys;
  };

  /// Has the first rows of a head come to the cache, for which a short context would wait.
  static void fetch(const Head& head, std::int64_t rows) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t bytes = head.cols * size_of(head.dtype);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* const row = head.row(r);
      for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, kToSecondLevel);
    }
  }
  /// `buffer`: room for a panel of queries.
  void take_queries(float* buffer) {
    const std::int64_t size = tiles_.size();
    for (std::int64_t p = 0; p * kPanel < rows_; ++p) {
      const std::int64_t count = std::min(kPanel, rows_ - p * kPanel);
      const std::int64_t query = first_ + p * kPanel;
      if (pairs_)
        transpose_to_panel(tiles_.q.pairs(query), count, size / 2, queries_ + p * kPanel * size);
      else
        transpose_to_panel(tiles_.q.load<float>(query, count, size, buffer), count, size,
                           queries_ + p * kPanel * size);
      softmax_[p].clear();
    }
  }

  [[nodiscard]] Part part_of(std::int64_t p, const Tile& tile) const {
    const std::int64_t query = first_ + p * kPanel, rows = std::min(kPanel, rows_ - p * kPanel);
    return {query, rows, tiles_.length(query + rows - 1, tile.key, tile.count)};
  }

  void take(std::int64_t p, const Tile& tile) {
    const Part part = part_of(p, tile);
    if (part.keys == 0) return;
    multiply_keys(p, tile, part);
    float left = static_cast<float>(tiles_.a.scale);
    if (tiles_.a.mask.data != nullptr) {
      mask(tile, part, left);
      left = 1;
    }
    // Keys beyond the diagonal; there are none before the first row of the panel.
    const std::int64_t diagonal = tiles_.a.causal ? part.query - tile.key : tile.count;
    for (std::int64_t i = std::max<std::int64_t>(0, diagonal + 1); i < part.keys; ++i) {
      std::fill_n(scores_ + i * kPanel, std::min(kPanel, i - diagonal),
                  -std::numeric_limits<float>::infinity());
    }
    softmax_[p].step(scores_, part.keys, left);
    if (tiles_.a.dropout_p > 0) drop(tile, part);
    add_values(p, tile, part);
  }

  void multiply_keys(std::int64_t p, const Tile& tile, const Part& part) {
    const std::int64_t size = tiles_.size();
    const float* const queries = queries_ + p * kPanel * size;
    if (pairs_) {
      const auto* const k = reinterpret_cast<const BFloat16*>(tiles_.k.row(tile.key));
      return pairs_product({part.keys, size / 2, k, tiles_.k.row_stride, queries, scores_});
    }
    panel_product({.m = part.keys,
                   .n = kPanel,
                   .k = size,
                   .a = tile.k.data,
                   .a_row = tile.k.ld,
                   .a_step = 1,
                   .b = queries,
                   .ldb = kPanel,
                   .c = scores_,
                   .ldc = kPanel});
  }

  void add_values(std::int64_t p, const Tile& tile, const Part& part) {
    PanelProduct product{.m = part.rows,
                         .n = value_cols_,
                         .k = part.keys,
                         .a = scores_,
                         .a_row = 1,
                         .a_step = kPanel,
                         .b = tile.v.data,
                         .ldb = tile.v.ld,
                         .c = sums_ + p * kPanel * value_cols_,
                         .ldc = value_cols_,
                         .keep = tile.key > 0 ? softmax_[p].factor : nullptr,
                         .keep_step = 1};
    if (tiles_.length(part.query, tile.key, part.keys) == part.keys) return panel_product(product);
    // Across the diagonal.
    constexpr std::int64_t kStrip = 8;
    for (std::int64_t r = 0; r < part.rows; r += kStrip) {
      product.m = std::min(kStrip, part.rows - r);
      product.k = tiles_.length(part.query + r + kStrip - 1, tile.key, part.keys);
      panel_product(product);
      product.a += kStrip, product.c += kStrip * value_cols_;
      if (product.keep != nullptr) product.keep += kStrip;
    }
  }

  /// The scores' mask.
  void mask(const Tile& tile, const Part& part, float scale) {
    const std::int64_t n = tile.count;
    const MaskRow<float> first = tiles_.mask_row(part.query, tile.key, n, rows_of_factors_);
    TileRows<const float> rows{first.values, tiles_.mask.row_stride};
    if (first.values == rows_of_factors_ && rows.ld != 0) {
      for (std::int64_t r = 1; r < part.rows; ++r)
        static_cast<void>(tiles_.mask_row(part.query + r, tile.key, n, rows_of_factors_ + r * n));
      rows.ld = n;
    }
    transpose_to_panel(rows, part.rows, n, factors_);
    mask_panel(scores_, n, scale, factors_, first.select);
  }

  /// Dropout of the weights.
  void drop(const Tile& tile, const Part& part) {
    const std::int64_t n = part.keys;
    for (std::int64_t r = 0; r < part.rows; ++r) {
      float* const row = rows_of_factors_ + r * n;
      const std::int64_t taken = tiles_.length(part.query + r, tile.key, n);
      tiles_.kept_row(part.query + r, tile.key, taken, words_, row);
      std::fill_n(row + taken, n - taken, 0.0F);
    }
    transpose_to_panel({rows_of_factors_, n}, part.rows, n, factors_);
    multiply_panel(scores_, factors_, n);
  }

  void finish(std::int64_t p) {
    const std::int64_t row = p * kPanel, count = std::min(kPanel, rows_ - row), cols = tiles_.value_size();
    softmax_[p].finish(logsumexp_ + row, count);
    const TileRows<float> sums{sums_ + row * value_cols_, value_cols_};
    const bool direct = out_.direct<float>();
    const TileRows<float> target = direct ? out_.direct_rows<float>(first_ + row) : sums;
    scale_rows({sums.data, sums.ld}, softmax_[p].factor, target, count, cols);
    if (!direct) out_.store<float>(first_ + row, count, {sums.data, sums.ld});
  }

  HeadTiles<float> tiles_;
  Head out_;
  float* logsumexp_;
  std::int64_t first_, rows_, value_cols_;
  bool pairs_;  ///< k q^T is taken of bf16 as it is
  float *queries_, *scores_, *sums_, *rows_of_factors_, *factors_;
  PanelSoftmax softmax_[kBlockPanels];
  std::uint32_t words_[kTileKeys + 8];
};

}  // namespace

void attention_by_panels(const Attention& attention, const View& out, float* logsumexp) {
  for_query_blocks(attention, out, kBlockQueries, [&](std::int64_t head, std::int64_t first) {
    ForwardPanels(attention, out, logsumexp, head, first).run();
  });
}

bool goes_by_panels(const Attention& a) {
  // Fewer rows waste most of a panel. In 16 bits that costs less than to widen all keys and values for them.
  const bool pairs = a.q.dtype == DType::bf16 && has_pairs_product();
  const std::int64_t least = a.q.dtype == DType::f32 ? 8 : (pairs ? 2 : 4);
  constexpr double kSmall = 8192;  // as in kernels/gemm/cpu.cpp
  const std::int64_t queries = a.q.shape[2], keys = a.k.shape[2];
  const double products = static_cast<double>(queries) * static_cast<double>(keys) *
                          static_cast<double>(std::max(a.q.shape[3], a.v.shape[3]));
  return a.q.dtype != DType::f64 && queries >= least && products > kSmall;
}

}  // namespace mezzo::kernels::cpu
