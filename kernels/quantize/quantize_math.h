// The scale of float8 elements, once for the CPU's loops and CUDA's kernels.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/core/dtype.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// The largest value of a float8 dtype.
[[nodiscard]] MEZZO_HD constexpr float largest_of_float8(DType format) {
  return format == DType::f8_e4m3 ? 448.0F : 57344.0F;
}

struct Float8Scale {
  float scale = 1, inverse = 1;
};

/// The scale of elements of magnitude up to `amax`, which is not negative, or NaN. See quantize_float8.
[[nodiscard]] MEZZO_HD inline Float8Scale float8_scale(float amax, float largest, bool power_of_two) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (!(amax <= kLargest)) return {1, std::numeric_limits<float>::quiet_NaN()};
  float scale = amax > 0 ? largest / amax : 1.0F;
  if (scale > kLargest) scale = kLargest;
  if (power_of_two)
    scale = mezzo::detail::bit_cast<float>(mezzo::detail::bit_cast<std::uint32_t>(scale) & 0xff800000U);
  return {scale, 1.0F / scale};
}

/// The magnitude of `x` as an integer: of two numbers the larger has the larger one, and NaN beats all.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint32_t magnitude_bits(float x) {
  return mezzo::detail::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

}  // namespace mezzo::kernels
