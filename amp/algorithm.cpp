// The three norm algorithms. Each checks its options and hands the training state to the call of
// amp/norm_surgery.h that does the work.
#include "mezzo/amp/algorithm.h"

#include "mezzo/core/error.h"

namespace mezzo::amp::algorithms {

NormAlgorithm::NormAlgorithm(std::string_view name, const NormAlgorithmOptions& options) : options_(options) {
  switch (options.apply_at) {
    case Event::init:
    case Event::before_load:
    case Event::after_load:
      return;
  }
  throw ValueError(name, "apply_at init, before_load or after_load",
                   "event " + std::to_string(static_cast<int>(options.apply_at)), "choose one of them");
}

LowPrecisionLayerNorm::LowPrecisionLayerNorm(const NormAlgorithmOptions& options)
    : NormAlgorithm("LowPrecisionLayerNorm", options) {}

nn::surgery::Report LowPrecisionLayerNorm::apply(Event /*event*/, TrainingState& state) {
  return apply_low_precision_layernorm(state.model, state.precision, state.optimizers, surgery());
}

LowPrecisionGroupNorm::LowPrecisionGroupNorm(const NormAlgorithmOptions& options)
    : NormAlgorithm("LowPrecisionGroupNorm", options) {}

nn::surgery::Report LowPrecisionGroupNorm::apply(Event /*event*/, TrainingState& state) {
  return apply_low_precision_groupnorm(state.model, state.precision, state.optimizers, surgery());
}

FusedLayerNorm::FusedLayerNorm(const NormAlgorithmOptions& options)
    : NormAlgorithm("FusedLayerNorm", options) {}

nn::surgery::Report FusedLayerNorm::apply(Event /*event*/, TrainingState& state) {
  return apply_fused_layernorm(state.model, state.precision, state.optimizers, surgery());
}

}  // namespace mezzo::amp::algorithms
