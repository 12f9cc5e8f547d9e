// The errors that layers share: a size below 1, and an input whose last dim does not fit.
#include "mezzo/nn/layers/layer_support.h"

#include "mezzo/core/error.h"

namespace mezzo::nn {

std::int64_t detail::at_least_one(std::string_view layer, std::string_view what, std::int64_t size) {
  if (size > 0) return size;
  throw ValueError(layer, std::string(what) + " of at least 1", std::to_string(size),
                   "check the layer's sizes");
}

void detail::require_last(const Module& layer, const Tensor& x, std::int64_t size, std::string_view what) {
  if (!x.defined() || (x.dim() > 0 && x.shape().back() == size)) return;
  throw ShapeError(layer.described(),
                   "a last dim of " + std::to_string(size) + " (" + std::string(what) + ")",
                   to_string(x.shape()), "check the layer before, or this one's sizes");
}

}  // namespace mezzo::nn
