// How a convolution is cut into parts for the threads. It depends on sizes only, so that the bits of a result
// do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/kernels/conv/cpu_part.h"

namespace mezzo::kernels::cpu {

/// The batch in blocks of `images`, of which the last may be smaller, and the channels in `channel_parts`
/// equal parts: whole groups, or, of a single group, the channels of what is computed (of a weight's
/// gradient: output channels). Every pair of them is one part; of weight gradients, `blocks_per_part` blocks
/// are, which are added up.
struct ConvCut {
  std::int64_t batch, images, blocks_per_part, channel_parts;

  [[nodiscard]] std::int64_t blocks() const { return (batch + images - 1) / images; }
  [[nodiscard]] std::int64_t image_parts() const {
    return (blocks() + blocks_per_part - 1) / blocks_per_part;
  }
};

/// Multiplications of each of the three maps, those with padding too.
[[nodiscard]] double conv_products(const ConvShape& shape);

/// The cut for a convolution without empty dims, computed in elements of `element_size` bytes.
[[nodiscard]] ConvCut cut_convolution(ConvMap map, const ConvShape& shape, std::size_t element_size);

/// The sizes of a part of so many images.
[[nodiscard]] ConvShape part_of(ConvMap map, const ConvShape& shape, std::int64_t images,
                                std::int64_t channel_parts);

}  // namespace mezzo::kernels::cpu
