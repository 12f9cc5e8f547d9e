// The errors that layers share: a size below 1, a number of layers that cannot be meant, and an input whose
// last dim does not fit; and the values that most weights begin with.
#include "mezzo/nn/layers/layer_support.h"

#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/nn/init.h"

namespace mezzo::nn {

std::int64_t detail::at_least_one(std::string_view layer, std::string_view what, std::int64_t size) {
  if (size > 0) return size;
  throw ValueError(layer, std::string(what) + " of at least 1", std::to_string(size),
                   "check the layer's sizes");
}

std::int64_t detail::number_of_layers(std::string_view module, std::int64_t count) {
  constexpr std::int64_t kMost = 65536;
  if (count >= 1 && count <= kMost) return count;
  throw ValueError(module, "num_layers of at least 1 and at most " + std::to_string(kMost),
                   std::to_string(count), "check the model's sizes");
}

void detail::require_last(const Module& layer, const Tensor& x, std::int64_t size, std::string_view what) {
  if (!x.defined() || (x.dim() > 0 && x.shape().back() == size)) return;
  throw ShapeError(layer.described(),
                   "a last dim of " + std::to_string(size) + " (" + std::string(what) + ")",
                   to_string(x.shape()), "check the layer before, or this one's sizes");
}

void detail::fill_uniform(const Param& weight, const Param& bias, std::int64_t fan, Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan));
  init::uniform_(weight, -bound, bound, generator);
  if (bias.defined()) init::uniform_(bias, -bound, bound, generator);
}

}  // namespace mezzo::nn
