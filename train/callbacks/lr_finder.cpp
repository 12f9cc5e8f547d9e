// The learning-rate range test: a short training whose rates a callback sets, and all put back behind it.
#include "mezzo/train/lr_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/train/trainer/snapshot.h"

namespace mezzo::train {

namespace {

/// Sets the rate of each step and records its loss.
class RangeTest final : public detail::CallbackAt<Event::batch_start, Event::batch_end> {
 public:
  RangeTest(const LRFinderOptions& options, LRFinderResult& result) : options_(options), result_(result) {}
  [[nodiscard]] std::string name() const override { return "find_lr"; }
  [[nodiscard]] bool is_done() const { return result_.diverged || count() >= options_.steps; }

  void run(Event event, State& state) override {
    if (event == Event::batch_start) {
      set_rates(state);
    } else {
      record(state.loss.item());
      if (is_done()) state.stop_training();
    }
  }

 private:
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(result_.losses.size()); }

  void set_rates(State& state) {
    if (state.optimizer == nullptr)
      throw ValueError("find_lr", "an optimizer with a learning rate", "LBFGS",
                       "it searches its step itself");
    optim::Optimizer& optimizer = *state.optimizer;
    if (ratios_.empty()) {
      const double first = optimizer.lr(0);
      for (std::size_t i = 0; i < optimizer.num_groups(); ++i)
        ratios_.push_back(first > 0 ? optimizer.lr(i) / first : 1);
    }
    const double done = static_cast<double>(count()) / static_cast<double>(options_.steps - 1);
    rate_ = options_.min_lr * std::pow(options_.max_lr / options_.min_lr, done);
    for (std::size_t i = 0; i < ratios_.size(); ++i) optimizer.set_lr(rate_ * ratios_[i], i);
  }

  void record(double loss) {
    if (!std::isfinite(loss)) {
      result_.diverged = true;
      return;
    }
    mean_ = options_.smoothing * mean_ + (1 - options_.smoothing) * loss;
    const double smoothed = mean_ / (1 - std::pow(options_.smoothing, static_cast<double>(count() + 1)));
    result_.rates.push_back(rate_);
    result_.losses.push_back(smoothed);
    least_ = count() == 1 ? smoothed : std::min(least_, smoothed);
    result_.diverged = count() > 1 && smoothed > options_.stop_factor * least_;
  }

  LRFinderOptions options_;
  LRFinderResult& result_;
  std::vector<double> ratios_;
  double rate_ = 0, mean_ = 0, least_ = 0;
};

void check(const LRFinderOptions& options) {
  const auto require = [](bool good, const char* expected, double got, const char* fix) {
    if (!good) throw ValueError("find_lr", expected, number_text(got), fix);
  };
  require(options.min_lr > 0, "a min_lr above 0", options.min_lr, "1e-7 is usual");
  require(options.max_lr > options.min_lr && std::isfinite(options.max_lr), "a finite max_lr above min_lr",
          options.max_lr, "10 is usual");
  require(options.steps >= 2, "at least 2 steps", static_cast<double>(options.steps), "100 are usual");
  require(options.smoothing >= 0 && options.smoothing < 1, "smoothing in [0, 1)", options.smoothing,
          "0.98 is usual");
  require(options.stop_factor > 1, "a stop_factor above 1", options.stop_factor, "4 is usual");
  require(options.skip_begin >= 0, "skip_begin of at least 0", static_cast<double>(options.skip_begin),
          "10 is usual");
  require(options.skip_end >= 0, "skip_end of at least 0", static_cast<double>(options.skip_end),
          "5 is usual");
}

/// The rate at the least slope, by central differences: rates are evenly spaced in the logarithm.
std::optional<double> steepest(const LRFinderResult& result, const LRFinderOptions& options) {
  const auto& losses = result.losses;
  const std::int64_t end = static_cast<std::int64_t>(losses.size()) - options.skip_end;
  std::optional<double> rate;
  double least = 0;
  for (std::int64_t i = options.skip_begin + 1; i + 1 < end; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double slope = losses[at + 1] - losses[at - 1];
    if (slope >= least) continue;
    least = slope;
    rate = result.rates[at];
  }
  return rate;
}

void run(const TrainerOptions& options, const RangeTest& test, std::int64_t steps,
         const LRFinderResult& result) {
  Trainer trainer(options);
  // Begins like the real training, so that algorithms which look at State::progress() act as in it.
  if (options.max_duration) trainer.fit();
  for (std::size_t before = 0; !test.is_done(); before = result.losses.size()) {
    const auto left = steps - static_cast<std::int64_t>(result.losses.size());
    trainer.fit(Time(static_cast<double>(left), TimeUnit::batch));
    if (result.losses.size() == before) break;
  }
}

}  // namespace

LRFinderResult find_lr(TrainerOptions options, const LRFinderOptions& finder) {
  check(finder);
  LRFinderResult result;
  options.schedule.reset();
  options.callbacks.clear();
  options.sinks.clear();
  options.eval_loader = {};
  options.metrics.clear();
  options.eval_interval = 0;
  options.save = {};
  options.on_signal = OnSignal::leave;
  options.load.clear();
  options.resume = false;
  options.progress_bar = false;
  options.profile = {.steps = 0};
  const auto test = std::make_shared<RangeTest>(finder, result);
  options.callbacks.emplace_back(test);
  std::optional<Snapshot> snapshot;
  if (options.model.module() != nullptr && options.train_loader.defined()) snapshot.emplace(options);
  try {
    run(options, *test, finder.steps, result);
  } catch (...) {
    if (snapshot) snapshot->restore(GradientsAfter::none);
    throw;
  }
  snapshot->restore(GradientsAfter::none);
  result.suggestion = steepest(result, finder);
  return result;
}

}  // namespace mezzo::train
