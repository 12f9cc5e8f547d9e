// FastPhilox's random words as an array of their halves, for loops that use many.
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

}  // namespace mezzo::kernels::cpu
