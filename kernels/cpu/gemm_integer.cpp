// The exact integer product in plain loops, compiled for every instruction set: no library has one. Floating
// products never come here; even the smallest are faster in Eigen.
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/gemm_tile.h"
#include "mezzo/kernels/cpu/multiversion.h"

namespace mezzo::kernels::cpu {
namespace {

struct IntegerTile {
  // Multiplied and added as unsigned, where overflow is defined: modulo 2^64.
  using Word = std::uint64_t;
  // Sums of a block stay in registers: 4 rows times two AVX-512 vectors. The rows are independent, which
  // hides the latency of multiply and add.
  static constexpr int kRows = 4;
  static constexpr int kWidth = 16;

  template <int Rows, int Width>
  MEZZO_ALWAYS_INLINE static void block(const GemmTile<std::int64_t>& t, std::int64_t i, std::int64_t j) {
    const std::int64_t a_row = t.a_transposed ? 1 : t.lda, a_step = t.a_transposed ? t.lda : 1;
    const std::int64_t* a = t.a + i * a_row;
    const std::int64_t* b = t.b + j;
    Word sum[Rows][Width] = {};
    for (std::int64_t p = 0; p < t.k; ++p, a += a_step, b += t.ldb) {
      for (int r = 0; r < Rows; ++r) {
        const Word factor = static_cast<Word>(a[r * a_row]);
        for (int q = 0; q < Width; ++q) sum[r][q] += factor * static_cast<Word>(b[q]);
      }
    }
    const Word alpha = static_cast<Word>(t.alpha), beta = static_cast<Word>(t.beta);
    for (int r = 0; r < Rows; ++r) {
      std::int64_t* const c = t.c + (i + r) * t.ldc + j;
      for (int q = 0; q < Width; ++q) {
        const Word old = t.beta == 0 ? 0 : static_cast<Word>(c[q]);
        c[q] = static_cast<std::int64_t>(alpha * sum[r][q] + beta * old);
      }
    }
  }

  template <int Rows>
  MEZZO_ALWAYS_INLINE static void rows(const GemmTile<std::int64_t>& t, std::int64_t i) {
    std::int64_t j = 0;
    for (; j + kWidth <= t.n; j += kWidth) block<Rows, kWidth>(t, i, j);
    for (; j < t.n; ++j) block<Rows, 1>(t, i, j);
  }

  static void run(const GemmTile<std::int64_t>* tile) {
    const GemmTile<std::int64_t> t = *tile;
    std::int64_t i = 0;
    for (; i + kRows <= t.m; i += kRows) rows<kRows>(t, i);
    for (; i < t.m; ++i) rows<1>(t, i);
  }
};

}  // namespace

void gemm_integer(const GemmTile<std::int64_t>& tile) { run_isa<IntegerTile>(&tile); }

}  // namespace mezzo::kernels::cpu
