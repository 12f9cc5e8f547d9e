// Full vectors of a 16-bit type to f32 and back in registers, by the processor's conversions, which no
// compiler finds by itself. Only for functions of the target in the name (see multiversion.h).
//
// They round to nearest even and keep subnormals and quiet NaNs exactly as core/float16.h does. BFloat16 is
// widened by a shift, which the compilers do vectorise by themselves. The target V4_BF16 rounds by
// AVX512_BF16's instruction, which takes subnormals for zeros: a block with one is rounded by integer
// arithmetic, as in the other targets. ARM's instruction keeps subnormals. What g++ 12 does not find there is
// written as assembly (clang 14 and nvcc do not know all of <arm_neon.h>); it widens f16 by itself
// (core/float16.h).
#pragma once

#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/multiversion.h"

#if defined(__x86_64__)

// g++ 13 uses builtins in this one that nvcc 12 does not know.
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ < 13
#define _AMXTILEINTRIN_H_INCLUDED
#endif
#include <immintrin.h>

namespace mezzo::kernels::cpu {

[[MEZZO_TARGET_V4, gnu::always_inline]] inline __m512 widen_v4(const Half* x) {
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
[[MEZZO_TARGET_V4, gnu::always_inline]] inline void narrow_v4(__m512 x, Half* y) {
  const __m256i bits = _mm512_maskz_cvtps_ph(0xFFFF, x, _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), bits);
}
/// The bfloat16 nearest to each f32, in the upper half of its word; the lower half is not defined.
[[MEZZO_TARGET_V4, gnu::always_inline]] inline __m512i round_bf16_v4(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xFFFF, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
}
[[MEZZO_TARGET_V4, gnu::always_inline]] inline void narrow_v4(__m512 x, BFloat16* y) {
  // The upper words, in order: one permutation instead of a shift and a narrowing.
  const __m512i upper_words = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x001f001d, 0x001b0019, 0x00170015,
                                               0x00130011, 0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
  const __m256i upper = _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_words, round_bf16_v4(x)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), upper);
}

/// Whether either vector has a subnormal, which AVX512_BF16's rounding would take for 0.
[[MEZZO_TARGET_V4, gnu::always_inline]] inline bool any_subnormal_v4(__m512 a, __m512 b) {
  constexpr int kDenormal = 0x20;
  return (_mm512_fpclass_ps_mask(a, kDenormal) | _mm512_fpclass_ps_mask(b, kDenormal)) != 0;
}
/// y[0..15] from `low` and y[16..31] from `high`.
[[MEZZO_TARGET_V4_BF16, gnu::always_inline]] inline void narrow_pair_v4(__m512 low, __m512 high,
                                                                        BFloat16* y) {
  if (any_subnormal_v4(low, high)) [[unlikely]] {
    narrow_v4(low, y);
    narrow_v4(high, y + 16);
    return;
  }
  const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
  __builtin_memcpy(y, &rounded, sizeof rounded);
}
/// y[0..15] = x[0], x[2], ... x[30] and y[16..31] = x[1], x[3], ... x[31]; y is aligned to a vector.
[[MEZZO_TARGET_V4, gnu::always_inline]] inline void widen_even_odd_v4(const BFloat16* x, float* y) {
  const __m512i words = _mm512_loadu_si512(x);
  _mm512_store_si512(y, _mm512_maskz_slli_epi32(0xFFFF, words, 16));
  _mm512_store_si512(y + 16, _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
/// The reverse with rounding: y[0], y[2], ... y[30] from `even` and y[1], y[3], ... y[31] from `odd`.
[[MEZZO_TARGET_V4_BF16, gnu::always_inline]] inline void narrow_even_odd_v4(__m512 even, __m512 odd,
                                                                            BFloat16* y) {
  __m512i words;
  if (any_subnormal_v4(even, odd)) [[unlikely]] {
    constexpr __mmask32 kOddWords = 0xAAAAAAAA;
    const __m512i even_words = _mm512_maskz_srli_epi32(0xFFFF, round_bf16_v4(even), 16);
    words = _mm512_mask_blend_epi16(kOddWords, even_words, round_bf16_v4(odd));
  } else {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(odd, even);
    __builtin_memcpy(&words, &rounded, sizeof words);
    const __m512i interleaved = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                                 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    words = _mm512_permutexvar_epi16(interleaved, words);
  }
  _mm512_storeu_si512(y, words);
}

[[MEZZO_TARGET_V3, gnu::always_inline]] inline __m256 widen_v3(const Half* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
[[MEZZO_TARGET_V3, gnu::always_inline]] inline void narrow_v3(__m256 x, Half* y) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
[[MEZZO_TARGET_V3, gnu::always_inline]] inline void narrow_v3(__m256 x, BFloat16* y) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet),
                                         _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), packed);
}

}  // namespace mezzo::kernels::cpu

#elif defined(__aarch64__)

namespace mezzo::kernels::cpu {

using Floats4 [[gnu::vector_size(16)]] = float;
using Words8 [[gnu::vector_size(16)]] = std::uint16_t;

/// y[0..7] from x[0..7].
MEZZO_ALWAYS_INLINE void narrow_arm(const float* x, Half* y) {
  Floats4 low, high;
  Words8 narrow;
  __builtin_memcpy(&low, x, sizeof low);
  __builtin_memcpy(&high, x + 4, sizeof high);
  asm("fcvtn %0.4h, %1.4s\n\tfcvtn2 %0.8h, %2.4s" : "=&w"(narrow) : "w"(low), "w"(high));
  __builtin_memcpy(y, &narrow, sizeof narrow);
}
[[MEZZO_TARGET_ARM_BF16, gnu::always_inline]] inline void narrow_arm(const float* x, BFloat16* y) {
  Floats4 low, high;
  Words8 narrow;
  __builtin_memcpy(&low, x, sizeof low);
  __builtin_memcpy(&high, x + 4, sizeof high);
  asm("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(narrow) : "w"(low), "w"(high));
  __builtin_memcpy(y, &narrow, sizeof narrow);
}

}  // namespace mezzo::kernels::cpu

#endif
