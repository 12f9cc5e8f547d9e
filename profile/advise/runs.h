// The steps that are measured, and their times in turns. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/profile/advise/measurements.h"

namespace mezzo::amp::detail {

using Run = mezzo::detail::Function<void()>;

/// What is different about the steps of a model.
struct Variant {
  std::optional<DType> dtype = {};  ///< of the region; none: there is no region
  bool float8 = false;
  std::int64_t batches = 1;  ///< the batch so many times
  bool channels_last = false;
  enum class Norms : std::uint8_t { as_they_are, low_precision, fused } norms = Norms::as_they_are;
  bool without_parametrizations = false;
  bool with_optimizer = true;
};

/// Steps of a clone of a model.
class ModelStep : mezzo::detail::NoCopy {
 public:
  ModelStep(const AdvisedModel& model, const Variant& variant);
  void operator()();
  /// The loss times the scale, whose backward a step calls.
  [[nodiscard]] Tensor scaled_loss();
  [[nodiscard]] nn::Module& net() const noexcept { return *net_; }
  [[nodiscard]] GradScaler& scaler() noexcept { return scaler_; }
  [[nodiscard]] optim::Optimizer* optimizer() noexcept { return optimizer_ ? &*optimizer_ : nullptr; }

 private:
  const AdvisedModel& model_;
  Variant variant_;
  std::shared_ptr<nn::Module> net_;
  Tensor input_, target_;
  std::optional<optim::SGD> optimizer_;
  GradScaler scaler_;
};

/// Times of runs that take turns, so that what disturbs the machine disturbs all of them: for each run the
/// seconds of each turn.
[[nodiscard]] std::vector<std::vector<double>> seconds_in_turns(Device device, const std::vector<Run>& runs,
                                                                const AdviseOptions& options);
/// What else the machine does only adds to a turn.
[[nodiscard]] double shortest(const std::vector<double>& turns);
/// Sets before, after and is_above_noise of a trial.
void compare(Trial& trial, Device device, const Run& before, const Run& after, const AdviseOptions& options);

/// Tries what the measurements suggest; adds trials, batches, gradients and what could not be tried.
/// `autocast` is a step of the base; `model` may have no clone.
void make_trials(Measurements& measured, const AdvisedModel& model, const Run& autocast,
                 const AdviseOptions& options);

}  // namespace mezzo::amp::detail
