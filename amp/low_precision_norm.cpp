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

template <class Norm>
constexpr bool kIsLayerNorm = std::is_same_v<Norm, nn::LayerNorm>;

}  // namespace

template <class Norm>
Tensor LPNorm<Norm>::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return Norm::forward(x);
  if constexpr (kIsLayerNorm<Norm>)
    this->require_shape(x);
  else
    this->require_channels(x);
  return in_region(x, this->weight, this->bias, parameters_,
                   [this](const Tensor& in, const Tensor& factors, const Tensor& summands) {
                     if constexpr (kIsLayerNorm<Norm>)
                       return layer_norm(in, this->normalized_shape(), factors, summands, this->eps());
                     else
                       return group_norm(in, this->num_groups(), factors, summands, this->eps());
                   });
}

template <class Norm>
std::string LPNorm<Norm>::type_name() const {
  return kIsLayerNorm<Norm> ? "LPLayerNorm" : "LPGroupNorm";
}

template <class Norm>
std::string LPNorm<Norm>::extra_repr() const {
  return Norm::extra_repr() + (parameters_ == NormParameters::f32 ? ", parameters=f32" : "");
}

template class LPNorm<nn::LayerNorm>;
template class LPNorm<nn::GroupNorm>;

FusedLayerNorm::FusedLayerNorm(const nn::LayerNorm& original) : nn::LayerNorm(original, nn::ShareTensors{}) {}

Tensor FusedLayerNorm::forward(const Tensor& x) {
  if (!is_autocast_eligible(x)) return nn::LayerNorm::forward(x);
  require_shape(x);
  return layer_norm(x, normalized_shape(), weight, bias, eps(), autocast_dtype(x.device().type));
}

}  // namespace mezzo::amp
