// Residual does not broadcast: the results of both ways must have one shape.
#include "mezzo/nn/residual.h"

#include "mezzo/core/error.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

Residual::Residual(std::shared_ptr<Layer> inner_in, std::shared_ptr<Layer> shortcut_in)
    : inner(*this, "inner", std::move(inner_in)), shortcut(*this, "shortcut", std::move(shortcut_in)) {
  if (inner) return;
  throw ValueError("Residual", "an inner layer", "a null pointer", "create layers with nn::make");
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = inner(x);
  const Tensor around = shortcut ? shortcut(x) : x;
  if (y.shape() != around.shape()) {
    throw ShapeError(described(), "one shape for both ways",
                     to_string(y.shape()) + " through inner, " + to_string(around.shape()) + " around it",
                     "give it a shortcut layer that brings the input to inner's result");
  }
  return add(around, y);
}

}  // namespace mezzo::nn
