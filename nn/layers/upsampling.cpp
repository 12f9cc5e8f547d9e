// Upsample and PixelShuffle are one call each.
#include "mezzo/nn/upsampling.h"

#include "mezzo/core/value.h"
#include "mezzo/ops/rearrange.h"

namespace mezzo::nn {

Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_); }
std::string Upsample::extra_repr() const {
  const std::string sizes = options_.size.empty()
                                ? "scale_factor=" + options_.scale_factor.to_value().to_string()
                                : "size=" + to_string(options_.size);
  const auto mode = static_cast<std::size_t>(options_.mode);
  return sizes + ", mode=" + std::string(kEnumNames<InterpolateMode>[mode]);
}

Tensor PixelShuffle::forward(const Tensor& x) { return pixel_shuffle(x, upscale_factor_); }
std::string PixelShuffle::extra_repr() const { return "upscale_factor=" + std::to_string(upscale_factor_); }

}  // namespace mezzo::nn
