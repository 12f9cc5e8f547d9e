// ActivationCheckpointing: nn::checkpoint_layers as an algorithm.
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/nn/checkpoint.h"
#include "mezzo/train/algorithms.h"

namespace mezzo::train::algorithms {

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
