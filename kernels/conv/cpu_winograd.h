// 3 x 3 convolutions of stride 1 by Winograd's F(4 x 4, 3 x 3) as an engine (cpu_part.h): a quarter of the
// multiplications.
#pragma once

#include <memory>

#include "mezzo/kernels/conv/cpu_part.h"

namespace mezzo::kernels::cpu {

/// Whether a convolution whose numbers are computed in f32 goes this way: where it was faster than direct
/// convolutions on all processors that it was measured on, while allowed (conv.h), and while nobody named an
/// engine of products. `has_bf16_engine`: the direct way would be by the processor's own products of bf16.
[[nodiscard]] bool is_by_winograd(ConvMap map, const ConvShape& shape, bool has_bf16_engine);

/// The engine for parts of a convolution that goes this way.
[[nodiscard]] std::shared_ptr<const ConvEngine<float>> conv_winograd(ConvMap map, const ConvShape& part);

/// The most parts of the images that leave each tiles enough, since every part reads all weights.
[[nodiscard]] std::int64_t winograd_image_parts(const ConvShape& shape);

}  // namespace mezzo::kernels::cpu
