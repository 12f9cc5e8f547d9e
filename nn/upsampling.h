// Layers that make images larger. The functions are in ops/sampling.h (`interpolate`) and ops/rearrange.h
// (`pixel_shuffle`).
#pragma once

#include <string>

#include "mezzo/nn/module.h"
#include "mezzo/ops/sampling.h"

namespace mezzo::nn {

/// `interpolate` with fixed options: `nn::Upsample({.scale_factor = 2})`. forward throws what it throws.
class Upsample final : public Layer {
 public:
  using Options = InterpolateOptions;
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  InterpolateOptions options_;
};

/// `pixel_shuffle`: channels as finer images. forward throws what it throws.
class PixelShuffle final : public Layer {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor) : upscale_factor_(upscale_factor) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t upscale_factor_;
};

}  // namespace mezzo::nn
