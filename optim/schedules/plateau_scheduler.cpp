// The counters of ReduceLROnPlateau on the host: best metric, bad epochs, cooldown, and their state dict.
// A NaN metric and a call during a graph's capture are refused.
#include "mezzo/optim/plateau_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kPlateau = "ReduceLROnPlateau";
constexpr std::string_view kStepPlateau = "ReduceLROnPlateau.step";
constexpr std::string_view kLoadPlateau = "ReduceLROnPlateau.load_state_dict";

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, Options options)
    : optimizer_(optimizer), options_(std::move(options)), num_groups_(optimizer.num_groups()) {
  const auto require = [](bool good, const char* expected, double got) {
    require_option(kPlateau, good, expected, got);
  };
  require(options_.factor >= 0 && options_.factor < 1, "factor in [0, 1)", options_.factor);
  require(options_.patience >= 0, "patience >= 0", static_cast<double>(options_.patience));
  require(options_.cooldown >= 0, "cooldown >= 0", static_cast<double>(options_.cooldown));
  require(std::isfinite(options_.threshold) && options_.threshold >= 0, "threshold finite and >= 0",
          options_.threshold);
  require(options_.eps >= 0, "eps >= 0", options_.eps);
  options_.min_lr.require_groups(kPlateau, "min_lr", num_groups_);
  for (const double least : options_.min_lr.values())
    require(std::isfinite(least) && least >= 0, "min_lr finite and >= 0", least);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  best_ = options_.mode == PlateauMode::min ? kInfinity : -kInfinity;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool smaller = options_.mode == PlateauMode::min;
  const double margin = smaller ? -options_.threshold : options_.threshold;
  const double mark = options_.threshold_mode == ThresholdMode::rel ? best_ * (1 + margin) : best_ + margin;
  return smaller ? metric < mark : metric > mark;
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t group = 0; group < num_groups_; ++group) {
    const double before = optimizer_.lr(group);
    const double after = std::max(before * options_.factor, options_.min_lr.of(group));
    if (before - after > options_.eps) optimizer_.set_lr(after, group);
  }
}

void ReduceLROnPlateau::step(double metric) {
  if (std::isnan(metric))
    throw ValueError(kStepPlateau, "a metric that is a number", "nan", "find out why the model diverged");
  const Device device = optimizer_.device();
  if (device.is_cuda() && cuda::current_stream(device).is_capturing())
    throw StateError(kStepPlateau, "a call outside of recorded work", "one inside",
                     "call it between replays");
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= options_.patience) return;
  reduce();
  cooldown_counter_ = options_.cooldown;
  num_bad_epochs_ = 0;
}

void ReduceLROnPlateau::step(const Tensor& metric) {
  if (!metric.defined())
    throw ValueError(kStepPlateau, "a metric", "an undefined tensor", "pass the loss of the validation");
  if (metric.numel() != 1)
    throw ShapeError(kStepPlateau, "one element", to_string(metric.shape()), "pass mean(metric)");
  step(metric.item<double>());
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> result;
  for (std::size_t group = 0; group < num_groups_; ++group) result.push_back(optimizer_.lr(group));
  return result;
}

Value ReduceLROnPlateau::state_dict() const {
  Value state;
  state.set("scheduler", kPlateau);
  state.set("num_groups", num_groups_);
  state.set("best", best_);
  state.set("num_bad_epochs", num_bad_epochs_);
  state.set("cooldown_counter", cooldown_counter_);
  state.set("last_epoch", last_epoch_);
  return state;
}

void ReduceLROnPlateau::load_state_dict(const Value& state) {
  const std::string& name = state.at("scheduler").as_string();
  if (name != kPlateau) {
    throw StateError(kLoadPlateau, "the state of " + std::string(kPlateau), name,
                     "load it into a scheduler of that kind");
  }
  const std::int64_t groups = saved_count(kLoadPlateau, state, "num_groups");
  if (std::cmp_not_equal(groups, num_groups_)) {
    throw StateError(kLoadPlateau, std::to_string(num_groups_) + " parameter groups", std::to_string(groups),
                     "make the optimizer with the same groups");
  }
  const double best = state.at("best").as_double();
  if (std::isnan(best)) throw ValueError(kLoadPlateau, "best as a number", "nan", "check the file");
  const std::int64_t bad = saved_count(kLoadPlateau, state, "num_bad_epochs"),
                     cool = saved_count(kLoadPlateau, state, "cooldown_counter");
  last_epoch_ = saved_count(kLoadPlateau, state, "last_epoch");
  best_ = best;
  num_bad_epochs_ = bad;
  cooldown_counter_ = cool;
}

}  // namespace mezzo::optim
