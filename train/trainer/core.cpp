// A trainer's construction: device, optimizer, schedule, scaler, callbacks, logger, and the checkpoint it
// begins with.
#include "mezzo/train/trainer/core.h"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/warning.h"
#include "mezzo/dist/detail/launch.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/algorithms.h"

namespace mezzo::train {

Device device_of(const TrainerOptions& options) {
  return options.device.value_or(detail::device_of(*options.model.module()));
}

amp::Precision precision_of(const TrainerOptions& options, Device device) {
  return options.precision.value().value_or(device.is_cuda() ? amp::Precision::amp_fp16
                                                             : amp::Precision::fp32);
}

namespace {

amp::GradScalerOptions scaler_options(amp::GradScalerOptions options, amp::Precision precision) {
  options.enabled = precision == amp::Precision::amp_fp16;
  return options;
}

/// Says so where a launcher has started several processes that will not train together.
void warn_of_processes() {
  dist::Launch launch;
  try {
    launch = dist::find_launch();
  } catch (const ValueError&) {  // a variable that is no launcher's
    return;
  }
  if (launch.by == dist::Launch::By::nobody || launch.size == 1 || launch.rank != 0) return;
  warn_once("trainer_parallel",
            "Trainer: expected .parallel in processes that were started together (" + launch.variable +
                "), got none, so each trains alone on all data; give .parallel = dist::data_parallel()");
}

/// Whether the loss sees probabilities in training, which LabelSmoothing makes of the targets.
bool smooths_targets(const TrainerOptions& options) {
  return std::any_of(options.algorithms.begin(), options.algorithms.end(), [](const auto& any) {
    return dynamic_cast<const algorithms::LabelSmoothing*>(any.callback().get()) != nullptr;
  });
}

}  // namespace

TrainerCore::TrainerCore(TrainerOptions options)
    : options_((check_options(options), on_own_device(std::move(options)))),
      state_(*options_.model.module()),
      scaler_(scaler_options(options_.scaler, precision_of(options_, device_of(options_)))) {
  if (options_.seed) manual_seed(*options_.seed);
  state_.device = device_of(options_);
  state_.precision = precision_of(options_, state_.device);
  state_.scaler = &scaler_;
  state_.run_ = &parallel_;
  state_.max_duration = options_.max_duration;
  state_.microbatch = options_.microbatch.samples();
  call_ = {options_.model, options_.forward,  options_.loss,  state_.precision,
           state_.device,  options_.weigh_by, options_.tokens};
  // A mean over probabilities is one over samples.
  weighs_samples_ = call_.weighs_samples() || (!call_.weighs_on_host() && smooths_targets(options_));
  if (!options_.module_precision.empty()) rules_.emplace(state_.model, options_.module_precision);
  if (options_.parallel.defined()) {
    ParallelRun run(options_.parallel);
    // One process in fast mode has nothing to share: its steps are those without the option.
    const bool is_alone = run.size() == 1 && !run.is_deterministic() && options_.parallel.made() == nullptr &&
                          !options_.optimizer.maker().make;
    if (!is_alone) parallel_ = std::move(run);
  } else {
    warn_of_processes();
  }
  list_callbacks();
  make_logger();
  prepare_optimizer();
  event(Event::init);
  share_model();
  collect_parts();
  begin_from_checkpoint();
}

void TrainerCore::prepare_optimizer() {
  state_.model.to(state_.device);
  if (call_.loss_function.module() != nullptr) call_.loss_function.module()->to(state_.device);
  if (!options_.optimizer.defined()) {
    // Without momentum this is the same as weight decay of 1e-5 apart from the gradient (SGDW).
    const optim::SGDOptions sgd{.lr = 0.1, .weight_decay = 1e-4};
    warn_once(
        "trainer_optimizer",
        "Trainer: expected an optimizer, got none, so SGD with learning rate 0.1 is taken; name .optimizer");
    default_optimizer_ = std::make_shared<optim::SGD>(state_.model, sgd);
    options_.optimizer = default_optimizer_;
  }
  if (options_.optimizer.maker().make) return;
  make_schedule();
}

void TrainerCore::share_model() {
  parallel_.share_model(state_.model);
  const auto& make = options_.optimizer.maker().make;
  if (!make) return;
  options_.optimizer = make(parallel_.data_parallel(), state_.model);
  make_schedule();
}

void TrainerCore::make_schedule() {
  state_.optimizer = options_.optimizer.optimizer();
  if (state_.optimizer != nullptr && state_.optimizer->device() != state_.device) {
    throw DeviceError("Trainer", "an optimizer of parameters on " + to_string(state_.device),
                      to_string(state_.optimizer->device()),
                      "move the model first, and make the optimizer then");
  }
  Value::List rates;
  for (std::size_t i = 0; state_.optimizer != nullptr && i < state_.optimizer->num_groups(); ++i)
    rates.emplace_back(state_.optimizer->lr(i));
  first_rates_ = rates;
  if (options_.schedule) {
    schedule_.emplace(*state_.optimizer, *options_.schedule);
    state_.schedule = &*schedule_;
  }
}

void TrainerCore::list_callbacks() {
  const auto list_one = [this](Callback* callback) {
    for (int e = 0; e < kEvents; ++e) {
      if (callback->match(static_cast<Event>(e))) by_event_[static_cast<std::size_t>(e)].push_back(callback);
    }
  };
  for (const auto* list : {&options_.algorithms, &options_.callbacks}) {
    for (const AnyCallback& any : *list) list_one(any.callback().get());
  }
  if (options_.profile.steps != 0) {
    profiling_ = make_profiling();
    list_one(profiling_.get());
  }
  for (Event inner = Event::before_train_batch; inner <= Event::after_train_batch;
       inner = static_cast<Event>(static_cast<int>(inner) + 1)) {
    if (options_.captured && asks(inner)) {
      throw ValueError(
          "Trainer", "no callbacks between before_train_batch and after_train_batch with captured",
          by_event_[static_cast<std::size_t>(inner)].front()->name() + " at " + std::string(to_string(inner)),
          "leave one of them out: a replayed step runs no code of the host");
    }
  }
}

void TrainerCore::make_logger() {
  const bool writes = parallel_.is_first();
  std::vector<AnySink> sinks = writes ? options_.sinks : std::vector<AnySink>();
  if (options_.train_loader.defined()) {
    if (const auto size = options_.train_loader->size())
      state_.epoch_batches_ = (*size + options_.accumulate - 1) / options_.accumulate;
  }
  if (options_.progress_bar && writes) {
    bar_ = std::make_shared<ProgressBar>(ProgressBarOptions{.total = total_batches(), .unit = "batches"});
    sinks.emplace_back(bar_);
  }
  has_sinks_ = !sinks.empty();
  logger_ = std::make_unique<Logger>(sinks);
  state_.logger_ = logger_.get();
}

std::int64_t TrainerCore::total_batches() const {
  const auto& end = state_.max_duration;
  if (!end) return 0;
  if (end->unit() == TimeUnit::batch) return static_cast<std::int64_t>(end->value());
  if (end->unit() != TimeUnit::epoch || !state_.epoch_batches_) return 0;
  return static_cast<std::int64_t>(end->value() * static_cast<double>(*state_.epoch_batches_));
}

void TrainerCore::collect_parts() {
  parts_.emplace_back("model", state_.model);
  for (const Part& part : options_.optimizer.parts()) parts_.push_back(part);
  if (schedule_) parts_.emplace_back("schedule", *schedule_);
  parts_.emplace_back("scaler", scaler_);
  if (options_.train_loader.defined() && options_.train_loader->base() != nullptr)
    parts_.emplace_back("loader", *options_.train_loader->base());
  parts_.emplace_back("random", default_generator());
  parts_.emplace_back("trainer", *this);
  std::map<std::string, int> counts;
  for (const auto* list : {&options_.algorithms, &options_.callbacks}) {
    for (const AnyCallback& any : *list) {
      const Parts parts = any.callback()->parts();
      if (parts.empty()) continue;
      std::string name = kCallbackParts + any.callback()->identity();
      if (const int number = ++counts[name]; number > 1) name += " " + std::to_string(number);
      for (const Part& part : parts) parts_.push_back(part.renamed(name + "." + part.name()));
    }
  }
}

void TrainerCore::event(Event event) {
  const auto& callbacks = by_event_[static_cast<std::size_t>(event)];
  for (std::size_t i = 0; i < callbacks.size(); ++i) {
    try {
      callbacks[i]->run(event, state_);
    } catch (const std::exception& error) {
      // The callbacks after it still undo what they did for the evaluation.
      if (event == Event::eval_end || event == Event::predict_end) end_after_error(event, i + 1);
      std::throw_with_nested(
          CallbackError("Trainer", callbacks[i]->name() + " to return at " + std::string(to_string(event)),
                        "an exception: " + std::string(error.what()), ""));
    }
  }
}

Value TrainerCore::state_dict() const {
  Value results = Value::Map{};
  for (const auto& [name, value] : state_.eval_results) results.set(name, value);
  Value value = Value::Map{{"time", state_.time.state_dict()},
                           {"microbatch", state_.microbatch},
                           {"results", results},
                           {"evaluated_at", evaluated_at_},
                           {"stopped", state_.stop_requested_ && !is_signalled_},
                           {"first_rates", first_rates_}};
  if (!parallel_.is_alone()) value.set("evaluations", parallel_.evaluations());
  return value;
}

void TrainerCore::load_state_dict(const Value& value) {
  EvalResults results;
  for (const auto& [name, result] : value.at("results").as_map()) results[name] = result.as_double();
  constexpr std::string_view kLoad = "Trainer::load_checkpoint";
  std::optional<std::int64_t> samples;
  if (!value.at("microbatch").is_null()) samples = saved_count(kLoad, value, "microbatch");
  if (samples == 0) throw ValueError(kLoad, "microbatch from 1", "0", "check the file");
  const bool evaluates = value.at("evaluated_at") != Value(-1);
  const std::int64_t evaluated = evaluates ? saved_count(kLoad, value, "evaluated_at") : -1;
  const bool counts = !parallel_.is_alone() && value.contains("evaluations");
  const std::int64_t evaluations = counts ? saved_count(kLoad, value, "evaluations") : 0;
  const bool stopped = value.contains("stopped") && value.at("stopped").as_bool();
  if (const Value* const saved = value.find("first_rates"); saved != nullptr && *saved != first_rates_) {
    warn_once(
        "trainer_learning_rate",
        "Trainer::load_checkpoint: expected a training that began with the learning rates " +
            first_rates_.to_string() + ", as this one, got " + saved->to_string() +
            ", so it goes on with the checkpoint's; set others by state().optimizer->set_lr, or begin with "
            "load_weights_only");
  }
  state_.time.load_state_dict(value.at("time"));
  evaluated_at_ = evaluated;
  was_stopped_ = stopped;
  state_.microbatch = samples;
  parallel_.set_evaluations(counts ? evaluations : state_.time.batch);
  state_.eval_results = std::move(results);
}

}  // namespace mezzo::train
