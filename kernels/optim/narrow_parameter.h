// How a step keeps its f32 values in 16-bit parameters without an f32 master: split in two halves, exactly,
// or rounded at random.
#pragma once

#include <cstdint>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"
#include "mezzo/core/random/philox.h"

namespace mezzo::kernels {

/// An f32 number as a bf16 parameter and what it lacks, the low half of the bits. The parameter is the number
/// rounded to nearest, ties away from zero: rounded to even, the halves would not tell the number.
struct SplitMaster {
  std::uint16_t parameter;
  std::int16_t remainder;

  /// A NaN becomes a quiet one, of which the parameter alone has all.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static SplitMaster of(float value) {
    const auto bits = mezzo::detail::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t parameter = is_nan ? bits >> 16 | 0x40U : (bits + 0x8000U) >> 16;
    return {static_cast<std::uint16_t>(parameter), static_cast<std::int16_t>(is_nan ? 0U : bits & 0xffffU)};
  }
  /// The number. A parameter that somebody else has written, 0 or infinity, may make a NaN with its
  /// remainder, which then counts as 0; other ones are moved by less than half of their last place.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float joined() const {
    const std::uint32_t high = static_cast<std::uint32_t>(parameter) << 16;
    const std::uint32_t bits = high + static_cast<std::uint32_t>(static_cast<std::int32_t>(remainder));
    return mezzo::detail::bit_cast<float>((bits & 0x7fffffffU) > 0x7f800000U ? high : bits);
  }
};

/// The random bits of one parameter's roundings in one step, 16 for each element: Philox's words in their
/// order, the low half of each first. `element` counts from the parameter's first, also in a shard.
struct RoundingBits {
  std::uint32_t parameter;  ///< its number in the optimizer
  std::int64_t step;        ///< updates before this one

  static constexpr std::int64_t kBlock = 8;  ///< elements of one block of Philox
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PhiloxKey key() const { return {{0x6d657a7aU, parameter}}; }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint64_t stream() const {
    return static_cast<std::uint64_t>(step);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PhiloxBlock block(std::int64_t element) const {
    return FastPhilox{}(philox_counter(static_cast<std::uint64_t>(element / kBlock), stream()), key());
  }
  /// Those of an element, out of its block.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static std::uint32_t of(const PhiloxBlock& block,
                                                                     std::int64_t element) {
    const auto half = static_cast<int>(element % kBlock);
    const std::uint32_t low = half < 4 ? (half < 2 ? block[0] : block[1]) : (half < 6 ? block[2] : block[3]);
    return half % 2 == 0 ? low & 0xffffU : low >> 16;
  }
};

/// An f32 value as the 16-bit type S: rounded up in magnitude with a probability that is the dropped part of
/// the last place, by 16 random bits. Infinities and quiet NaN stay; finite values stay finite.
template <class S>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE S rounded_at_random(float value, std::uint32_t random) {
  const auto bits = mezzo::detail::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if constexpr (std::is_same_v<S, BFloat16>) {
    // From the largest finite value on nothing is rounded up.
    const std::uint32_t moved = bits + (magnitude < 0x7f7f0000U ? random : 0U);
    return S::from_bits(static_cast<std::uint16_t>(moved >> 16));
  } else {
    constexpr std::uint32_t kRebias = (127U - 15U) << 23, kSmallestNormal = 0x38800000U;  // 2^-14
    const std::uint32_t normal = (magnitude - kRebias + (random >> 3)) >> 13;
    // Below 2^-14 the last place is 2^-24: an integer of 2^-40, whose upper part is kept.
    const float small = mezzo::detail::bit_cast<float>(magnitude < kSmallestNormal ? magnitude : 0U);
    const auto units = static_cast<std::uint32_t>(static_cast<std::int32_t>(small * 0x1p40F)) + random;
    const std::uint32_t rounded = magnitude < kSmallestNormal ? units >> 16 : normal;
    const std::uint32_t finite = rounded < S::max().bits ? rounded : S::max().bits;
    const std::uint32_t special = magnitude > 0x7f800000U ? S::quiet_nan().bits : S::infinity().bits;
    const std::uint32_t kept = magnitude >= 0x7f800000U ? special : finite;
    return S::from_bits(static_cast<std::uint16_t>(kept | (bits >> 16 & 0x8000U)));
  }
}

}  // namespace mezzo::kernels
