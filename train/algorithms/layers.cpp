// Algorithms on layers: norms in low precision, and nn::checkpoint_layers.
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/nn/checkpoint.h"
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

ActivationCheckpointing::ActivationCheckpointing(Matches matches) : matches_(std::move(matches)) {
  if (!matches_)
    throw ValueError("ActivationCheckpointing", "a function that chooses layers", "an empty one",
                     "ActivationCheckpointing::of<nn::TransformerEncoderLayer>(), say");
}

void ActivationCheckpointing::run(Event /*event*/, State& state) {
  if (nn::checkpoint_layers(state.model, matches_).empty())
    throw ValueError("ActivationCheckpointing", "at least one layer of the model", "none that it chooses",
                     "name a type of layer that the model has");
}

}  // namespace mezzo::train::algorithms
