// The product of bf16 panels on the processor's own instruction for pairs of bf16 numbers (AVX512_BF16).
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/attention/cpu_panel_loops.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/cpu/vectors_16bit.h"
#include "mezzo/kernels/gemm/cpu_bf16.h"

namespace mezzo::kernels::cpu {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kLanesOfPairs = 16, kCount = kPanel / kLanesOfPairs;

/// `Rows` rows of C from row i on, whose sums stay in registers.
template <int Rows>
[[MEZZO_TARGET_V4_BF16, gnu::always_inline]] inline void pairs_block_v4(const PairsProduct& t,
                                                                        std::int64_t i) {
  const BFloat16* a = t.a + i * t.a_row;
  const float* b = t.b;
  __m512 sum[Rows][kCount];
  for (int r = 0; r < Rows; ++r) {
    for (int q = 0; q < kCount; ++q) sum[r][q] = _mm512_setzero_ps();
  }
  for (std::int64_t p = 0; p < t.pairs; ++p, a += 2, b += kPanel) {
    __m512bh right[kCount];
    for (int q = 0; q < kCount; ++q) __builtin_memcpy(&right[q], b + q * kLanesOfPairs, sizeof right[q]);
    for (int r = 0; r < Rows; ++r) {
      std::int32_t pair;
      __builtin_memcpy(&pair, a + r * t.a_row, sizeof pair);
      __m512i repeated = _mm512_set1_epi32(pair);
#if defined(__clang__) && __clang_major__ >= 16 && __clang_major__ <= 18
      // Their optimizer asks without end what repeating a bf16 number costs, and crashes: here it sees none.
      asm("" : "+v"(repeated));
#endif
      const auto left = __builtin_bit_cast(__m512bh, repeated);
      for (int q = 0; q < kCount; ++q) sum[r][q] = _mm512_dpbf16_ps(sum[r][q], left, right[q]);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int q = 0; q < kCount; ++q) _mm512_storeu_ps(t.c + (i + r) * kPanel + q * kLanesOfPairs, sum[r][q]);
  }
}

[[MEZZO_TARGET_V4_BF16, gnu::noinline]] void pairs_product_v4(const PairsProduct& t) {
  std::int64_t i = 0;
  for (; i + 8 <= t.m; i += 8) pairs_block_v4<8>(t, i);
  for (; i + 4 <= t.m; i += 4) pairs_block_v4<4>(t, i);
  for (; i < t.m; ++i) pairs_block_v4<1>(t, i);
}

}  // namespace

void pairs_product(const PairsProduct& product) { pairs_product_v4(product); }
bool has_pairs_product() { return has_bf16_instructions() && use_native_bf16(); }
#else
void pairs_product(const PairsProduct& /*product*/) {}
bool has_pairs_product() { return false; }
#endif

}  // namespace mezzo::kernels::cpu
