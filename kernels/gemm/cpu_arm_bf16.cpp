// The product of bf16 matrices on ARM's own instruction for it, BFMMLA: a register of 2 x 2 sums takes four
// places of k at once, for which both operands are packed. There is no such engine for f16: FMLA of FEAT_FP16
// adds up in f16, and FMLAL of FEAT_FHM makes as many products per instruction as FMLA in f32, of the same
// bits, so f16 is widened.
#include "mezzo/kernels/gemm/cpu_bf16.h"

#if defined(__aarch64__)

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mezzo/core/memory/per_thread.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/scratch.h"
#include "mezzo/kernels/cpu/vectors_16bit.h"

namespace mezzo::kernels::cpu {
namespace {

/// Lines (A's rows, B's columns) that lie side by side in a panel, in pairs.
constexpr std::int64_t kLines = 8;
/// Places of k that an instruction takes, and those that are packed at a time.
constexpr std::int64_t kStep = 4, kDepth = 512;
constexpr std::int64_t kPairs = kLines / 2;

/// A or B from some place of k on, as lines along k.
struct Lines {
  const BFloat16* data;
  std::int64_t ld;
  bool contiguous;  ///< a line's elements are neighbours; else the elements of one place of k are

  [[nodiscard]] const BFloat16* at(std::int64_t line, std::int64_t p) const {
    return data + (contiguous ? line * ld + p : p * ld + line);
  }
};

/// Lines [first, first + count) at places [p, p + 4) of `depth`: to[4 * line + place], zeros beyond the ends.
void pack_step(const Lines& x, std::int64_t first, std::int64_t count, std::int64_t p, std::int64_t depth,
               BFloat16* to) {
  if (count < kLines || p + kStep > depth) {
    std::memset(to, 0, kLines * kStep * sizeof *to);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t c = 0; c < std::min(kStep, depth - p); ++c)
        to[kStep * i + c] = *x.at(first + i, p + c);
    }
  } else if (x.contiguous) {
    for (std::int64_t i = 0; i < kLines; ++i)
      std::memcpy(to + kStep * i, x.at(first + i, p), kStep * sizeof *to);
  } else {
    const BFloat16* const from = x.at(first, p);
    for (std::int64_t i = 0; i < kLines; ++i) {
      for (std::int64_t c = 0; c < kStep; ++c) to[kStep * i + c] = from[c * x.ld + i];
    }
  }
}

/// All `count` lines as panels of kLines, one after the other.
void pack(const Lines& x, std::int64_t count, std::int64_t depth, BFloat16* to) {
  for (std::int64_t first = 0; first < count; first += kLines) {
    for (std::int64_t p = 0; p < depth; p += kStep, to += kLines * kStep)
      pack_step(x, first, std::min(kLines, count - first), p, depth, to);
  }
}

/// products[i][j] = line i of panel `a` times line j of panel `b`. A pair of lines of each gives a register.
[[MEZZO_TARGET_ARM_BF16, gnu::noinline]] void multiply_panels(const BFloat16* a, const BFloat16* b,
                                                              std::int64_t steps,
                                                              float (&products)[kLines][kLines]) {
  Floats4 sums[kPairs][kPairs] = {};
  for (std::int64_t s = 0; s < steps; ++s, a += kLines * kStep, b += kLines * kStep) {
    Words8 left[kPairs], right[kPairs];
    MEZZO_WRITE_OUT
    for (int i = 0; i < kPairs; ++i) {
      std::memcpy(&left[i], a + 2 * kStep * i, sizeof left[i]);
      std::memcpy(&right[i], b + 2 * kStep * i, sizeof right[i]);
    }
    MEZZO_WRITE_OUT
    for (int i = 0; i < kPairs; ++i) {
      MEZZO_WRITE_OUT
      for (int j = 0; j < kPairs; ++j)
        asm("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sums[i][j]) : "w"(left[i]), "w"(right[j]));
    }
  }
  MEZZO_WRITE_OUT
  for (int i = 0; i < kPairs; ++i) {
    MEZZO_WRITE_OUT
    for (int j = 0; j < kPairs; ++j) {
      float four[4];
      std::memcpy(four, &sums[i][j], sizeof four);
      std::memcpy(&products[2 * i][2 * j], four, 2 * sizeof *four);
      std::memcpy(&products[2 * i + 1][2 * j], four + 2, 2 * sizeof *four);
    }
  }
}

struct Packed {
  Scratch a, b;
};

}  // namespace

void gemm_arm_bf16(const GemmTile<BFloat16, float>& tile) {
  static constinit mezzo::detail::PerThread<Packed> buffers;
  Packed& packed = buffers.get();
  const Lines rows{tile.a, tile.lda, !tile.a_transposed}, cols{tile.b, tile.ldb, tile.b_transposed};
  for (std::int64_t p = 0; p < tile.k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, tile.k - p), steps = ceil_div(depth, kStep),
                       panel = kLines * kStep * steps;
    auto* const a = packed.a.get<BFloat16>(ceil_div(tile.m, kLines) * panel);
    auto* const b = packed.b.get<BFloat16>(ceil_div(tile.n, kLines) * panel);
    pack({rows.at(0, p), rows.ld, rows.contiguous}, tile.m, depth, a);
    pack({cols.at(0, p), cols.ld, cols.contiguous}, tile.n, depth, b);
    for (std::int64_t j = 0; j < tile.n; j += kLines) {
      const std::int64_t width = std::min(kLines, tile.n - j);
      for (std::int64_t i = 0; i < tile.m; i += kLines) {
        float products[kLines][kLines];
        multiply_panels(a + i / kLines * panel, b + j / kLines * panel, steps, products);
        for (std::int64_t r = 0; r < std::min(kLines, tile.m - i); ++r) {
          float* const c = tile.c + (i + r) * tile.ldc + j;
          const bool adds = tile.accumulate || p > 0;
          for (std::int64_t q = 0; q < width; ++q) c[q] = adds ? c[q] + products[r][q] : products[r][q];
        }
      }
    }
  }
}

}  // namespace mezzo::kernels::cpu

#endif
