#include "mezzo/nn/linear.h"

#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/matmul.h"

namespace mezzo::nn {

namespace {

std::int64_t checked(const char* what, std::int64_t size) {
  if (size > 0) return size;
  throw ValueError("Linear", std::string(what) + " of at least 1", std::to_string(size),
                   "check the layer's sizes");
}

Tensor unfilled(const Shape& shape, const LinearOptions& options) {
  return empty(shape, {.dtype = options.dtype, .device = options.device});
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options)
    : weight(*this, "weight",
             unfilled({checked("out_features", out_features), checked("in_features", in_features)}, options)),
      bias(*this, "bias", options.bias ? unfilled({out_features}, options) : Tensor()),
      in_features_(in_features),
      out_features_(out_features) {
  reset_parameters(options.generator != nullptr ? *options.generator : default_generator());
}

void Linear::reset_parameters(Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(in_features_));
  init::uniform_(weight, -bound, bound, generator);
  if (bias.defined()) init::uniform_(bias, -bound, bound, generator);
}

Tensor Linear::forward(const Tensor& x) {
  if (x.dim() == 0 || x.shape().back() != in_features_) {
    throw ShapeError(described(), "a last dim of " + std::to_string(in_features_) + " (in_features)",
                     to_string(x.shape()), "check the layer before, or this one's sizes");
  }
  return linear(x, weight, bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features_) + ", out_features=" + std::to_string(out_features_) +
         ", bias=" + (bias.defined() ? "true" : "false");
}

}  // namespace mezzo::nn
