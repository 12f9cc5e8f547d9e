// What the CPU's update reads and writes as whole arrays: FastPhilox's random words as their halves, for
// loops that use many, and tiles of moments in 8 bits.
#pragma once

#include <cstdint>

#include "mezzo/core/random/philox.h"

namespace mezzo::kernels::cpu {

/// How many more blocks than asked for philox_halves may write.
inline constexpr std::int64_t kMorePhiloxBlocks = 7;

/// halves[8 b + k] = half k of the words of block `first` + b of a stream, the low half of each word first,
/// for b in [0, blocks). Serial.
void philox_halves(PhiloxKey key, std::uint64_t first, std::uint64_t stream, std::int64_t blocks,
                   std::uint16_t* halves);

/// values[i] = the moment with codes[i]; `scales` has one number for each 256 of them.
void read_moments(const std::uint8_t* codes, const float* scales, bool has_sign, float* values,
                  std::int64_t n);
/// The reverse: new scales and codes. Overwrites `values`.
void write_moments(float* values, bool has_sign, std::uint8_t* codes, float* scales, std::int64_t n);

}  // namespace mezzo::kernels::cpu
