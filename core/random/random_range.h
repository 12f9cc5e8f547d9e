// The state of a random sequence, and ranges of it, as generators pass them to kernels.
#pragma once

#include <cstdint>

namespace mezzo {

/// Everything there is to know about a Generator; enough to continue bit for bit.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< index of the first Philox block not handed out yet
  friend constexpr bool operator==(const GeneratorState& a, const GeneratorState& b) {
    return a.seed == b.seed && a.offset == b.offset;
  }
};

/// Blocks for work on a device, from `first` on. Work captured into a CUDA graph reads at every replay where
/// its blocks begin: then `base` is in the device's memory, the seed is base->seed, and the first block is
/// base->offset + first.offset.
struct RandomRange {
  GeneratorState first;
  const GeneratorState* base = nullptr;
};

}  // namespace mezzo
