// Norms in low precision: surgery on the model and its optimizer.
#include "mezzo/core/error.h"
#include "mezzo/train/algorithms.h"

namespace mezzo::train::algorithms {

NormAlgorithm::NormAlgorithm(std::string_view name, Apply apply, const NormAlgorithmOptions& options)
    : apply_(apply), options_(options) {
  if (options.apply_at > Event::after_load)
    throw ValueError(name, "apply_at init, before_load or after_load",
                     "event " + std::to_string(static_cast<int>(options.apply_at)), "choose one of them");
}

void NormAlgorithm::run(Event /*event*/, State& state) {
  amp::Optimizers optimizers;
  if (state.optimizer != nullptr) optimizers.push_back(state.optimizer);
  state.logger().text(
      name(), nn::surgery::to_string(apply_(state.model, state.precision, optimizers, options_.surgery)));
}

}  // namespace mezzo::train::algorithms
