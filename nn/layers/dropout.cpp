// Dropout calls the op dropout. Channel dropout draws one mask value per channel of each sample, which
// broadcasts over the spatial dims.
#include "mezzo/nn/dropout.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/random.h"

namespace mezzo::nn {

namespace {

double checked(const Layer& layer, double p) {
  if (p >= 0 && p <= 1) return p;
  throw ValueError(layer.type_name(), "a probability p in [0, 1]", Value(p).to_string(),
                   "p is the part that is zeroed");
}

}  // namespace

Dropout::Dropout(double p, Generator* generator) : p_(checked(*this, p)), generator_(generator) {}

Tensor Dropout::forward(const Tensor& x) {
  return dropout(x, p_, is_training(), detail::or_default(generator_));
}

std::string Dropout::extra_repr() const { return "p=" + Value(p_).to_string(); }

AlphaDropout::AlphaDropout(double p, Generator* generator) : p_(checked(*this, p)), generator_(generator) {}

Tensor AlphaDropout::forward(const Tensor& x) {
  return alpha_dropout(x, p_, is_training(), detail::or_default(generator_));
}

std::string AlphaDropout::extra_repr() const { return "p=" + Value(p_).to_string(); }

FeatureAlphaDropout::FeatureAlphaDropout(double p, Generator* generator)
    : p_(checked(*this, p)), generator_(generator) {}

Tensor FeatureAlphaDropout::forward(const Tensor& x) {
  return feature_alpha_dropout(x, p_, is_training(), detail::or_default(generator_));
}

std::string FeatureAlphaDropout::extra_repr() const { return "p=" + Value(p_).to_string(); }

template <int kSpatial>
ChannelDropout<kSpatial>::ChannelDropout(double p, Generator* generator)
    : p_(checked(*this, p)), generator_(generator) {}

template <int kSpatial>
Tensor ChannelDropout<kSpatial>::forward(const Tensor& x) {
  constexpr std::size_t kLeast = kSpatial + 1;
  if (x.defined() && x.shape().size() != kLeast && x.shape().size() != kLeast + 1) {
    throw ShapeError(described(),
                     "an input of " + std::to_string(kLeast + 1) + " dims, or " + std::to_string(kLeast) +
                         " for one sample",
                     to_string(x.shape()), "use the layer for that number of dims, or Dropout");
  }
  if (!x.defined() || !is_training() || p_ == 0) return dropout(x, p_, false);
  Shape channels = x.shape();
  std::fill(channels.end() - kSpatial, channels.end(), 1);
  return dropout(x, random_mask(1 - p_, channels, x.device(), detail::or_default(generator_)), p_);
}

template <int kSpatial>
std::string ChannelDropout<kSpatial>::extra_repr() const {
  return "p=" + Value(p_).to_string();
}

template class ChannelDropout<1>;
template class ChannelDropout<2>;
template class ChannelDropout<3>;

}  // namespace mezzo::nn
