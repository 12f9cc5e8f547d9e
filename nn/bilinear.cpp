#include "mezzo/nn/bilinear.h"

#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/tensor_product.h"

namespace mezzo::nn {

namespace {

/// A tensor of a shape of sizes of at least 1.
Tensor unfilled(const Shape& shape, const BilinearOptions& options) {
  for (const std::int64_t size : shape) {
    if (size > 0) continue;
    throw ValueError("Bilinear", "out_features, in1_features and in2_features of at least 1",
                     to_string(shape), "check the layer's sizes");
  }
  return empty(shape, {.dtype = options.dtype, .device = options.device});
}

void require_last(const Module& layer, const Tensor& x, std::int64_t size, const char* name) {
  if (!x.defined() || (x.dim() > 0 && x.shape().back() == size)) return;  // the op refuses undefined tensors
  throw ShapeError(layer.described(), "a last dim of " + std::to_string(size) + " (" + name + ")",
                   to_string(x.shape()), "check the layer before, or this one's sizes");
}

}  // namespace

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const BilinearOptions& options)
    : weight(*this, "weight", unfilled({out_features, in1_features, in2_features}, options)),
      bias(*this, "bias", options.bias ? unfilled({out_features}, options) : Tensor()),
      in1_features_(in1_features),
      in2_features_(in2_features),
      out_features_(out_features) {
  reset_parameters(options.generator != nullptr ? *options.generator : default_generator());
}

void Bilinear::reset_parameters(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features_));
  init::uniform_(weight, -bound, bound, generator);
  if (bias.defined()) init::uniform_(bias, -bound, bound, generator);
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) {
  require_last(*this, a, in1_features_, "in1_features");
  require_last(*this, b, in2_features_, "in2_features");
  return bilinear(a, b, weight, bias);
}

std::string Bilinear::extra_repr() const {
  return "in1_features=" + std::to_string(in1_features_) + ", in2_features=" + std::to_string(in2_features_) +
         ", out_features=" + std::to_string(out_features_) + ", bias=" + (bias.defined() ? "true" : "false");
}

}  // namespace mezzo::nn
