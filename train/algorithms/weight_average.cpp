// EMA and SWA: averages of weights, in their place during evaluations.
#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/train/algorithms.h"

namespace mezzo::train::algorithms {

namespace {

bool begins_evaluation(Event event) { return event == Event::eval_start || event == Event::predict_start; }
bool updates(Event event) {
  return event == Event::batch_end || event == Event::epoch_end || event == Event::iteration_end;
}

/// How far the training is in this unit.
double amount(const State& state, TimeUnit unit) {
  return unit == TimeUnit::duration ? state.progress() : state.time.get(unit).value();
}

/// Models whose weights an average stands for at the moment: one at a time, as averages of one trainer do not
/// end in the reverse of the order in which they begin.
constinit mezzo::detail::PerThread<std::vector<const nn::Module*>> averaged_models;

}  // namespace

/// The average in the weights' place.
class WeightAverage::Scope : mezzo::detail::NoCopy {
 public:
  Scope(const nn::Module& model, std::shared_ptr<optim::AveragedWeights> average)
      : model_(&model), average_(std::move(average)), scope_(*average_) {
    averaged_models.get().push_back(model_);
  }
  ~Scope() {
    if (auto* const models = averaged_models.find()) std::erase(*models, model_);
  }

 private:
  const nn::Module* model_;
  std::shared_ptr<optim::AveragedWeights> average_;
  optim::AveragedWeights::Scope scope_;
};

void WeightAverage::run(Event event, State& state) {
  scope_.reset();  // at before_load and fit_start too: an evaluation may have left without its end
  if (event == Event::init) average_ = make(state.model);
  if (updates(event)) update(event, state);
  if (!begins_evaluation(event)) return;
  const auto& models = averaged_models.get();
  if (std::find(models.begin(), models.end(), &state.model) != models.end()) return;
  const Tensor updates = average_->state_dict().front().second;
  if (updates.item<std::int64_t>() > 0) scope_ = std::make_shared<Scope>(state.model, average_);
}

Parts WeightAverage::parts() { return {{"average", average()}}; }

optim::AveragedWeights& WeightAverage::average() const {
  if (average_ == nullptr)
    throw StateError(name() + ".average", "an algorithm of a trainer", "one that was given to none",
                     "give the trainer a std::shared_ptr of it first");
  return *average_;
}

EMA::EMA(const optim::EMAOptions& options) : options_(options) {
  if (!(options.decay >= 0 && options.decay <= 1))
    throw ValueError("EMA", "decay in [0, 1]", number_text(options.decay), "0.999 is usual");
}
std::string EMA::identity() const {
  return "EMA(" + number_text(options_.decay) + (options_.use_buffers ? ", buffers)" : ")");
}
std::shared_ptr<optim::AveragedWeights> EMA::make(const nn::Module& model) {
  return std::make_shared<optim::EMA>(model, options_);
}
void EMA::update(Event event, const State& state) {
  if (event == Event::batch_end) average().update(state.step_result);
}

SWA::SWA(const SWAOptions& options) : options_(options) {
  if (options.update_interval.is_zero())
    throw ValueError("SWA", "an update_interval above 0", to_string(options.update_interval),
                     "an epoch, \"1ep\", is usual");
}
std::string SWA::identity() const {
  return "SWA(" + to_string(options_.start) + ", " + to_string(options_.update_interval) +
         (options_.use_buffers ? ", buffers)" : ")");
}
Parts SWA::parts() { return {{"average", average()}, {"time", seen_}}; }
std::shared_ptr<optim::AveragedWeights> SWA::make(const nn::Module& model) {
  seen_ = 0;
  return std::make_shared<optim::SWA>(model, optim::SWAOptions{.use_buffers = options_.use_buffers});
}
void SWA::update(Event event, const State& state) {
  const Time& interval = options_.update_interval;
  const double before = std::exchange(seen_, amount(state, interval.unit()));
  const Time& start = options_.start;
  const bool has_started = start.is_zero() || whole_intervals(start, amount(state, start.unit())) >= 1;
  if (!is_due(interval, before, seen_) || !has_started) return;
  const bool is_every_step =
      event == Event::batch_end && interval.unit() == TimeUnit::batch && interval.value() == 1;
  average().update(is_every_step ? optim::StepOutcome(state.step_result) : optim::StepOutcome());
}

}  // namespace mezzo::train::algorithms
