// Evaluation and prediction: the model in evaluation mode over the batches of a loader.
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

namespace {

/// Begins an epoch beside the epoch that a loader may be in the middle of, which goes on there at the end of
/// the result.
[[nodiscard]] auto side_epoch(const AnyLoader& loader, ParallelRun& run) {
  auto* const base = loader->base();
  Value place = base != nullptr ? base->state_dict() : Value();
  if (base != nullptr) base->set_epoch(0);
  run.begin(*loader);
  return detail::AtEnd([loader, base, place = std::move(place)] {
    loader->end();
    if (base != nullptr) base->load_state_dict(place);
  });
}

/// Whether both give the batches of one source.
bool are_same(const AnyLoader& a, const AnyLoader& b) {
  return &*a == &*b || (a->base() != nullptr && a->base() == b->base());
}

/// Throws: ValueError where one is missing.
void require_model_and_loader(std::string_view op, const ModelRef& model, const AnyLoader& loader) {
  if (model.module() == nullptr || !loader.defined())
    throw ValueError(op, "a model and a loader", model.module() == nullptr ? "no model" : "no loader",
                     "give both");
}

/// Throws: ValueError where an evaluation has had no batch.
void require_batches(std::string_view op, std::int64_t count) {
  if (count == 0) throw ValueError(op, "a loader with at least one batch", "none", "give it samples");
}

/// The metrics of one evaluation, and the mean loss.
class Counting {
 public:
  Counting(const std::vector<EvalMetric>& metrics, const detail::ModelCall& call)
      : metrics_(metrics), call_(call) {
    for (const EvalMetric& metric : metrics_) metric.metric().reset();
  }
  void update(const Tensor& output, const AnyBatch& batch) {
    for (const EvalMetric& metric : metrics_) metric.update().call(output, batch);
    if (call_.loss_function.defined()) count_loss(call_.loss(output, batch), batch);
  }
  /// update() for part `part` of this rank's share, which is counted by itself.
  void update_part(const Tensor& output, const AnyBatch& batch, std::size_t part) {
    const NoGrad no_grad;
    if (parts_.size() <= part) parts_.resize(part + 1);
    std::vector<Metric*> all = everything();
    parts_[part].resize(all.size());
    for (std::size_t m = 0; m < all.size(); ++m) {
      all[m]->reset();
      const auto& before = parts_[part][m];
      for (std::size_t s = 0; s < before.size(); ++s) Tensor(all[m]->state()[s]).copy_(before[s]);
    }
    update(output, batch);
    for (std::size_t m = 0; m < all.size(); ++m) {
      parts_[part][m].clear();
      for (const Tensor& sum : all[m]->state()) parts_[part][m].push_back(sum.clone());
    }
  }
  /// Of all ranks' parts; the same on all ranks.
  [[nodiscard]] EvalResults results(const ParallelRun& run) {
    if (run.is_alone()) return results();
    std::vector<Metric*> all = everything();
    bool has_all = true;
    for (std::size_t m = 0; m < all.size(); ++m) {
      std::vector<std::vector<Tensor>> states;
      for (const auto& part : parts_) states.push_back(m < part.size() ? part[m] : std::vector<Tensor>());
      has_all = run.add_up(*all[m], states) && has_all;
    }
    EvalResults found = results();
    std::vector<double> numbers;
    for (const auto& [name, value] : found) numbers.push_back(value);
    numbers = run.of_first_with(has_all, numbers);
    std::size_t i = 0;
    for (auto& [name, value] : found) value = numbers[i++];
    return found;
  }
  [[nodiscard]] EvalResults results() const {
    EvalResults results;
    if (call_.loss_function.defined()) results["loss"] = loss_.value();
    for (const EvalMetric& metric : metrics_) {
      const Tensor value = metric.metric().compute();
      const std::vector<std::string> names = metric.names(value);
      if (names.empty()) continue;
      const std::vector<double> numbers = value.to_vector<double>();
      for (std::size_t i = 0; i < names.size(); ++i) results[names[i]] = numbers[i];
    }
    return results;
  }

 private:
  void count_loss(const Tensor& loss, const AnyBatch& batch) {
    if (call_.weighs_samples())
      return loss_.update(loss, static_cast<double>(batch.find_samples().value_or(1)));
    // A loss that weighs nothing is 0 / 0, and does not count in the mean.
    const Tensor weight = call_.weight(batch).to(loss.device());
    loss_.update(where(weight.gt(0).reshape(loss.shape()), loss, 0.0), weight);
  }
  [[nodiscard]] std::vector<Metric*> everything() {
    std::vector<Metric*> all{&loss_};
    for (const EvalMetric& metric : metrics_) all.push_back(&metric.metric());
    return all;
  }

  const std::vector<EvalMetric>& metrics_;
  const detail::ModelCall& call_;
  Mean loss_;
  std::vector<std::vector<std::vector<Tensor>>> parts_;  ///< by part, metric and sum
};

constexpr std::array<Event, 6> kEvalEvents{Event::eval_start,          Event::eval_batch_start,
                                           Event::eval_before_forward, Event::eval_after_forward,
                                           Event::eval_batch_end,      Event::eval_end};
constexpr std::array<Event, 6> kPredictEvents{Event::predict_start,          Event::predict_batch_start,
                                              Event::predict_before_forward, Event::predict_after_forward,
                                              Event::predict_batch_end,      Event::predict_end};

}  // namespace

template <class F, class G>
void TrainerCore::over_batches(const AnyLoader& loader, const std::array<Event, 6>& events, ParallelRun& run,
                               const F& f, const G& finish) {
  std::int64_t batches = 0;
  const auto pass = [&](const AnyBatch& batch, std::size_t part) {
    state_.batch = batch.to(state_.device);
    event(events[1]);
    event(events[2]);
    state_.output = call_.forward(state_.batch);
    event(events[3]);
    f(state_.output, state_.batch, part);
    event(events[4]);
  };
  if (is_epoch_open_ && are_same(loader, options_.train_loader)) {
    // The training goes on from the place that side_epoch restores; other loaders are read up to it.
    options_.train_loader->end();
    is_epoch_open_ = false;
  }
  run.share_buffers(state_.model);
  try {
    event(events[0]);
    const nn::ModuleModes modes(state_.model);
    state_.model.eval();
    const auto epoch = side_epoch(loader, run);
    const NoGrad no_grad;
    for (auto share = run.next(*loader); share.batch.defined(); share = run.next(*loader), ++batches) {
      for (const auto& [part, batch] : run.parts_of(share)) pass(batch, part);
    }
    finish(batches);
  } catch (...) {
    state_.batch = {};
    state_.output = {};
    end_after_error(events[5], 0);
    throw;
  }
  state_.batch = {};
  state_.output = {};
}

void TrainerCore::end_after_error(Event end, std::size_t first) noexcept {
  const auto& callbacks = by_event_[static_cast<std::size_t>(end)];
  for (std::size_t i = first; i < callbacks.size(); ++i) {
    try {
      callbacks[i]->run(end, state_);
    } catch (...) {  // the first error goes on
    }
  }
}

EvalResults TrainerCore::evaluate(const AnyLoader& loader) {
  const Phase phase("evaluation");
  if (!loader.defined())
    throw ValueError("Trainer::eval", "a loader", "none", "give .eval_loader, or a loader here");
  call_.check("Trainer::eval", loader->batch_type().type);
  const bool is_own = options_.eval_loader.defined() && are_same(loader, options_.eval_loader);
  state_.is_own_evaluation_ = is_own;
  // Callbacks at eval_end of one that throws find none.
  EvalResults before = std::exchange(state_.eval_results, {});
  const detail::AtEnd restore([&] {
    if (!is_own) state_.eval_results = std::move(before);
  });
  Counting counting(options_.metrics, call_);
  over_batches(
      loader, kEvalEvents, parallel_,
      [&](const Tensor& output, const AnyBatch& batch, std::size_t part) {
        if (parallel_.is_alone())
          counting.update(output, batch);
        else
          counting.update_part(output, batch, part);
      },
      [&](std::int64_t batches) {
        require_batches("Trainer::eval", batches);
        state_.eval_results = counting.results(parallel_);
        if (is_own) save_best_weights();
      });
  if (is_own) evaluated_at_ = state_.time.batch;
  event(Event::eval_end);
  for (const auto& [name, value] : state_.eval_results) state_.log("eval/" + name, value);
  log_pending({}, true);
  return state_.eval_results;
}

std::vector<Tensor> TrainerCore::predict(const AnyLoader& loader) {
  if (!loader.defined()) throw ValueError("Trainer::predict", "a loader", "none", "name one");
  detail::ModelCall model = call_;
  model.loss_function = {};
  model.check("Trainer::predict", loader->batch_type().type);
  std::vector<Tensor> outputs;
  ParallelRun alone;
  over_batches(
      loader, kPredictEvents, alone,
      [&](const Tensor& output, const AnyBatch& /*batch*/, std::size_t /*part*/) {
        outputs.push_back(output);
      },
      [](std::int64_t /*batches*/) {});
  event(Event::predict_end);
  return outputs;
}

EvalResults evaluate(const ModelRef& model, const AnyLoader& loader, const std::vector<EvalMetric>& metrics,
                     const EvaluateOptions& options) {
  require_model_and_loader("evaluate", model, loader);
  const Device device = options.device.value_or(detail::device_of(*model.module()));
  const detail::ModelCall call{
      model, options.forward, options.loss, options.precision, device, options.weigh_by, {}};
  if (options.weigh_by.by() == WeighBy::tokens)
    throw ValueError("evaluate", "weigh_by a function, samples or what the loss says", "tokens",
                     "give a function that counts them");
  const auto& type = loader->batch_type().type;
  call.check("evaluate", type);
  for (const EvalMetric& metric : metrics)
    detail::check_batch("evaluate", metric.name(), metric.update().batch, type);
  const nn::ModuleModes modes(*model.module());
  model.module()->eval();
  ParallelRun alone;
  const auto epoch = side_epoch(loader, alone);
  const NoGrad no_grad;
  Counting counting(metrics, call);
  std::int64_t batches = 0;
  for (AnyBatch batch = loader->next(); batch.defined(); batch = loader->next()) {
    batch = batch.to(device);
    counting.update(call.forward(batch), batch);
    ++batches;
  }
  require_batches("evaluate", batches);
  return counting.results();
}

void update_bn(const ModelRef& model, const AnyLoader& loader, const UpdateBNOptions& options) {
  require_model_and_loader("update_bn", model, loader);
  const Device device = options.device.value_or(detail::device_of(*model.module()));
  const detail::ModelCall call{model, options.forward, {}, options.precision, device, {}, {}};
  call.check("update_bn", loader->batch_type().type);
  std::vector<std::pair<nn::RunningNorm*, std::optional<double>>> norms;
  for (const auto& [path, module] : model.module()->named_modules()) {
    if (auto* const norm = detail::batch_norm(*module)) norms.emplace_back(norm, norm->momentum());
  }
  if (norms.empty()) return;
  const nn::ModuleModes modes(*model.module());
  const detail::AtEnd restore([&] {
    for (const auto& [norm, momentum] : norms) norm->set_momentum(momentum);
  });
  model.module()->train();
  for (const auto& [norm, momentum] : norms) {
    norm->reset_running_stats();
    norm->set_momentum(std::nullopt);  // their mean over all batches
  }
  ParallelRun alone;
  const auto epoch = side_epoch(loader, alone);
  const NoGrad no_grad;
  std::int64_t batches = 0;
  for (AnyBatch batch = loader->next(); batch.defined(); batch = loader->next(), ++batches)
    static_cast<void>(call.forward(batch.to(device)));
  require_batches("update_bn", batches);
}

AnyBatch TrainerCore::first_batch() {
  const auto place = side_epoch(options_.train_loader, parallel_);
  is_epoch_open_ = false;
  const auto [batch, whole] = parallel_.next(*options_.train_loader);
  if (!batch.defined())
    throw ValueError("Trainer::advise", "a train_loader with at least one batch", "none", "give it samples");
  AnyBatch own = batch.copy();
  own.visit([](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.clone();
  });
  return own.to(state_.device);
}

}  // namespace mezzo::train
