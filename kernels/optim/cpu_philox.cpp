// With the instruction that multiplies the low halves of 64-bit lanes to whole products, one lane per word of
// a block. Compilers make a 64-bit product of it, which takes three times as long.
#include "mezzo/kernels/optim/cpu_arrays.h"

#include "mezzo/kernels/cpu/multiversion.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mezzo::kernels::cpu {

namespace {

void blocks_plain(PhiloxKey key, std::uint64_t first, std::uint64_t stream, std::int64_t blocks,
                  std::uint16_t* halves) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const PhiloxBlock block =
        FastPhilox{}(philox_counter(first + static_cast<std::uint64_t>(b), stream), key);
    for (int k = 0; k < 8; ++k) halves[8 * b + k] = static_cast<std::uint16_t>(block[k / 2] >> 16 * (k % 2));
  }
}

#if defined(__x86_64__)
/// The key of each round, word by word in 64 bits.
struct RoundKeys {
  explicit RoundKeys(PhiloxKey key) {
    for (auto& round : words) {
      round[0] = key.words[0];
      round[1] = key.words[1];
      key.words[0] += FastPhilox::kGoldenRatio;
      key.words[1] += FastPhilox::kSqrt3;
    }
  }
  long long words[FastPhilox::kRounds][2];
};

[[MEZZO_TARGET_V3]] void blocks_v3(PhiloxKey key, std::uint64_t first, std::uint64_t stream,
                                   std::int64_t blocks, std::uint16_t* halves) {
  const RoundKeys keys(key);
  for (std::int64_t b = 0; b < blocks; b += 4) {
    const __m256i index = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(first) + b),
                                           _mm256_setr_epi64x(0, 1, 2, 3));
    // The upper half of a lane is left over from the product before.
    __m256i w0 = index, w1 = _mm256_srli_epi64(index, 32),
            w2 = _mm256_set1_epi64x(static_cast<long long>(stream)), w3 = _mm256_srli_epi64(w2, 32);
    for (const auto& k : keys.words) {
      const __m256i even = _mm256_mul_epu32(w0, _mm256_set1_epi64x(FastPhilox::kEven)),
                    odd = _mm256_mul_epu32(w2, _mm256_set1_epi64x(FastPhilox::kOdd));
      w0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(odd, 32), w1), _mm256_set1_epi64x(k[0]));
      w2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(even, 32), w3), _mm256_set1_epi64x(k[1]));
      w1 = odd;
      w3 = even;
    }
    const __m256i low = _mm256_blend_epi32(w0, _mm256_slli_epi64(w1, 32), 0xaa);
    const __m256i high = _mm256_blend_epi32(w2, _mm256_slli_epi64(w3, 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    auto* const to = reinterpret_cast<__m256i*>(halves + 8 * b);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

[[MEZZO_TARGET_V4]] void blocks_v4(PhiloxKey key, std::uint64_t first, std::uint64_t stream,
                                   std::int64_t blocks, std::uint16_t* halves) {
  const RoundKeys keys(key);
  for (std::int64_t b = 0; b < blocks; b += 8) {
    const __m512i index = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first) + b),
                                           _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    __m512i w0 = index, w1 = _mm512_srli_epi64(index, 32);
    __m512i w2 = _mm512_set1_epi64(static_cast<long long>(stream)), w3 = _mm512_srli_epi64(w2, 32);
    for (const auto& k : keys.words) {
      const __m512i even = _mm512_mul_epu32(w0, _mm512_set1_epi64(FastPhilox::kEven));
      const __m512i odd = _mm512_mul_epu32(w2, _mm512_set1_epi64(FastPhilox::kOdd));
      w0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(odd, 32), w1), _mm512_set1_epi64(k[0]));
      w2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(even, 32), w3), _mm512_set1_epi64(k[1]));
      w1 = odd;
      w3 = even;
    }
    const __m512i low = _mm512_mask_blend_epi32(0xaaaa, w0, _mm512_slli_epi64(w1, 32));
    const __m512i high = _mm512_mask_blend_epi32(0xaaaa, w2, _mm512_slli_epi64(w3, 32));
    auto* const to = halves + 8 * b;
    _mm512_storeu_si512(to,
                        _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), high));
    _mm512_storeu_si512(to + 32,
                        _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), high));
  }
}
#endif

}  // namespace

void philox_halves(PhiloxKey key, std::uint64_t first, std::uint64_t stream, std::int64_t blocks,
                   std::uint16_t* halves) {
#if defined(__x86_64__)
  if (isa() == Isa::v4) return blocks_v4(key, first, stream, blocks, halves);
  if (isa() == Isa::v3) return blocks_v3(key, first, stream, blocks, halves);
#endif
  blocks_plain(key, first, stream, blocks, halves);
}

}  // namespace mezzo::kernels::cpu
