// Normal random numbers from the words of Philox, for CPU loops and CUDA kernels. Separate from
// core/random/philox.h because they need the logarithm, sine and cosine of kernels/math/math.h.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/math.h"

namespace mezzo::kernels {

/// Two independent standard normal values.
struct NormalPair {
  float first;
  float second;
};

/// Box and Muller's transform of two independent uniform words:
///   u = float(radius_word) * 2^-32 + 2^-33 in (0, 1], radius = sqrt(-2 log u), angle = angle_word * 2^-32
///   turns, first = radius * cos(angle), second = radius * sin(angle).
/// The radius ends at 6.77, so a tail of probability 2^-33 is missing. Each value is within 5 ulp of the
/// formula.
///
/// The same bits on every device, because every product is rounded before it meets a sum, as in the
/// functions of kernels/math/math.h that are used here. (An explicit fma would do too, but is a slow call on
/// processors without one.)
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE NormalPair normal_pair(std::uint32_t radius_word,
                                                                  std::uint32_t angle_word) noexcept {
  using namespace math::detail;
  const float u = mul_add(static_cast<float>(radius_word), 0x1p-32F, 0x1p-33F);
  const float radius = math::sqrt(-2.0F * math::log(u));
  // Quarter turns come off as integers, so the angle loses nothing but its rounding to float.
  const std::uint32_t quadrant = (angle_word + (1U << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(angle_word - (quadrant << 30));
  const float r = static_cast<float>(rest) * 0x1.921fb6p-30F;  // pi/2 * 2^-30
  const auto turns = static_cast<std::int32_t>(quadrant);
  return {multiply(radius, sin_in_quadrant({r, turns + 1})), multiply(radius, sin_in_quadrant({r, turns}))};
}

}  // namespace mezzo::kernels
