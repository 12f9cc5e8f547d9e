// Bilinear's checks of sizes and the uniform values it begins with; forward calls the op bilinear.
#include "mezzo/nn/bilinear.h"

#include "mezzo/core/error.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/tensor_product.h"

namespace mezzo::nn {

namespace {

/// out_features, in1_features, in2_features; ValueError unless all are at least 1.
Shape checked(const Shape& shape) {
  for (const std::int64_t size : shape) {
    if (size > 0) continue;
    throw ValueError("Bilinear", "out_features, in1_features and in2_features of at least 1",
                     to_string(shape), "check the layer's sizes");
  }
  return shape;
}

}  // namespace

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const BilinearOptions& options)
    : weight(*this, "weight",
             detail::unfilled(true, checked({out_features, in1_features, in2_features}), options)),
      bias(*this, "bias", detail::unfilled(options.bias, {out_features}, options)),
      in1_features_(in1_features),
      in2_features_(in2_features),
      out_features_(out_features) {
  reset_parameters(detail::or_default(options.generator));
}

void Bilinear::reset_parameters(Generator& generator) {
  detail::fill_uniform(weight, bias, in1_features_, generator);
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) {
  detail::require_last(*this, a, in1_features_, "in1_features");
  detail::require_last(*this, b, in2_features_, "in2_features");
  return bilinear(a, b, weight, bias);
}

std::string Bilinear::extra_repr() const {
  return "in1_features=" + std::to_string(in1_features_) + ", in2_features=" + std::to_string(in2_features_) +
         ", out_features=" + std::to_string(out_features_) + ", bias=" + detail::bool_text(bias.defined());
}

}  // namespace mezzo::nn
