// Checks of all that can be known to be wrong before a training begins.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/reducer.h"
#include "mezzo/dist/sharded_optimizer.h"
#include "mezzo/train/algorithms.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

namespace {

constexpr const char* kOp = "Trainer";

void require(bool good, const std::string& expected, const std::string& got, const std::string& fix) {
  if (!good) throw ValueError(kOp, expected, got, fix);
}

void check_time(const TrainerOptions& options, const Time& time, const char* option) {
  const std::string text = std::string(option) + " = " + to_string(time);
  require(std::isfinite(time.value()) && time.value() >= 0, std::string(option) + " from 0", text,
          "name a finite time");
  require(time.unit() != TimeUnit::token || options.tokens.call, "a function that counts tokens, for " + text,
          "none", "give .tokens = [](const Batch& batch) { return batch.target.numel(); }");
}

void check_times(const TrainerOptions& options) {
  if (options.max_duration) {
    check_time(options, *options.max_duration, "max_duration");
    require(options.max_duration->value() > 0, "a max_duration above 0", to_string(*options.max_duration),
            "name one, such as \"3ep\"");
    require(options.max_duration->unit() != TimeUnit::duration, "max_duration in another unit than dur",
            to_string(*options.max_duration), "dur is a share of max_duration itself");
  }
  check_time(options, options.eval_interval, "eval_interval");
  check_time(options, options.save.interval, "save.interval");
  if (!options.iteration_length) return;
  check_time(options, *options.iteration_length, "iteration_length");
  const TimeUnit unit = options.iteration_length->unit();
  require((unit == TimeUnit::epoch || unit == TimeUnit::token) && options.iteration_length->value() > 0,
          "an iteration_length above 0, in epochs or tokens", to_string(*options.iteration_length),
          "name one, such as \"2ep\"");
}

void check_model(const TrainerOptions& options) {
  require(options.model.module() != nullptr, "a model", "none", "give .model = net");
  require(options.loss.defined(), "a loss", "none", "give .loss = nn::CrossEntropyLoss(), say");
}

void check_loader(const TrainerOptions& options, const AnyLoader& loader) {
  if (!loader.defined()) return;
  const detail::ModelCall call{
      options.model, options.forward, options.loss, {}, Device::cpu(), options.weigh_by, {}};
  const auto& batch = loader->batch_type();
  call.check(kOp, batch.type);
  if (options.tokens.call) detail::check_batch(kOp, "tokens", options.tokens.batch, batch.type);
}

void check_training(const TrainerOptions& options) {
  require(options.accumulate >= 1, "accumulate from 1", std::to_string(options.accumulate),
          "name a larger one");
  require(!options.clip_norm || *options.clip_norm >= 0, "a clip_norm from 0",
          options.clip_norm ? number_text(*options.clip_norm) : "", "name a norm from 0, or none");
  check_loader(options, options.train_loader);
  require(options.weigh_by.by() != WeighBy::tokens || options.tokens.call,
          "a function that counts tokens, for weigh_by", "none",
          "give .tokens = [](const Batch& batch) { return batch.target.numel(); }");
  const bool cuts = options.microbatch.samples() || options.microbatch.is_auto();
  if (cuts && options.train_loader.defined()) {
    require(options.train_loader->batch_type().knows_tensors,
            "batches whose tensors are known, for microbatch",
            nn::detail::type_text(options.train_loader->batch_type().type),
            "make batches of tensors, Examples, or arrays, pairs and tuples of these");
  }
}

void check_evaluation(const TrainerOptions& options) {
  if (!options.eval_loader.defined()) return;
  check_loader(options, options.eval_loader);
  require(!options.metrics.empty(), "metrics for the eval_loader", "none",
          "give .metrics = {{\"accuracy\", train::Accuracy()}}");
  for (const EvalMetric& metric : options.metrics) {
    detail::check_batch(kOp, "the metric " + metric.name(), metric.update().batch,
                        options.eval_loader->batch_type().type);
    require(!options.loss.calls_model() || options.forward.call,
            "a forward, whose output metrics compare with targets", "a loss that calls the model itself",
            "give .forward = [&](const Batch& batch) { return net(...); }");
  }
}

bool is_metric(const TrainerOptions& options, const std::string& name) {
  return name == "loss" ||
         std::any_of(options.metrics.begin(), options.metrics.end(), [&](const EvalMetric& metric) {
           return metric.name() == name || name.starts_with(metric.name() + "/");
         });
}

void check_saving(const TrainerOptions& options) {
  const TrainerSave& save = options.save;
  require(!options.resume || !save.folder.empty(), "a folder of checkpoints to resume from", "no save.folder",
          "give .save = {.folder = \"run\"}");
  require(options.on_signal == OnSignal::leave || !save.folder.empty(),
          "a folder for the checkpoint of on_signal", "no save.folder", "give .save = {.folder = \"run\"}");
  if (!save.best_weights.empty()) {
    require(options.eval_loader.defined(), "an eval_loader, for save.best_weights", "none",
            "give .eval_loader");
    const auto folder = std::filesystem::path(save.best_weights).parent_path();
    require(save.folder.empty() ||
                folder.lexically_normal() != std::filesystem::path(save.folder).lexically_normal(),
            "save.best_weights outside of save.folder, where best.safetensors is a checkpoint",
            save.best_weights, "name a file elsewhere");
  }
  if (save.metric.empty()) return;
  require(options.eval_loader.defined(), "an eval_loader, for save.metric = " + save.metric, "none",
          "give .eval_loader");
  require(is_metric(options, save.metric), "a save.metric that is one of the metrics, or loss", save.metric,
          "name one of .metrics");
}

void check_optimizer(const TrainerOptions& options) {
  const AnyOptimizer& optimizer = options.optimizer;
  if (!optimizer.defined() || optimizer.maker().make) return;
  const auto* const sharded = dynamic_cast<const dist::Sharded*>(optimizer.optimizer());
  const auto parameters = sharded != nullptr ? sharded->whole_parameters() : optimizer.parameters();
  require(!parameters.empty(), "an optimizer with parameters", "one without", "make it of the model");
  const auto of_model = options.model.module()->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_known = std::any_of(of_model.begin(), of_model.end(),
                                      [&](const Tensor& known) { return known.is_same(parameters[i]); });
    require(is_known, "an optimizer of the model's parameters",
            optimizer.optimizer() != nullptr && sharded == nullptr
                ? optimizer.optimizer()->parameter_name(i) + ", which is not one"
                : "parameter " + std::to_string(i) + ", which is not one",
            "make it of this model");
  }
  require(!options.schedule || optimizer.optimizer() != nullptr,
          "no schedule for an optimizer without groups", "a schedule", "leave it out");
}

void check_precision(const TrainerOptions& options) {
  const amp::Precision precision = precision_of(options, device_of(options));
  require(
      precision != amp::Precision::fp16, "precision fp32, amp_fp16, amp_bf16 or amp_fp8", "fp16",
      "convert the model by net.to(DType::f16) and give the optimizer master_weights for 16-bit parameters");
  if (precision == amp::Precision::amp_fp16) {
    require(options.scaler.enabled, "an enabled scaler with precision amp_fp16", "scaler.enabled = false",
            "leave it enabled, or take amp_bf16");
    const bool evaluates = options.optimizer.takes_closure();
    require(!evaluates || options.optimizer.optimizer() != nullptr,
            "an optimizer that can skip steps with amp_fp16", "one that compares losses (LBFGS)",
            "take fp32 or amp_bf16");
    require(!evaluates || !options.clip_norm, "no clip_norm for SAM with amp_fp16",
            number_text(options.clip_norm.value_or(0)),
            "leave it out, or take amp_bf16: gradients stay scaled within its closure");
  }
}

void check_parallel(const TrainerOptions& options) {
  const Parallel& parallel = options.parallel;
  const AnyOptimizer& optimizer = options.optimizer;
  require(parallel.defined() || !optimizer.maker().make,
          "a training over several processes, for dist::sharded", "no .parallel",
          "give .parallel = dist::data_parallel()");
  const bool is_sharded = optimizer.optimizer() != nullptr && optimizer.optimizer()->is_sharded();
  require(!is_sharded || parallel.made() != nullptr, "the DataParallel of the ShardedOptimizer", "none",
          "give .parallel = that DataParallel");
  if (!parallel.defined()) return;
  const bool has_parts = parallel.made() != nullptr ? parallel.made()->reducer().options().virtual_parts > 0
                                                    : parallel.options()->virtual_parts > 0;
  require(!options.captured, "no captured with .parallel", "both", "leave captured out");
  require(!options.microbatch.is_auto(), "a fixed microbatch with .parallel", "auto",
          "name a number of samples: ranks must not differ");
  require(!has_parts || !options.microbatch.samples(), "no microbatch with virtual_parts", "both",
          "leave microbatch out: a part is one, so raise virtual_parts");
  for (const AnyCallback& any : options.algorithms) {
    const bool mixes = dynamic_cast<const algorithms::MixedBatches*>(any.callback().get()) != nullptr;
    require(!mixes || !has_parts, "algorithms that leave samples apart, with virtual_parts",
            any.callback()->name(), "leave it out: it would mix the samples of a rank");
  }
  for (const AnyLoader* loader : {&options.train_loader, &options.eval_loader}) {
    if (!loader->defined() || (*loader)->batch_type().knows_tensors) continue;
    require((*loader)->base() != nullptr && !has_parts,
            "batches whose tensors are known, of which each rank takes its share",
            nn::detail::type_text((*loader)->batch_type().type),
            "make batches of tensors, Examples, or arrays, pairs and tuples of these");
  }
}

void check_capture(const TrainerOptions& options) {
  if (!options.captured) return;
  require(!options.microbatch.is_auto(), "a fixed microbatch with captured", "auto",
          "name a number of samples");
  require(!options.optimizer.takes_closure(), "an optimizer without closure with captured", "SAM or LBFGS",
          "leave captured out");
  const bool is_cut = options.accumulate > 1 || options.microbatch.samples();
  require(!is_cut || (!options.weigh_by.function().call && options.weigh_by.by() != WeighBy::tokens),
          "weigh_by of samples, or of an nn::Loss, with captured",
          "a function or tokens, and steps of several parts",
          "leave one of them out: a replayed step runs no code of the host");
}

}  // namespace

void check_options(const TrainerOptions& options) {
  check_model(options);
  for (const auto* list : {&options.algorithms, &options.callbacks}) {
    for (const AnyCallback& any : *list)
      require(any.callback() != nullptr, "callbacks", "a null pointer", "leave it out");
  }
  check_times(options);
  check_precision(options);
  check_optimizer(options);
  check_parallel(options);
  check_training(options);
  check_evaluation(options);
  check_saving(options);
  check_capture(options);
}

}  // namespace mezzo::train
