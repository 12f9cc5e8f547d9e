// Philox4x32, the counter-based random generator of the whole library, and the uniforms made from its
// words. Separate from what hands out counters, because kernels on every device call it with counters of
// their own.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo {

/// Four 32-bit words: a counter in, a block of random words out. (For nvcc std::array is host-only.)
struct PhiloxBlock {
  std::uint32_t words[4];

  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::uint32_t operator[](int index) const noexcept {
    return words[index];
  }
};

/// The 64-bit key, lower word first.
struct PhiloxKey {
  std::uint32_t words[2];
};

/// A seed as key: lower word first.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr PhiloxKey philox_key(std::uint64_t seed) noexcept {
  return {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
}

/// The counter of block `index` within `stream`: index in the lower two words, stream in the upper two.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr PhiloxBlock philox_counter(
    std::uint64_t index, std::uint64_t stream = 0) noexcept {
  return {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
           static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
}

/// Philox4x32: a bijection of 128-bit counters, chosen by a 64-bit key. It has no state: block
/// n costs the same as block 0 and depends on counter and key alone. The same bits on every device.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 4.
template <int rounds>
struct PhiloxOf {
  static constexpr int kRounds = rounds;
  static constexpr std::uint32_t kEven = 0xd2511f53U, kOdd = 0xcd9e8d57U;  ///< factors of words 0 and 2
  /// Added to the words of the key in each round: the golden ratio, and sqrt(3) - 1.
  static constexpr std::uint32_t kGoldenRatio = 0x9e3779b9U, kSqrt3 = 0xbb67ae85U;

  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr PhiloxBlock operator()(PhiloxBlock counter,
                                                                              PhiloxKey key) const noexcept {
    PhiloxBlock block = counter;
    for (int round = 0; round < kRounds; ++round) {
      block = mix(block, key);
      key.words[0] += kGoldenRatio;
      key.words[1] += kSqrt3;
    }
    return block;
  }

 private:
  MEZZO_HD MEZZO_ALWAYS_INLINE static constexpr PhiloxBlock mix(PhiloxBlock in, PhiloxKey key) noexcept {
    const std::uint64_t even = std::uint64_t{kEven} * in.words[0];
    const std::uint64_t odd = std::uint64_t{kOdd} * in.words[2];
    return {{static_cast<std::uint32_t>(odd >> 32) ^ in.words[1] ^ key.words[0],
             static_cast<std::uint32_t>(odd),
             static_cast<std::uint32_t>(even >> 32) ^ in.words[3] ^ key.words[1],
             static_cast<std::uint32_t>(even)}};
  }
};

/// What all random numbers are made of, with the rounds that its authors advise.
using Philox = PhiloxOf<10>;
/// With the fewest rounds that pass their tests (BigCrush), where speed counts more than what else may come.
using FastPhilox = PhiloxOf<7>;

/// Uniform f32 in [0, 1): the upper 24 bits of `word` times 2^-24. Every value is exact, 1 never appears.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr float uniform_f32(std::uint32_t word) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24F;
}

/// Uniform f64 in [0, 1): the upper 53 bits of (high, low) times 2^-53. Every value is exact, 1 never
/// appears.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr double uniform_f64(std::uint32_t high,
                                                                        std::uint32_t low) noexcept {
  // 31 and 22 bits instead of one 64-bit integer, which only AVX-512 converts. All steps are exact.
  const auto upper = static_cast<std::int32_t>(high >> 1);
  const auto lower = static_cast<std::int32_t>(((high & 1U) << 21) | (low >> 11));
  return static_cast<double>(upper) * 0x1p-31 + static_cast<double>(lower) * 0x1p-53;
}

}  // namespace mezzo
