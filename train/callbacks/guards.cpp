// Callbacks that end a training: EarlyStopping, AnomalyHunt.
#include <cmath>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/train/callbacks.h"

namespace mezzo::train::callbacks {

// --- EarlyStopping

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {
  if (options.patience < 1)
    throw ValueError("EarlyStopping", "a patience of at least 1", std::to_string(options.patience),
                     "3 evaluations are usual");
  if (!(options.min_delta >= 0 && std::isfinite(options.min_delta)))
    throw ValueError("EarlyStopping", "a min_delta that is finite and not negative",
                     number_text(options.min_delta), "0 counts every change");
}

void EarlyStopping::run(Event /*event*/, State& state) {
  if (!state.is_own_evaluation()) return;
  const double value = detail::result_of("EarlyStopping", state.eval_results, options_.metric);
  if (state.time.batch == last_batch_) return;
  last_batch_ = state.time.batch;
  const double gain = options_.mode == Best::lowest ? best_ - value : value - best_;
  if (has_best_ ? gain > options_.min_delta : !std::isnan(value)) {
    has_best_ = true;
    best_ = value;
    waited_ = 0;
  } else if (++waited_ >= options_.patience) {
    state.stop_training();
  }
}

Parts EarlyStopping::parts() {
  return {{"has_best", has_best_}, {"best", best_}, {"waited", waited_}, {"last_batch", last_batch_}};
}

// --- AnomalyHunt

AnomalyHunt::AnomalyHunt(const AnomalyHuntOptions& options) : options_(options) {
  if (options.patience < 1)
    throw ValueError("AnomalyHunt", "a patience of at least 1", std::to_string(options.patience),
                     "10 steps are usual");
  if (options.every < 1)
    throw ValueError("AnomalyHunt", "every of at least 1", std::to_string(options.every), "1 is each batch");
}

void AnomalyHunt::count(const State& state) {
  const NoGrad no_grad;
  const Tensor made = optim::detail::was_made(state.step_result);
  const Tensor bad = logical_not(made.defined() ? made : isfinite(state.loss));
  if (!run_.defined()) {
    run_ = zeros({}, {.dtype = DType::i64, .device = bad.device()});
    longest_ = zeros_like(run_);
  }
  run_ = where(bad, run_ + 1, 0);
  longest_ = maximum(longest_, run_);
}

void AnomalyHunt::run(Event event, State& state) {
  if (event == Event::fit_start) {
    run_ = longest_ = {};
    watches_ = false;
    watch_.reset();
  } else if (event == Event::batch_start) {
    watch_.reset();
    if (watches_) watch_ = std::make_unique<DetectAnomaly>(autograd::AnomalyOptions{.throws = false});
  } else if (event == Event::batch_end) {
    const std::unique_ptr<DetectAnomaly> watch = std::exchange(watch_, nullptr);
    look(state, watch ? watch->found() : std::nullopt);
  } else if (run_.defined()) {
    const auto bad_steps = run_.item<std::int64_t>();
    if (bad_steps >= options_.patience) report(state, bad_steps, {});
  }
}

void AnomalyHunt::look(State& state, const std::optional<autograd::Anomaly>& anomaly) {
  count(state);
  if (std::exchange(watches_, false)) {
    const auto bad_steps = run_.item<std::int64_t>();
    if (bad_steps > 0) report(state, bad_steps, anomaly);
  } else if (state.time.batch % options_.every == 0) {
    watches_ = longest_.item<std::int64_t>() >= options_.patience;
    longest_ = zeros_like(longest_);
  }
}

namespace {

/// "; 'fc.weight' ...": the first parameter that is not finite, or whose gradient was not.
std::string first_parameter(const State& state) {
  if (state.optimizer != nullptr) {
    if (const auto i = state.step_result.first_nonfinite())
      return "; first in the gradient of '" + state.optimizer->parameter_name(*i) + "'";
  }
  const NoGrad no_grad;
  for (const auto& [name, parameter] : state.model.named_parameters()) {
    if (!all(isfinite(parameter)).item<bool>()) return "; the parameter '" + name + "' is not finite either";
  }
  return "";
}

}  // namespace

void AnomalyHunt::report(State& state, std::int64_t bad_steps,
                         const std::optional<autograd::Anomaly>& anomaly) {
  const std::string what = std::to_string(bad_steps) + " steps in a row without, up to batch " +
                           std::to_string(state.time.batch) + first_parameter(state) +
                           (anomaly ? "; " + anomaly->text() : "");
  const AutogradError error("AnomalyHunt", "finite losses and gradients", what,
                            "lower the learning rate, clip gradients, or look at the data");
  if (options_.throws) throw error;
  state.logger().text("anomaly", error.what());
  state.stop_training();
}

}  // namespace mezzo::train::callbacks
