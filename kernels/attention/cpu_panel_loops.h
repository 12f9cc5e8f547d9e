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

constexpr std::int64_t whole_vectors(std::int64_t cols) { return (cols + kVector - 1) / kVector * kVector; }

/// C = A B of bf16 numbers, where A's rows are taken in pairs of neighbours and B is a panel of such pairs:
/// two numbers in the place of an f32. Products and sums are those of f32, but subnormal numbers count as 0.
struct PairsProduct {
  std::int64_t m, pairs;
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

// --- forward: panels [keys, 32 queries]

/// The online softmax of the queries of a panel, see OnlineSoftmax.
struct PanelSoftmax {
  float largest[kPanel], sum[kPanel];
  float factor[kPanel];  ///< for what was added up before the last step
  void clear();
  /// Makes weights of the scores of n keys, and takes them in.
  void step(float* scores, std::int64_t n, float scale);
  /// factor = 1 / sum, or 0; logsumexp[i] for i < count.
  void finish(float* logsumexp, std::int64_t count);
};

/// out's row i = row i of x * factors[i]; they may be the same.
void scale_rows(TileRows<const float> x, const float* factors, TileRows<float> out, std::int64_t rows,
                std::int64_t cols);

/// scores = scores * scale + mask, or, for a mask that selects, -inf where it is 0.
void mask_panel(float* scores, std::int64_t rows, float scale, const float* mask, bool selects);
void multiply_panel(float* weights, const float* factors, std::int64_t rows);

// --- backward: panels [queries, 32 keys]

/// Scores, and grad v^T after dropout, of some queries to weights and gradients of the products.
struct PanelGradients {
  std::int64_t rows;
  float *products, *through;
  const float *logsumexp, *means;  ///< of each query
  float left;                      ///< what is left to multiply the scores by
  float scale;
};
void panel_gradients(const PanelGradients& panel);

}  // namespace mezzo::kernels::cpu
