// The modes of grid_sample, as its options and its kernels name them. Apart from the arithmetic of
// kernels/resample/grid_sample.h, which programs need not parse.
#pragma once

#include <cstdint>

namespace mezzo {

/// How a value between places is made: from the places around it, or of the nearest one (ties to even).
enum class GridSampleMode : std::uint8_t { bilinear, nearest };
/// The values outside of the image: zeros, the nearest place at the edge, or the inside mirrored at the edge.
enum class GridPadding : std::uint8_t { zeros, border, reflection };

}  // namespace mezzo
