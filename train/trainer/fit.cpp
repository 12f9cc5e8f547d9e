// The loop over batches and epochs: events, time, and when to evaluate, save and stop.
#include <csignal>

#include "mezzo/core/error.h"
#include "mezzo/train/throughput.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

namespace {

volatile std::sig_atomic_t signal_has_come = 0;

/// While it lives the process does not end by SIGTERM, which schedulers and `kill` send, or SIGUSR1, which
/// mpirun passes on to its processes: it notes that one has come. One at a time.
class SignalWatch : mezzo::detail::NoCopy {
 public:
  SignalWatch() {
    signal_has_come = 0;
    struct sigaction action = {};
    action.sa_handler = [](int /*signal*/) { signal_has_come = 1; };  // all that a handler may do
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, &terminate_);
    sigaction(SIGUSR1, &action, &user_);
  }
  ~SignalWatch() {
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGUSR1, &user_, nullptr);
  }

 private:
  struct sigaction terminate_ = {}, user_ = {};  ///< as they were
};

}  // namespace

bool TrainerCore::is_done() const {
  return state_.stop_requested_ || state_.time.get(state_.max_duration->unit()) >= *state_.max_duration;
}

FitEnd TrainerCore::fit(const Time& end, bool anew) {
  if (!options_.train_loader.defined())
    throw ValueError("Trainer::fit", "a train_loader", "none", "give .train_loader = loader");
  state_.max_duration = end;
  state_.stop_requested_ = std::exchange(was_stopped_, false) && !anew;
  is_signalled_ = false;
  std::optional<SignalWatch> watch;
  if (options_.on_signal == OnSignal::save_and_stop) watch.emplace();
  const bool trains = !is_done();
  if (trains) {
    if (bar_ != nullptr) bar_->extend(total_batches());
    clock_ = steady_seconds();
    state_.model.train();
    event(Event::fit_start);
    agree_on_stop();
    while (!is_done()) {
      if (run_epoch()) end_epoch();
    }
  }
  finish(trains);
  if (is_signalled_) return FitEnd::signalled;
  return state_.stop_requested_ ? FitEnd::stopped : FitEnd::finished;
}

void TrainerCore::finish(bool has_trained) {
  if (has_trained && state_.stop_requested_) saved_at_ = -1;  // the last checkpoint holds that it was stopped
  parallel_.share_buffers(state_.model);
  // Also of a training that was stopped behind its last batch. A signal leaves no time for it.
  if (!is_signalled_ && !options_.eval_interval.is_zero() && options_.eval_loader.defined() &&
      evaluated_at_ != state_.time.batch) {
    evaluate(options_.eval_loader);
    saved_at_ = -1;  // the last checkpoint holds these results
  }
  if (saves() && saved_at_ != state_.time.batch) save_now();
  if (has_trained) {
    event(Event::fit_end);
    log_pending();
  }
  if (saves()) wait_for_files();
  logger_->close();
}

void TrainerCore::open_epoch() {
  if (is_epoch_open_) return;
  AnyLoader& loader = options_.train_loader;
  const auto size = loader->size();
  if (size) state_.epoch_batches_ = (*size + options_.accumulate - 1) / options_.accumulate;
  parallel_.begin(*loader);
  is_epoch_open_ = true;
  // Of a checkpoint within an epoch a DataLoader knows its place; other loaders are read up to it.
  std::int64_t left = loader->base() == nullptr ? state_.time.batch_in_epoch * options_.accumulate : 0;
  while (left > 0 && loader->next().defined()) --left;
  if (state_.time.batch_in_epoch > 0) return;
  start_iteration();
  event(Event::epoch_start);
}

void TrainerCore::start_iteration() {
  if (is_iteration_started_) return;
  is_iteration_started_ = true;
  const auto& time = state_.time;
  const bool by_tokens = options_.iteration_length && options_.iteration_length->unit() == TimeUnit::token;
  if (by_tokens ? time.token_in_iteration == 0 : time.epoch_in_iteration == 0 && time.batch_in_epoch == 0)
    event(Event::iteration_start);
}

bool TrainerCore::run_epoch() {
  while (!is_done()) {
    open_epoch();  // an evaluation of the same loader has closed it
    const Timestamp before = state_.time;
    const double progress_before = state_.progress();
    const std::int64_t loads = loads_;
    try {
      auto next = next_batches();
      if (loads_ != loads) continue;  // what was taken is of before the checkpoint
      if (!next) {
        if (before.batch_in_epoch == 0)
          throw ValueError("Trainer::fit", "a train_loader with at least one batch", "none",
                           "give it samples");
        return true;
      }
      start_iteration();
      event(Event::batch_start);
      if (loads_ != loads) continue;
      step(*next);
    } catch (...) {
      if (loads_ == loads) give_back();
      throw;
    }
    end_batch(before, progress_before);
  }
  // The end of the training may be the end of the epoch.
  if (!state_.epoch_batches_ || state_.time.batch_in_epoch != *state_.epoch_batches_) return false;
  return !is_epoch_open_ || !options_.train_loader->next().defined();
}

std::optional<TrainerCore::StepBatches> TrainerCore::next_batches() {
  StepBatches step;
  taken_ = 0;
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    event(Event::before_dataloader);
    const auto [batch, whole] = parallel_.next(*options_.train_loader);
    if (!batch.defined()) break;
    ++taken_;
    // The loader's own batch is valid until it is asked for the next one.
    state_.batch = (options_.accumulate > 1 ? batch.copy() : batch).to(state_.device);
    step.sizes.push_back(state_.batch.find_samples().value_or(1));
    if (step.sizes.back() > 0) {  // callbacks see no share without samples
      event(Event::after_dataloader);
      check_dtypes(state_.batch);
      step.sizes.back() = state_.batch.find_samples().value_or(1);
    }
    step.wholes.push_back(whole.value_or(step.sizes.back()));
    step.samples += step.wholes.back();
    if (options_.tokens.call) step.tokens += options_.tokens.call(state_.batch);
    step.batches.push_back(state_.batch);
  }
  if (step.batches.empty()) {
    state_.batch = {};
    is_epoch_open_ = false;
    return std::nullopt;
  }
  if (options_.tokens.call) step.tokens = parallel_.reduced(step.tokens, dist::ReduceOp::sum);
  state_.batch_samples = step.samples;
  return step;
}

void TrainerCore::give_back() {
  if (!is_epoch_open_) return;
  AnyLoader& loader = options_.train_loader;
  auto* const base = loader->base();
  Value place = base != nullptr ? base->state_dict() : Value();
  loader->end();
  is_epoch_open_ = false;
  if (base == nullptr) return;
  place.set("batch", place.at("batch").as_int() - taken_);
  base->load_state_dict(place);
}

void TrainerCore::end_batch(const Timestamp& before, double progress_before) {
  count_time();
  event(Event::batch_end);
  log_step();
  state_.batch = {};
  state_.output = {};
  evaluate_and_save({before, progress_before, false});
  agree_on_stop();
}

void TrainerCore::count_time() {
  const double now = steady_seconds();
  state_.time.seconds += now - clock_;
  clock_ = now;
  state_.time.seconds = parallel_.of_first(state_.time.seconds);
}

void TrainerCore::end_epoch() {
  is_epoch_open_ = false;
  const Moment moment{state_.time, state_.progress(), true};
  state_.time.end_epoch();
  event(Event::epoch_end);
  log_pending();
  evaluate_and_save(moment);
  agree_on_stop();
}

void TrainerCore::agree_on_stop() {
  const bool has_signal =
      is_signalled_ || (options_.on_signal == OnSignal::save_and_stop && signal_has_come != 0);
  const std::int64_t wish = parallel_.reduced(has_signal               ? 2
                                              : state_.stop_requested_ ? 1
                                                                       : 0,
                                              dist::ReduceOp::max);
  state_.stop_requested_ = wish > 0;
  is_signalled_ = wish == 2;
}

void TrainerCore::evaluate_and_save(const Moment& before) {
  bool evaluates = is_due(options_.eval_interval, before) && options_.eval_loader.defined();
  if (evaluates && options_.on_signal == OnSignal::save_and_stop) {
    agree_on_stop();
    evaluates = !is_signalled_;
  }
  if (evaluates) {
    evaluate(options_.eval_loader);
    count_time();
  }
  event(before.at_epoch_end ? Event::epoch_checkpoint : Event::batch_checkpoint);
  // A checkpoint that was written before its weights were evaluated gets the results.
  const bool lacks_results = evaluates && saved_at_ == state_.time.batch;
  if (saves() && (lacks_results || is_due(options_.save.interval, before))) save_now();
  const auto& length = options_.iteration_length;
  const TimeUnit unit = before.at_epoch_end ? TimeUnit::epoch : TimeUnit::token;
  if (length && length->unit() == unit && state_.time.get_in_iteration(unit) >= *length) end_iteration();
}

void TrainerCore::end_iteration() {
  state_.time.end_iteration();
  is_iteration_started_ = false;
  event(Event::iteration_end);
  event(Event::iteration_checkpoint);
}

bool TrainerCore::is_due(const Time& interval, const Moment& before) const {
  const bool of_epochs = interval.unit() == TimeUnit::epoch || interval.unit() == TimeUnit::iteration;
  if (of_epochs != before.at_epoch_end && interval.unit() != TimeUnit::duration) return false;
  const bool shares = interval.unit() == TimeUnit::duration;
  const double was = shares ? before.progress : before.time.get(interval.unit()).value();
  const double is = shares ? state_.progress() : state_.time.get(interval.unit()).value();
  return train::is_due(interval, was, is);
}

void TrainerCore::log_step() {
  if (!has_sinks_) {
    state_.pending_.clear();
    return;
  }
  std::vector<LogEntry> entries{{"loss", state_.loss}};
  if (step_lr_) entries.push_back({"lr", *step_lr_});
  if (scaler_.is_enabled()) {
    entries.push_back({"scale", scaler_.scale_tensor()});
    entries.push_back({"steps_skipped", scaler_.steps_skipped_tensor()});
  }
  log_pending(std::move(entries));
}

void TrainerCore::log_pending(std::vector<LogEntry> entries, bool all_sinks) {
  for (const auto& [name, value] : state_.pending_) entries.push_back({name, value});
  if (!entries.empty() && has_sinks_) logger_->log(state_.time.batch, entries, {.all_sinks = all_sinks});
  state_.pending_.clear();
}

}  // namespace mezzo::train
