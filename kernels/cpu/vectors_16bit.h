// Full vectors of a 16-bit type to f32 and back in registers, by the processor's conversions, which no
// compiler finds by itself. To be used in functions of the same target only: the name says which (see
// multiversion.h).
//
// They round to nearest even and keep subnormals and quiet NaNs exactly as core/float16.h does. BFloat16 is
// widened by a shift, which the compilers do vectorise.
#pragma once

#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/multiversion.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace mezzo::kernels::cpu {

[[MEZZO_TARGET_V4, gnu::always_inline]] inline __m512 widen_v4(const Half* x) {
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
[[MEZZO_TARGET_V4, gnu::always_inline]] inline void narrow_v4(__m512 x, Half* y) {
  const __m256i bits = _mm512_maskz_cvtps_ph(0xFFFF, x, _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), bits);
}
[[MEZZO_TARGET_V4, gnu::always_inline]] inline void narrow_v4(__m512 x, BFloat16* y) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xFFFF, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
  // The upper words, in order: one permutation instead of a shift and a narrowing.
  const __m512i upper_words = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x001f001d, 0x001b0019, 0x00170015,
                                               0x00130011, 0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
  const __m256i upper = _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_words, quiet));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), upper);
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

#endif
