// Products too small to pay for an engine's call and packing (cpu_tile.h): of rows with a panel of columns,
// for kernels that lay out what they multiply themselves.
#pragma once

#include <cstdint>

namespace mezzo::kernels::cpu {

/// Columns of a panel, and numbers of which every vector has a part.
inline constexpr std::int64_t kPanel = 32, kVector = 16;

/// C = A B, or row i of C = keep[i * keep_step] C + A B. Products and sums are rounded together where the
/// instruction set has that (FMA).
struct PanelProduct {
  std::int64_t m, n, k;  ///< n is a multiple of kVector; any of them may be 0
  const float* a;        ///< element (i, p) is a[i * a_row + p * a_step]
  std::int64_t a_row, a_step;
  const float* b;  ///< rows of neighbours, ldb apart
  std::int64_t ldb;
  float* c;  ///< the same
  std::int64_t ldc;
  const float* keep = nullptr;  ///< nullptr: C is not read
  std::int64_t keep_step = 0;
};
void panel_product(const PanelProduct& product);

}  // namespace mezzo::kernels::cpu
