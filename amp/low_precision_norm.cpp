// The norm layers of amp/norm_surgery.h: which dtypes they choose inside of an autocast region.
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/norm_surgery.h"
#include "mezzo/ops/norm.h"

namespace mezzo::amp {

namespace {

/// norm(x, weight, bias) of tensors in the region's dtype, the parameters as `kept` says, with autocast off.
template <class Norm>
Tensor in_region(const Tensor& x, const Tensor& weight, const Tensor& bias, NormParameters kept,
                 const Norm& norm) {
  const auto parameter = [&](const Tensor& tensor) {
    return kept == NormParameters::autocast ? cast_to_region(tensor) : tensor;
  };
  const Tensor in = cast_to_region(x), factors = parameter(weight), summands = parameter(bias);
  const Autocast off(x.device(), {}, {.enabled = false});
  return norm(in, factors, summands);
}

std::string parameters_repr(NormParameters parameters) {
  return parameters == NormParameters::f32 ? ", parameters=f32" : "";
}

}  // namespace

LPLayerNorm::LPLayerNorm(const nn::LayerNorm& original, NormParameters parameters)
    : nn::LayerNorm(original, nn::ShareTensors{}), parameters_(parameters) {}

Tensor LPLayerNorm::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return nn::LayerNorm::forward(x);
  require_shape(x);
  return in_region(x, weight, bias, parameters_,
                   [this](const Tensor& in, const Tensor& factors, const Tensor& summands) {
                     return layer_norm(in, normalized_shape(), factors, summands, eps());
                   });
}

std::string LPLayerNorm::extra_repr() const {
  return nn::LayerNorm::extra_repr() + parameters_repr(parameters_);
}

LPGroupNorm::LPGroupNorm(const nn::GroupNorm& original, NormParameters parameters)
    : nn::GroupNorm(original, nn::ShareTensors{}), parameters_(parameters) {}

Tensor LPGroupNorm::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return nn::GroupNorm::forward(x);
  require_channels(x);
  return in_region(x, weight, bias, parameters_,
                   [this](const Tensor& in, const Tensor& factors, const Tensor& summands) {
                     return group_norm(in, num_groups(), factors, summands, eps());
                   });
}

std::string LPGroupNorm::extra_repr() const {
  return nn::GroupNorm::extra_repr() + parameters_repr(parameters_);
}

FusedLayerNorm::FusedLayerNorm(const nn::LayerNorm& original) : nn::LayerNorm(original, nn::ShareTensors{}) {}

Tensor FusedLayerNorm::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return nn::LayerNorm::forward(x);
  require_shape(x);
  return layer_norm(x, normalized_shape(), weight, bias, eps(), autocast_dtype(x.device().type));
}

}  // namespace mezzo::amp
