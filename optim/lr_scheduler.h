// Learning-rate schedulers: they set the rates of an optimizer's parameter groups step by step.
//   optim::CosineAnnealingLR scheduler(optimizer, {.T_max = 100});
//   for (...) { ...; scheduler.step(scaler.step(optimizer)); scaler.update(); }
// The rate is a function of the number of steps made (optim/schedule.h; formulas in optim/schedules.h), and
// both lie in device memory: a step that the scaler skips is not counted, nothing is read back, and a
// CapturedStep with the scheduler's step in it follows the schedule in its replays.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/kernels/optim/schedule_node.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/schedules.h"
#include "mezzo/optim/step_outcome.h"

namespace mezzo::optim {

/// Drives an optimizer by a schedule. It sets rates and does not multiply what it finds, so of two schedulers
/// of one optimizer the one stepped last prevails: combine schedules by ChainedScheduler or SequentialLR.
/// Groups that are added to the optimizer later are left alone. The optimizer has to outlive it.
class LRScheduler : mezzo::detail::NoCopy {
 public:
  /// Takes the learning rates as they are for the bases, and sets the rates of step 0. Throws: ValueError for
  /// options that do not fit the number of groups or rates that are not finite and >= 0, StateError for a
  /// schedule with momentum and an optimizer without; nothing has changed then.
  LRScheduler(Optimizer& optimizer, Schedule schedule);

  /// On to the next step. Throws: StateError, nothing having changed, before the first call of
  /// Optimizer::step since this was made (a replayed CapturedStep calls nothing: make the scheduler before it
  /// is captured); beyond the end of a OneCycleLR, where the host knows the number of steps (else the last
  /// rates stay); and while a graph is captured with a schedule that needs the host (LambdaLR without table).
  void step() { step(StepOutcome{}); }
  /// step() unless the optimizer's step was skipped: scheduler.step(scaler.step(optimizer)). Without a host
  /// read, except for a schedule that needs the host. Throws: DeviceError for the result of a step on another
  /// device.
  void step(const StepOutcome& outcome);

  /// Steps made; 0 for a new scheduler. One host read once a scaler's result was handed in or a step was
  /// captured into a graph; none before.
  [[nodiscard]] std::int64_t last_epoch() const;
  /// The learning rate of each group at that step, computed on the host: f64 cos and pow of a GPU may differ
  /// in the last bits. Host reads as last_epoch().
  [[nodiscard]] std::vector<double> get_last_lr() const;
  [[nodiscard]] std::vector<double> base_lrs() const;
  [[nodiscard]] const Schedule& schedule() const noexcept { return schedule_; }

  /// The name of the schedule, last_epoch and base_lrs. The schedule's own options are not in it.
  [[nodiscard]] Value state_dict() const;
  /// Continues at the saved step and sets its rates. Throws: StateError for a schedule of another name or
  /// another number of groups, ValueError for bad or missing values; nothing has changed then.
  void load_state_dict(const Value& state);

 private:
  /// Whether a graph is being captured on the device now.
  [[nodiscard]] bool recording() const;
  /// Groups and nodes into device memory.
  void upload();
  /// Counts and sets rates on the device unless the step was skipped.
  void advance(std::int64_t by, const StepOutcome& outcome) const;
  /// The rates of a step, checked. Throws: ValueError for what a user's function has made of them.
  [[nodiscard]] std::vector<kernels::Rates> rates_at(std::int64_t step) const;
  /// Sets rates_at(step) from the host.
  void set_rates(std::int64_t step);
  void step_on_host(const StepOutcome& outcome);
  [[nodiscard]] std::vector<kernels::ScheduledGroup> loaded_groups(std::string_view op,
                                                                   const Value& state) const;

  Optimizer& optimizer_;
  Schedule schedule_;
  Device device_;
  std::vector<kernels::ScheduledGroup> groups_;  ///< pointers are set once they lie on the device
  std::uint64_t calls_before_;                   ///< Optimizer::step_calls() when this was made
  std::int64_t steps_ = 0;                       ///< as far as the host knows ...
  bool steps_known_ = true;                      ///< ... and whether it does
  bool recorded_ = false;                        ///< a graph counts steps behind the host's back
  Tensor step_;                                  ///< i64, 0-dim: the count that advances
  Tensor groups_on_device_;                      ///< `groups_` as bytes
  std::vector<Tensor> memory_;                   ///< what their pointers point to
};

/// The scheduler of one kind of options.
template <class O>
class LRSchedulerOf final : public LRScheduler {
 public:
  using Options = O;
  /// Throws: ValueError for bad options, and what LRScheduler throws.
  LRSchedulerOf(Optimizer& optimizer, const Options& options) : LRScheduler(optimizer, options) {}
};

using ConstantLR = LRSchedulerOf<ConstantLROptions>;
using StepLR = LRSchedulerOf<StepLROptions>;
using MultiStepLR = LRSchedulerOf<MultiStepLROptions>;
using ExponentialLR = LRSchedulerOf<ExponentialLROptions>;
using CosineAnnealingLR = LRSchedulerOf<CosineAnnealingLROptions>;
using CosineAnnealingWarmRestarts = LRSchedulerOf<CosineAnnealingWarmRestartsOptions>;
using LinearLR = LRSchedulerOf<LinearLROptions>;
using LinearWarmup = LRSchedulerOf<LinearWarmupOptions>;
using WarmupCosine = LRSchedulerOf<WarmupCosineOptions>;
using WarmupStableDecay = LRSchedulerOf<WarmupStableDecayOptions>;
using PolynomialLR = LRSchedulerOf<PolynomialLROptions>;
using OneCycleLR = LRSchedulerOf<OneCycleLROptions>;
using LambdaLR = LRSchedulerOf<LambdaLROptions>;
using ChainedScheduler = LRSchedulerOf<ChainedSchedulerOptions>;
using SequentialLR = LRSchedulerOf<SequentialLROptions>;

}  // namespace mezzo::optim
