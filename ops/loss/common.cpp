// The shape checks of losses and of their gradients, and the 1 that stands for a weight left out.
#include "mezzo/ops/loss/common.h"

#include "mezzo/ops/factory.h"

namespace mezzo::ops {

void require_same_shape(std::string_view op, const Tensor& x, const Tensor& target) {
  if (x.shape() == target.shape()) return;
  throw ShapeError(op, "a target of the input's shape " + to_string(x.shape()), to_string(target.shape()),
                   "reshape or expand one of them");
}

void require_loss_grad(std::string_view op, const Tensor& grad, Reduction reduction, const Shape& shape) {
  const Shape expected = reduction == Reduction::none ? shape : Shape{};
  if (grad.shape() == expected) return;
  throw ShapeError(op, "a grad of the loss's shape " + to_string(expected), to_string(grad.shape()),
                   "pass the gradient of that loss");
}

Tensor weight_or_one(const Tensor& weight, const Tensor& like) {
  return weight.defined() ? weight : ones({}, {.device = like.device()});
}

}  // namespace mezzo::ops
