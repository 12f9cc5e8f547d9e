// What a trial run changes of a training, for find_lr and Trainer::advise.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/module/evaluation.h"
#include "mezzo/ops/cast.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

enum class GradientsAfter : std::uint8_t { as_before, none };

/// The values of model, optimizer, default generator and place of the loader, as they are when it is made.
class Snapshot {
 public:
  explicit Snapshot(const TrainerOptions& options) : modes_(*options.model.module()) {
    const NoGrad no_grad;
    parts_ = options.optimizer.parts();
    parts_.emplace_back("model", *options.model.module());
    parts_.emplace_back("random", default_generator());
    if (auto* const loader = options.train_loader->base()) parts_.emplace_back("loader", *loader);
    for (const Part& part : parts_) {
      PartState& state = states_.emplace_back(part.access().save());
      for (auto& [name, tensor] : state.tensors) tensor = clone(tensor.detach());
    }
    for (const Tensor& parameter : options.model.module()->parameters())
      parameters_.push_back({parameter, parameter.grad(), parameter.requires_grad()});
  }

  /// Steps begin without gradients, so that those of before are not added to.
  void drop_gradients() const {
    for (const Parameter& parameter : parameters_) parameter.tensor.set_grad({});
  }
  void restore(GradientsAfter gradients) const {
    drop_gradients();
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].access().load(states_[i]);
    modes_.restore();
    for (const auto& [tensor, gradient, requires_grad] : parameters_) {
      Tensor(tensor).requires_grad_(requires_grad);
      if (gradients == GradientsAfter::as_before) tensor.set_grad(gradient);
    }
  }

 private:
  struct Parameter {
    Tensor tensor, gradient;
    bool requires_grad;
  };
  nn::ModuleModes modes_;
  Parts parts_;
  std::vector<PartState> states_;
  std::vector<Parameter> parameters_;
};

}  // namespace mezzo::train
