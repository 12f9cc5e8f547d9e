// Integer division for indices, on either device: a header of its own because 64-bit division costs so much.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// a / b for numbers that are not negative, in 32 bits where they fit: a GPU takes a hundred instructions for
/// a 64-bit division.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

}  // namespace mezzo::kernels
