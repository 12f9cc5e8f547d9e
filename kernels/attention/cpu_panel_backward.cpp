// Attention backward by panels. A task is a head. It walks over tiles of keys, which it transposes once, and
// within over blocks of queries: q k^T has rows of queries and columns of keys, and the four other products
// read it as it is.
#include <algorithm>

#include "mezzo/kernels/attention/cpu_heads.h"
#include "mezzo/kernels/attention/cpu_panels.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::int64_t kTilePanels = 4, kKeysOfTile = kTilePanels * kPanel, kQueriesOfBlock = 64;
/// Rows or columns of a product across the diagonal that end together.
constexpr std::int64_t kStep = 8;
constexpr float kOne = 1;

/// means[i] = a's row i . b's row i
struct DotRows {
  static void run(const float* a, std::int64_t lda, const float* b, std::int64_t ldb, std::int64_t rows,
                  std::int64_t cols, float* means) {
    for (std::int64_t r = 0; r < rows; ++r, a += lda, b += ldb)
      means[r] = static_cast<float>(row_pass<float, 2>({a, b}, nullptr, cols, scalar::MulFn{}));
  }
};

/// Whether the rows of a gradient are added up where they lie, by whole vectors.
bool adds_in_place(const Head& head) {
  return head.data != nullptr && head.cols == whole_vectors(head.cols) && head.direct<float>();
}

class BackwardPanels : BackwardHeads {
 public:
  BackwardPanels(const Attention& attention, const GradientViews& gradients, const View& grad,
                 const View& out, const float* logsumexp, std::int64_t head)
      : BackwardHeads(gradients, grad, out, head),
        tiles_(attention, head),
        logsumexp_(logsumexp + head * tiles_.queries()),
        cols_(whole_vectors(tiles_.size())),
        value_cols_(whole_vectors(tiles_.value_size())),
        pairs_(has_pairs_product() && tiles_.q.has_pairs() && tiles_.k.has_pairs() && tiles_.v.has_pairs() &&
               grad_.has_pairs()) {}

  void run() {
    take_buffers();
    const std::int64_t queries = tiles_.queries(), keys = tiles_.keys();
    find_means();
    if (wants_dq()) zero_rows(sums_of_q_, queries, cols_);
    for (std::int64_t key = 0; key < keys; key += kKeysOfTile) {
      const Tile tile = take_tile(key);
      for (std::int64_t first = first_query(key); first < queries; first += kQueriesOfBlock)
        take_block(tile, first);
      if (dk_.data != nullptr && !adds_in_place(dk_)) dk_.store<float>(key, tile.count, constant(tile.dk));
      if (dv_.data != nullptr && !adds_in_place(dv_)) dv_.store<float>(key, tile.count, constant(tile.dv));
    }
    if (wants_dq() && !adds_in_place(dq_)) dq_.store<float>(0, queries, constant(sums_of_q_));
  }

 private:
  /// Some keys, and what the blocks of queries add up for them.
  struct Tile {
    std::int64_t key, count;
    TileRows<const float> k;
    TileRows<float> dk, dv;
  };
  struct Block {
    std::int64_t first, rows;
    TileRows<const float> q, g;
  };
  /// A panel of keys with a block: the keys take part in rows from `start` on.
  struct Part {
    std::int64_t panel, key, count, start;
    bool diagonal;  ///< some of its weights are 0
  };

  [[nodiscard]] bool wants_dq() const { return dq_.data != nullptr; }
  [[nodiscard]] bool has_mask() const { return tiles_.a.mask.data != nullptr; }
  static TileRows<const float> constant(TileRows<float> rows) { return {rows.data, rows.ld}; }
  /// The first block that takes a key: earlier queries take neither this key nor later keys.
  [[nodiscard]] std::int64_t first_query(std::int64_t key) const {
    return tiles_.a.causal ? key / kQueriesOfBlock * kQueriesOfBlock : 0;
  }
  void take_buffers() {
    const std::int64_t most = std::max(cols_, value_cols_);
    const std::int64_t size = tiles_.size(), value_size = tiles_.value_size(), queries = tiles_.queries();
    const bool has_sums = wants_dq() && !adds_in_place(dq_);
    take_pieces<float>({{&q_, kQueriesOfBlock * most},
                        {&g_, kQueriesOfBlock * most},
                        {&k_, kKeysOfTile * cols_},
                        {&keys_, kKeysOfTile * size},
                        {&values_, kKeysOfTile * value_size},
                        {&sums_of_k_, kKeysOfTile * cols_},
                        {&sums_of_v_, kKeysOfTile * value_cols_},
                        {&products_, kQueriesOfBlock * kPanel},
                        {&through_, kQueriesOfBlock * kPanel},
                        {&mask_, kQueriesOfBlock * kPanel},
                        {&kept_, kQueriesOfBlock * kPanel},
                        {&means_, queries},
                        {&sums_of_q_.data, has_sums ? queries * cols_ : 0}});
    sums_of_q_.ld = cols_;
    if (wants_dq() && !has_sums) sums_of_q_ = dq_.direct_rows<float>(0);
  }

  /// Of each query: grad . out, the mean of its weights' gradients under the weights.
  void find_means() {
    const std::int64_t cols = tiles_.value_size();
    for (std::int64_t first = 0; first < tiles_.queries(); first += kQueriesOfBlock) {
      const std::int64_t rows = std::min(kQueriesOfBlock, tiles_.queries() - first);
      const TileRows<const float> g = grad_.load<float>(first, rows, value_cols_, g_),
                                  out = out_.load<float>(first, rows, value_cols_, q_);
      run_isa<DotRows>(g.data, g.ld, out.data, out.ld, rows, cols, means_ + first);
    }
  }

  Tile take_tile(std::int64_t key) {
    const std::int64_t count = std::min(kKeysOfTile, tiles_.keys() - key), size = tiles_.size(),
                       value_size = tiles_.value_size();
    Tile tile{key,
              count,
              tiles_.k.load<float>(key, count, cols_, k_),
              {sums_of_k_, cols_},
              {sums_of_v_, value_cols_}};
    for (std::int64_t at = 0; at < count; at += kPanel) {
      const std::int64_t rows = std::min(kPanel, count - at);
      if (pairs_) {
        transpose_to_panel(tiles_.k.pairs(key + at), rows, size / 2, keys_ + at * size);
        transpose_to_panel(tiles_.v.pairs(key + at), rows, value_size / 2, values_ + at * value_size);
        continue;
      }
      transpose_to_panel({tile.k.data + at * tile.k.ld, tile.k.ld}, rows, size, keys_ + at * size);
      transpose_to_panel(tiles_.v.load<float>(key + at, rows, value_size, g_), rows, value_size,
                         values_ + at * value_size);
    }
    if (adds_in_place(dk_)) tile.dk = dk_.direct_rows<float>(key);
    if (adds_in_place(dv_)) tile.dv = dv_.direct_rows<float>(key);
    if (dk_.data != nullptr) zero_rows(tile.dk, count, cols_);
    if (dv_.data != nullptr) zero_rows(tile.dv, count, value_cols_);
    return tile;
  }

  /// Adds up what a block of queries gives with a tile.
  void take_block(const Tile& tile, std::int64_t first) {
    const std::int64_t rows = std::min(kQueriesOfBlock, tiles_.queries() - first);
    const Block block{first, rows, tiles_.q.load<float>(first, rows, cols_, q_),
                      grad_.load<float>(first, rows, value_cols_, g_)};
    for (std::int64_t p = 0; p * kPanel < tile.count; ++p) {
      const std::int64_t key = tile.key + p * kPanel, count = std::min(kPanel, tile.count - p * kPanel);
      if (tiles_.length(first + rows - 1, key, count) == 0) continue;
      const Part part{p, key, count, start_of(block, key), tiles_.length(first, key, count) < count};
      multiply_tile(block, part);
      to_gradients(block, part);
      if (dv_.data != nullptr) add_keys(block, part, products_, block.g, tile.dv, value_cols_);
      if (dk_.data != nullptr) add_keys(block, part, through_, block.q, tile.dk, cols_);
      if (wants_dq()) add_queries(block, part, tile);
    }
  }

  /// The first row of a block in which a key takes part, or one a little before it.
  [[nodiscard]] std::int64_t start_of(const Block& block, std::int64_t key) const {
    return tiles_.a.causal ? std::clamp<std::int64_t>(key - block.first, 0, block.rows) / kStep * kStep : 0;
  }

  /// q k^T and grad v^T.
  void multiply_tile(const Block& block, const Part& part) {
    const std::int64_t size = tiles_.size(), value_size = tiles_.value_size(), at = part.panel * kPanel;
    multiply(block, part, tiles_.q, block.q, keys_ + at * size, size, products_);
    multiply(block, part, grad_, block.g, values_ + at * value_size, value_size, through_);
  }
  /// c = the block's rows, as `head` has them or widened, times a panel.
  void multiply(const Block& block, const Part& part, const Head& head, TileRows<const float> rows,
                const float* panel, std::int64_t size, float* c) const {
    const std::int64_t m = block.rows - part.start;
    c += part.start * kPanel;
    if (pairs_) {
      const auto* const a = reinterpret_cast<const BFloat16*>(head.row(block.first + part.start));
      return pairs_product({m, size / 2, a, head.row_stride, panel, c});
    }
    panel_product({.m = m,
                   .n = kPanel,
                   .k = size,
                   .a = rows.data + part.start * rows.ld,
                   .a_row = rows.ld,
                   .a_step = 1,
                   .b = panel,
                   .ldb = kPanel,
                   .c = c,
                   .ldc = kPanel});
  }

  void to_gradients(const Block& block, const Part& part) {
    const float scale = static_cast<float>(tiles_.a.scale);
    const std::int64_t rows = block.rows - part.start, query = block.first + part.start,
                       from = part.start * kPanel;
    if (has_mask()) mask(block, part, scale);
    if (tiles_.a.dropout_p > 0) {
      drop(block, part);
      multiply_panel(through_ + from, kept_ + from, rows);
    }
    panel_gradients({rows, products_ + from, through_ + from, logsumexp_ + query, means_ + query,
                     has_mask() ? 1 : scale, scale});
    if (tiles_.a.dropout_p > 0) multiply_panel(products_ + from, kept_ + from, rows);
    if (!part.diagonal) return;
    for (std::int64_t r = part.start; r < block.rows; ++r) {
      const std::int64_t n = tiles_.length(block.first + r, part.key, kPanel);
      if (n == kPanel) break;
      std::fill_n(products_ + r * kPanel + n, kPanel - n, 0.0F);
      std::fill_n(through_ + r * kPanel + n, kPanel - n, 0.0F);
    }
  }

  void mask(const Block& block, const Part& part, float scale) {
    bool select = false;
    for (std::int64_t r = 0; r < block.rows; ++r) {
      float* const to = mask_ + r * kPanel;
      const MaskRow<float> row = tiles_.mask_row(block.first + r, part.key, part.count, to);
      if (row.values != to) std::copy_n(row.values, part.count, to);
      std::fill_n(to + part.count, kPanel - part.count, 0.0F);
      select = row.select;
    }
    mask_panel(products_, block.rows, scale, mask_, select);
  }

  void drop(const Block& block, const Part& part) {
    for (std::int64_t r = part.start; r < block.rows; ++r) {
      float* const to = kept_ + r * kPanel;
      const std::int64_t n = tiles_.length(block.first + r, part.key, part.count);
      tiles_.kept_row(block.first + r, part.key, n, words_, to);
      std::fill_n(to + n, kPanel - n, 0.0F);
    }
  }

  /// sums += panel^T rows
  void add_keys(const Block& block, const Part& part, const float* panel, TileRows<const float> rows,
                TileRows<float> sums, std::int64_t cols) const {
    const std::int64_t step = part.diagonal ? kStep : part.count;
    for (std::int64_t i = 0; i < part.count; i += step) {
      const std::int64_t start =
          part.diagonal ? std::clamp(part.key + i - block.first, part.start, block.rows) : 0;
      panel_product({.m = std::min(step, part.count - i),
                     .n = cols,
                     .k = block.rows - start,
                     .a = panel + start * kPanel + i,
                     .a_row = 1,
                     .a_step = kPanel,
                     .b = rows.data + start * rows.ld,
                     .ldb = rows.ld,
                     .c = sums.data + (part.panel * kPanel + i) * sums.ld,
                     .ldc = sums.ld,
                     .keep = &kOne});
    }
  }

  /// dq += through k
  void add_queries(const Block& block, const Part& part, const Tile& tile) const {
    const std::int64_t step = part.diagonal ? kStep : block.rows;
    for (std::int64_t r = part.start; r < block.rows; r += step) {
      const std::int64_t rows = std::min(step, block.rows - r);
      panel_product({.m = rows,
                     .n = cols_,
                     .k = tiles_.length(block.first + r + rows - 1, part.key, part.count),
                     .a = through_ + r * kPanel,
                     .a_row = kPanel,
                     .a_step = 1,
                     .b = tile.k.data + part.panel * kPanel * tile.k.ld,
                     .ldb = tile.k.ld,
                     .c = sums_of_q_.data + (block.first + r) * sums_of_q_.ld,
                     .ldc = sums_of_q_.ld,
                     .keep = &kOne});
    }
  }

  HeadTiles<float> tiles_;
  const float* logsumexp_;
  std::int64_t cols_, value_cols_;
  bool pairs_;  ///< q k^T and grad v^T are taken of bf16 as it is
  TileRows<float> sums_of_q_{};
  float *q_, *g_, *k_, *keys_, *values_, *sums_of_k_, *sums_of_v_, *products_, *through_, *mask_, *kept_,
      *means_;
  std::uint32_t words_[kPanel + 8];
};

}  // namespace

void attention_backward_by_panels(const Attention& attention, const GradientViews& gradients,
                                  const View& grad, const View& out, const float* logsumexp) {
  for_heads(attention, [&](std::int64_t head) {
    BackwardPanels(attention, gradients, grad, out, logsumexp, head).run();
  });
}

}  // namespace mezzo::kernels::cpu
