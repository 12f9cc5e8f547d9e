// The options of every learning-rate schedule, with torch.optim.lr_scheduler's names and defaults. Each turns
// into a Schedule, so that they can be combined:
//   SequentialLROptions{.schedulers = {LinearLROptions{.total_iters = 4}, CosineAnnealingLROptions{.T_max =
//   96}},
//                       .milestones = {4}}
// In the formulas t is the step, from 0, and `base` the learning rate that the schedule is applied to: the
// optimizer's, or in a chain what the schedule before has made of it. schedule() throws ValueError for the
// values that the fields' comments exclude; rates and factors are never negative, always finite.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "mezzo/optim/schedule.h"

namespace mezzo::optim {

/// Default of an option that has to be given.
inline constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();

/// base * factor for t < total_iters, then base.
struct ConstantLROptions {
  double factor = 1.0 / 3.0;     ///< in [0, 1]
  std::int64_t total_iters = 5;  ///< at least 1
  [[nodiscard]] Schedule schedule() const;
};

/// base * gamma^floor(t / step_size).
struct StepLROptions {
  std::int64_t step_size = 0;  ///< at least 1
  double gamma = 0.1;
  [[nodiscard]] Schedule schedule() const;
};

/// base * gamma^(number of milestones <= t).
struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};  ///< not decreasing; one given twice counts twice
  double gamma = 0.1;
  [[nodiscard]] Schedule schedule() const;
};

/// base * gamma^t.
struct ExponentialLROptions {
  double gamma = kRequired;
  [[nodiscard]] Schedule schedule() const;
};

/// eta_min + (base - eta_min) * (1 + cos(pi t / T_max)) / 2; rises again beyond T_max, as torch's does.
struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;  ///< at least 1
  double eta_min = 0;
  [[nodiscard]] Schedule schedule() const;
};

/// CosineAnnealingLR with t counted from the last restart, and T_max the length of the cycle: the first cycle
/// has T_0 steps, each next cycle T_mult times as many.
struct CosineAnnealingWarmRestartsOptions {
  std::int64_t T_0 = 0;     ///< at least 1
  std::int64_t T_mult = 1;  ///< at least 1
  double eta_min = 0;
  [[nodiscard]] Schedule schedule() const;
};

/// base * (start_factor + (end_factor - start_factor) * min(1, t / total_iters)).
struct LinearLROptions {
  double start_factor = 1.0 / 3.0;  ///< in (0, 1]
  double end_factor = 1.0;          ///< in [0, 1]
  std::int64_t total_iters = 5;     ///< at least 1
  [[nodiscard]] Schedule schedule() const;
};

/// base * min(1, (t + 1) / warmup_steps).
struct LinearWarmupOptions {
  std::int64_t warmup_steps = 0;  ///< at least 1
  [[nodiscard]] Schedule schedule() const;
};

/// base * (t + 1) / W for t < W = warmup_steps; then base * (m + (1 - m) * (1 + cos(pi p)) / 2) with m =
/// min_ratio and p = min(1, (t - W) / (total_steps - W)).
struct WarmupCosineOptions {
  std::int64_t warmup_steps = 0;  ///< at least 0
  std::int64_t total_steps = 0;   ///< above warmup_steps
  double min_ratio = 0;           ///< in [0, 1]
  [[nodiscard]] Schedule schedule() const;
};

/// How a rate falls, p being the part of the way that is done: 1 - p, (1 + cos(pi p)) / 2 or 1 - sqrt(p).
enum class DecayForm { linear, cosine, one_minus_sqrt };

/// base * (t + 1) / W for t < W = warmup_steps; base for stable_steps; then base * (m + (1 - m) * form(p))
/// with m = min_ratio and p = min(1, (t - W - stable_steps) / decay_steps).
struct WarmupStableDecayOptions {
  std::int64_t warmup_steps = 0;  ///< at least 0
  std::int64_t stable_steps = 0;  ///< at least 0
  std::int64_t decay_steps = 0;   ///< at least 1
  DecayForm decay = DecayForm::linear;
  double min_ratio = 0;  ///< in [0, 1]
  [[nodiscard]] Schedule schedule() const;
};

/// base * (1 - min(t, total_iters) / total_iters)^power.
struct PolynomialLROptions {
  std::int64_t total_iters = 5;  ///< at least 1
  double power = 1.0;            ///< at least 0
  [[nodiscard]] Schedule schedule() const;
};

/// How OneCycleLR goes from one rate to another: (1 + cos(pi p)) / 2 or 1 - p of the first.
enum class AnnealStrategy { cos, linear };

/// Smith's one-cycle policy, whatever `base` is. With initial = max_lr / div_factor and min = initial /
/// final_div_factor: initial -> max_lr up to t = pct_start * total_steps - 1, then -> min up to t =
/// total_steps - 1. With three_phase the way down is -> initial, as long as the way up, and -> min. Momentum
/// (beta1) goes the other way, max_momentum -> base_momentum -> max_momentum. Beyond its end the last values
/// hold; a scheduler is stepped total_steps times at most.
struct OneCycleLROptions {
  PerGroup<double> max_lr = {};      ///< required
  std::int64_t total_steps = 0;      ///< 0: epochs * steps_per_epoch
  std::int64_t epochs = 0;           ///< at least 1, with steps_per_epoch, unless total_steps is given
  std::int64_t steps_per_epoch = 0;  ///< likewise
  double pct_start = 0.3;            ///< in [0, 1]
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;             ///< needs an optimizer with momentum or beta1
  PerGroup<double> base_momentum = 0.85;  ///< in [0, 1)
  PerGroup<double> max_momentum = 0.95;   ///< in [0, 1)
  double div_factor = 25;                 ///< above 0
  double final_div_factor = 1e4;          ///< above 0
  bool three_phase = false;
  [[nodiscard]] Schedule schedule() const;
};

/// base * lr_lambda(t). The function is called on the host for every step: a scaler's result then costs one
/// host read, and a step cannot be captured into a graph. With `tabulate` = N it is called for t < N once and
/// for all, and the table lies on the device; its last value holds beyond.
struct LambdaLROptions {
  PerGroup<LrLambda> lr_lambda = {};  ///< required; results finite and not negative
  std::int64_t tabulate = 0;          ///< 0: no table; at most 2^24
  [[nodiscard]] Schedule schedule() const;
};

/// All schedules at once, each applied to the rate that those before it make: for factors (constant, linear,
/// step, exponential, polynomial, ...) their product. Unlike torch's, which multiplies the rate it finds from
/// step to step, this is a function of t for schedules with an eta_min too; torch's cosine schedules with
/// restarts, LambdaLR and OneCycleLR forget what came before them, here only OneCycleLR does.
struct ChainedSchedulerOptions {
  std::vector<Schedule> schedulers = {};  ///< at least one
  [[nodiscard]] Schedule schedule() const;
};

/// schedulers[i] for milestones[i - 1] <= t < milestones[i], with t counted from the milestone.
struct SequentialLROptions {
  std::vector<Schedule> schedulers = {};      ///< at least one
  std::vector<std::int64_t> milestones = {};  ///< one less, increasing, above 0
  [[nodiscard]] Schedule schedule() const;
};

}  // namespace mezzo::optim
