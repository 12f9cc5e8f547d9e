// Algorithms on gradients, on which parameters have one, and on layers.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/nn/checkpoint.h"
#include "mezzo/optim/clip.h"
#include "mezzo/train/algorithms.h"
#include "mezzo/train/trainer/parallel.h"

namespace mezzo::train::algorithms {

GradientClipping::GradientClipping(const GradientClippingOptions& options) : options_(options) {
  if (options.norm.has_value() == options.value.has_value())
    throw ValueError("GradientClipping", "norm or value", options.norm ? "both" : "neither",
                     "{.norm = 1} is usual");
  const double limit = options.norm ? *options.norm : *options.value;
  if (!(limit >= 0))
    throw ValueError("GradientClipping", "a limit of at least 0", number_text(limit), "1 is usual");
  if (std::isnan(options.norm_type))
    throw ValueError("GradientClipping", "a norm_type that is a number", number_text(options.norm_type),
                     "2 is usual");
}

void GradientClipping::run(Event /*event*/, State& state) {
  const bool is_sharded = state.optimizer != nullptr && state.optimizer->is_sharded();
  const std::vector<Tensor> parameters =
      is_sharded ? state.optimizer->parameters() : state.model.parameters();
  if (options_.value) {
    optim::clip_grad_value_(parameters, *options_.value);
  } else {
    state.log("grad_norm", clip_gradients(state.optimizer, parameters, *options_.norm, options_.norm_type));
  }
}

LayerFreezing::LayerFreezing(const LayerFreezingOptions& options) : options_(options) {
  if (!(options.start >= 0 && options.start < 1))
    throw ValueError("LayerFreezing", "start in [0, 1)", number_text(options.start),
                     "0.5 is the middle of the training");
  if (!(options.level >= 0 && options.level <= 1))
    throw ValueError("LayerFreezing", "level in [0, 1]", number_text(options.level), "1 is all layers");
}

namespace {

/// The parameters that need a gradient, by the last module that holds them.
std::vector<std::vector<Tensor>> layers_of(nn::Module& model) {
  std::vector<std::vector<Tensor>> layers;
  std::unordered_map<const TensorImpl*, std::size_t> last;
  const auto modules = model.named_modules();
  for (const auto& [path, module] : modules) {
    const auto slots = module->param_slots();
    if (std::none_of(slots.begin(), slots.end(), [](const nn::Param* slot) { return slot->defined(); }))
      continue;
    for (const nn::Param* slot : slots) {
      if (slot->defined()) last[&slot->impl()] = layers.size();
    }
    layers.emplace_back();
  }
  for (const Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) layers[last.at(&parameter.impl())].push_back(parameter);
  }
  return layers;
}

}  // namespace

void LayerFreezing::run(Event event, State& state) {
  if (event == Event::init) {
    for (const auto& layer : layers_) {  // of another trainer
      for (const Tensor& parameter : layer) parameter.requires_grad_(true);
    }
    layers_ = layers_of(state.model);
    frozen_ = 0;
    return;
  }
  const auto count = static_cast<double>(layers_.size());
  const double part = options_.level * (state.progress() - options_.start) / (1 - options_.start);
  const double depth = std::clamp(std::floor(count * part), 0.0, std::max(count - 1, 0.0));
  const auto wanted = static_cast<std::int64_t>(depth);
  for (; frozen_ < wanted; ++frozen_) {
    for (const Tensor& parameter : layers_[static_cast<std::size_t>(frozen_)]) {
      parameter.set_grad({});
      parameter.requires_grad_(false);
    }
  }
  for (; frozen_ > wanted; --frozen_) {
    for (const Tensor& parameter : layers_[static_cast<std::size_t>(frozen_ - 1)])
      parameter.requires_grad_(true);
  }
}

// --- layers: norms in low precision, and nn::checkpoint_layers

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
