// A model as it is used: in evaluation mode and without recording, and afterwards as it was before.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// The modes of a model and all below it, which come back at its end.
class ModuleModes : mezzo::detail::NoCopy {
 public:
  explicit ModuleModes(Module& net) {
    for (const auto& [path, module] : net.named_modules()) modes_.emplace_back(module, module->is_training());
  }
  ~ModuleModes() { restore(); }
  void restore() const {
    // Parents come first, and `train` is for all below, so what differs then is put right by its own turn.
    for (const auto& [module, training] : modes_) {
      if (module->is_training() != training) module->train(training);
    }
  }

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

/// Evaluation mode of a model and all below it, without recording, for a scope. Its end restores the modes
/// and the state of the default generator.
class Evaluation : mezzo::detail::NoCopy {
 public:
  explicit Evaluation(Module& net) : modes_(net), numbers_(default_generator().state()) { net.eval(); }
  ~Evaluation() {
    if (!(default_generator().state() == numbers_)) default_generator().set_state(numbers_);
  }

 private:
  NoGrad no_grad_;
  ModuleModes modes_;
  GeneratorState numbers_;
};

}  // namespace mezzo::nn
