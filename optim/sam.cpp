// The move to the worst point near the weights, and back.
#include "mezzo/optim/sam.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/clip.h"

namespace mezzo::optim {

SAM::SAM(Optimizer& optimizer, const SAMOptions& options) : optimizer_(optimizer), options_(options) {
  require_not_negative("SAM", {{"rho", options.rho}});
  if (optimizer.is_sharded()) {
    throw ValueError("SAM", "an optimizer of whole parameters", "a ShardedOptimizer",
                     "take the plain optimizer: the direction needs all gradients");
  }
}

void SAM::ascend() {
  if (!origin_.empty())
    throw StateError("SAM.ascend", "weights where they were", "moved ones", "call restore() first");
  const PlainOps plain;
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
  const Tensor norm = get_total_norm(directions);
  // Weights stay where a gradient is inf or NaN: forward at NaN would reach what restore() does not bring
  // back, running statistics for example.
  const Tensor is_sound = isfinite(norm), scale = div(Scalar(options_.rho), add(norm, kLeastNorm));
  std::vector<Tensor> moved;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor weight = to(parameters[i].detach(), directions[i].dtype());
    Tensor move = mul(directions[i], to(scale, directions[i].dtype()));
    if (options_.adaptive) move = mul(move, abs(weight));
    moved.push_back(add(weight, where(is_sound, move, 0)));
    origin_.emplace_back(parameters[i], clone(parameters[i].detach()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(moved[i]);
}

void SAM::restore() {
  if (origin_.empty())
    throw StateError("SAM.restore", "weights that ascend() has moved", "others", "call ascend() first");
  const NoGrad no_grad;
  for (const auto& [parameter, weight] : origin_) parameter.copy_(weight);
  origin_.clear();
}

Tensor SAM::step(const mezzo::detail::Function<Tensor()>& closure) {
  Tensor loss = evaluate(closure);
  optimizer_.step();
  return loss;
}

Tensor SAM::evaluate(const mezzo::detail::Function<Tensor()>& closure,
                     const mezzo::detail::Function<void()>& look) {
  if (!closure)
    throw ValueError("SAM.step", "a closure", "an empty function", "pass one that returns the loss");
  const EnableGrad recording;
  Tensor loss = closure();
  if (look) look();
  try {
    ascend();
    static_cast<void>(closure());
  } catch (...) {
    if (!origin_.empty()) restore();
    throw;
  }
  restore();
  return loss;
}

}  // namespace mezzo::optim
