// The frame around the tile engines: cuts a product of any dtypes, strides and batch into tiles, widens or
// packs what the engine cannot read itself, and rounds once on the way out. Apart from cpu.cpp, which only
// decides who computes.
#pragma once

#include <cstdint>

#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels::cpu {

/// Sizes of the tiles of C that are computed independently of each other.
struct TilePlan {
  std::int64_t rows, cols;
};

/// Tiles for a product: at most 256 x 512, and smaller while there are fewer than 8 of them worth a thread's
/// while. Depends on the sizes only, so that the bits of a result do not depend on the number of threads.
[[nodiscard]] TilePlan plan_tiles(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k);

/// The layouts that an engine asks for beside those of cpu_tile.h.
struct EngineNeeds {
  bool b_by_rows = false;     ///< B row-contiguous
  bool spaced_lines = false;  ///< no lines along rows or columns of C that lie a multiple of 2 KB apart
};

/// Runs `args` in tiles with `multiply`: operands of type In, sums of type Acc, for the pairs that have an
/// engine (cpu_tile.h). All sizes are above 0, alpha is not 0, and 1 beside a bias, the dtypes convert; there
/// are no row sums.
template <class In, class Acc>
void gemm_blocked(const GemmArgs& args, GemmTileFunction<In, Acc> multiply, const EngineNeeds& needs = {});

/// C = beta * C in the arithmetic of T, without reading C when beta is 0.
template <class T>
void gemm_scale(const GemmArgs& args);

}  // namespace mezzo::kernels::cpu
