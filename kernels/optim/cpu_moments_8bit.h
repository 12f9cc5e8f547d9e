// Tiles of moments in 8 bits.
#pragma once

#include <cstdint>

namespace mezzo::kernels::cpu {

/// values[i] = the moment with codes[i]; `scales` has one number for each 256 of them.
void read_moments(const std::uint8_t* codes, const float* scales, bool has_sign, float* values,
                  std::int64_t n);
/// The reverse: new scales and codes. Overwrites `values`.
void write_moments(float* values, bool has_sign, std::uint8_t* codes, float* scales, std::int64_t n);

}  // namespace mezzo::kernels::cpu
