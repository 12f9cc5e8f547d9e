// The loops of attention by panels (cpu_panels.h), compiled for each instruction set.
#pragma once

#include <cstdint>

#include "mezzo/core/float16.h"
#include "mezzo/kernels/gemm/cpu_panel.h"

namespace mezzo::kernels::cpu {

/// Rows of contiguous numbers, `ld` apart.
template <class T>
struct TileRows {
  T* data;
  std::int64_t ld;
};

constexpr std::int64_t whole_vectors(std::int64_t cols) {
  return (cols + kHalfPanel - 1) / kHalfPanel * kHalfPanel;
}

/// C = A B of bf16 numbers, where A's rows are taken in pairs of neighbours and B is a panel of such pairs:
/// two numbers in the place of an f32. Products and sums are those of f32, but subnormal numbers count as 0.
struct PairsProduct {
  std::int64_t m, n, pairs;  ///< n: kPanel or kHalfPanel
  const BFloat16* a;
  std::int64_t a_row;
  const float* b;
  float* c;  ///< a panel
};
/// In cpu_panel_bf16.cpp. To be called where there is one: where gemm() takes such products too.
void pairs_product(const PairsProduct& product);
[[nodiscard]] bool has_pairs_product();

/// panel[c * kPanel + r] = rows[r * ld + c] for r < count, 0 for the other rows of the panel.
void transpose_to_panel(TileRows<const float> rows, std::int64_t count, std::int64_t cols, float* panel);

/// out[i] = a . rows[i]: a single query's products with its keys.
void dot_rows(const float* a, std::int64_t cols, TileRows<const float> rows, std::int64_t count, float* out);

// --- forward: panels [keys, 32 queries]

/// The online softmax of the queries of a panel, see OnlineSoftmax.
struct PanelSoftmax {
  float largest[kPanel], sum[kPanel];
  float factor[kPanel];  ///< for what was added up before the last step
  void clear();
  /// Makes weights of the scores of n keys, and takes them in. For half a panel, 0 or 1.
  void step(float* scores, std::int64_t n, float scale, int half);
  /// factor = 1 / sum, or 0; logsumexp[i] for i < count.
  void finish(float* logsumexp, std::int64_t count);
};

/// out's row i = row i of x * factors[i]; they may be the same.
void scale_rows(TileRows<const float> x, const float* factors, TileRows<float> out, std::int64_t rows,
                std::int64_t cols);

/// scores = scores * scale + mask, or -inf where a mask that selects is 0. `mask`: a panel, or a number for
/// each row.
struct PanelMask {
  const float* values;
  bool select, one_a_row;
};
void mask_panel(float* scores, std::int64_t rows, float scale, PanelMask mask);
void multiply_panel(float* weights, const float* factors, std::int64_t rows);

// --- backward: panels [queries, 32 keys]

/// Scores, and grad v^T, of some queries to weights after dropout and gradients of the products, as
/// GradientsOfRow does.
struct PanelGradients {
  std::int64_t rows;
  float *products, *through;
  const float *logsumexp, *means;  ///< of each query
  float left;                      ///< what is left to multiply the scores by
  float scale;
  const float* kept;  ///< nullptr: no dropout
};
void panel_gradients(const PanelGradients& panel, int half);

}  // namespace mezzo::kernels::cpu
