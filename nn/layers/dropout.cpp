// What dropout layers check. Channel dropout draws one mask value per channel of each sample, which
// broadcasts over the spatial dims.
#include "mezzo/nn/dropout.h"

#include "mezzo/core/error.h"
#include "mezzo/nn/layers/layer_support.h"

namespace mezzo::nn {

DropoutLayer::DropoutLayer(std::string_view name, double p, Generator* generator)
    : p_(p), generator_(generator) {
  if (!(p >= 0 && p <= 1))
    throw ValueError(name, "a probability p in [0, 1]", Value(p).to_string(), "p is the part that is zeroed");
}

Generator& DropoutLayer::generator() const { return detail::or_default(generator_); }

template <int kSpatial>
ChannelDropout<kSpatial>::ChannelDropout(double p, Generator* generator)
    : DropoutLayer("Dropout" + std::to_string(kSpatial) + "d", p, generator) {}

template <int kSpatial>
Tensor ChannelDropout<kSpatial>::forward(const Tensor& x) {
  constexpr std::size_t kLeast = kSpatial + 1;
  if (x.defined() && x.shape().size() != kLeast && x.shape().size() != kLeast + 1) {
    throw ShapeError(described(),
                     "an input of " + std::to_string(kLeast + 1) + " dims, or " + std::to_string(kLeast) +
                         " for one sample",
                     to_string(x.shape()), "use the layer for that number of dims, or Dropout");
  }
  if (!x.defined() || !is_training() || p() == 0) return dropout(x, p(), false);
  Shape channels = x.shape();
  std::fill(channels.end() - kSpatial, channels.end(), 1);
  return dropout(x, random_mask(1 - p(), channels, x.device(), generator()), p());
}

template class ChannelDropout<1>;
template class ChannelDropout<2>;
template class ChannelDropout<3>;

}  // namespace mezzo::nn
