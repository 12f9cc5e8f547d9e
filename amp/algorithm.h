// Algorithms: changes that a training loop makes to its model at certain points, so that a recipe is a list
// of them.
//   if (algorithm.match(Event::init)) std::cout << algorithm.apply(Event::init, state);
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/amp/norm_surgery.h"

namespace mezzo::amp {

/// The points at which a training loop asks its algorithms, in this order.
enum class Event : std::uint8_t {
  init,         ///< model and optimizers are there and on their device
  before_load,  ///< before a checkpoint is loaded, or would be
  after_load,   ///< after a checkpoint was loaded, or would have been
};

/// The state that a training loop hands to algorithms.
struct TrainingState {
  nn::Module& model;
  NormPrecision precision = {};
  Optimizers optimizers = {};
};

/// One step of a recipe.
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  /// The name of the class: "LowPrecisionLayerNorm".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether it is to be applied at this point.
  [[nodiscard]] virtual bool match(Event event) const = 0;
  /// Does its work and reports it.
  virtual nn::surgery::Report apply(Event event, TrainingState& state) = 0;
  /// Whether it has to be applied again when a checkpoint is loaded, for the model to behave as it did when
  /// it was saved.
  [[nodiscard]] virtual bool required_on_load() const { return false; }
};

namespace algorithms {

/// Options of the algorithms on norms.
struct NormAlgorithmOptions {
  Event apply_at = Event::init;
  NormSurgeryOptions surgery = {};
};

/// Base of the three algorithms: each matches one event, an argument of the constructor (ValueError for one
/// that does not exist), is required on load, and calls a function of amp/norm_surgery.h. State dicts have
/// the same names before and after, so that it makes no difference when a checkpoint was saved.
class NormAlgorithm : public Algorithm {
 public:
  [[nodiscard]] bool match(Event event) const override { return event == options_.apply_at; }
  [[nodiscard]] bool required_on_load() const override { return true; }

 protected:
  NormAlgorithm(std::string_view name, const NormAlgorithmOptions& options);
  [[nodiscard]] const NormSurgeryOptions& surgery() const noexcept { return options_.surgery; }

 private:
  NormAlgorithmOptions options_;
};

/// apply_low_precision_layernorm.
class LowPrecisionLayerNorm final : public NormAlgorithm {
 public:
  explicit LowPrecisionLayerNorm(const NormAlgorithmOptions& options = {});
  [[nodiscard]] std::string name() const override { return "LowPrecisionLayerNorm"; }
  nn::surgery::Report apply(Event event, TrainingState& state) override;
};

/// apply_low_precision_groupnorm.
class LowPrecisionGroupNorm final : public NormAlgorithm {
 public:
  explicit LowPrecisionGroupNorm(const NormAlgorithmOptions& options = {});
  [[nodiscard]] std::string name() const override { return "LowPrecisionGroupNorm"; }
  nn::surgery::Report apply(Event event, TrainingState& state) override;
};

/// apply_fused_layernorm.
class FusedLayerNorm final : public NormAlgorithm {
 public:
  explicit FusedLayerNorm(const NormAlgorithmOptions& options = {});
  [[nodiscard]] std::string name() const override { return "FusedLayerNorm"; }
  nn::surgery::Report apply(Event event, TrainingState& state) override;
};

}  // namespace algorithms
}  // namespace mezzo::amp
