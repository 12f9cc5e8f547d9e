#include "mezzo/amp/backward_watch.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/node.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"

namespace mezzo::amp {

void BackwardWatch::after_vjp(const autograd::Node& node, std::span<const Tensor> gradients) {
  if (found_) return;
  const NoGrad no_grad;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Tensor difference =
        sub(gradients[i].detach(), gradients[i].detach());  // 0 where finite, NaN elsewhere
    if (!any(ne(difference, 0.0)).item<bool>()) continue;
    found_ = Found{std::string(node.info.name.value), i};
    return;
  }
}

}  // namespace mezzo::amp
