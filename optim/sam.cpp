// The move to the worst point near the weights, and back.
#include "mezzo/optim/sam.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/optim/clip.h"

namespace mezzo::optim {

SAM::SAM(Optimizer& optimizer, const SAMOptions& options) : optimizer_(optimizer), options_(options) {
  require_not_negative("SAM", {{"rho", options.rho}});
}

void SAM::ascend() {
  if (!origin_.empty())
    throw StateError("SAM.ascend", "weights where they were", "moved ones", "call restore() first");
  const NoGrad no_grad;
  const InputHookGuard no_autocast{InputHookState{}};
  std::vector<Tensor> parameters, directions;
  for (const Tensor& parameter : optimizer_.parameters()) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    gradient = to(gradient.detach(), compute_dtype(gradient.dtype()));
    parameters.push_back(parameter);
    directions.push_back(options_.adaptive ? mul(gradient, abs(to(parameter.detach(), gradient.dtype())))
                                           : gradient);
  }
  if (parameters.empty())
    throw StateError("SAM.ascend", "parameters with gradients", "none", "call backward() on a loss first");
  constexpr double kLeastNorm = 1e-12;
  const Tensor scale = div(Scalar(options_.rho), add(get_total_norm(directions), kLeastNorm));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor weight = parameters[i].detach();
    Tensor move = mul(directions[i], to(scale, directions[i].dtype()));
    if (options_.adaptive) move = mul(move, abs(to(weight, move.dtype())));
    origin_.emplace_back(parameters[i], clone(weight));
    parameters[i].copy_(add(to(weight, move.dtype()), move));
  }
}

void SAM::restore() {
  if (origin_.empty())
    throw StateError("SAM.restore", "weights that ascend() has moved", "others", "call ascend() first");
  const NoGrad no_grad;
  for (const auto& [parameter, weight] : origin_) parameter.copy_(weight);
  origin_.clear();
}

Tensor SAM::step(const mezzo::detail::Function<Tensor()>& closure) {
  if (!closure)
    throw ValueError("SAM.step", "a closure", "an empty function", "pass one that returns the loss");
  const EnableGrad recording;
  Tensor loss = closure();
  ascend();
  try {
    static_cast<void>(closure());
  } catch (...) {
    restore();
    throw;
  }
  restore();
  optimizer_.step();
  return loss;
}

}  // namespace mezzo::optim
