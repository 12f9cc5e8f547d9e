// A small training for tests of the trainer: as a loop by hand, and as options of a Trainer.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace mezzo::train {

/// What a run is made with; the same for both ways.
struct Setting {
  std::string name = {};
  std::string precision = "fp32";
  std::int64_t accumulate = 1;
  std::optional<std::int64_t> microbatch = {};
  std::optional<double> clip_norm = {};
  bool schedule = false;
  double init_scale = 1024;
};

inline void PrintTo(const Setting& setting, std::ostream* stream) { *stream << setting.name; }

/// Model, data, optimizer. 44 samples in batches of 8: the last batch of an epoch has 4.
struct Bench {
  explicit Bench(const Setting& made_with) : setting(made_with) {
    manual_seed(3);
    net = nn::make<nn::Sequential>(nn::Linear(6, 16), nn::BatchNorm1d(16), nn::ReLU(), nn::Dropout(0.25),
                                   nn::Linear(16, 4));
    adam.emplace(*net, optim::AdamWOptions{.lr = 0.01});
    Generator generator(11);
    samples = {{randn({44, 6}, {}, generator), randint(0, 4, {44}, {}, generator)}};
    loader.emplace(data::TensorDataset(samples->data, samples->target),
                   data::DataLoaderOptions{.batch_size = 8, .shuffle = true, .seed = 5, .num_workers = 1});
    manual_seed(77);
  }

  static optim::CosineAnnealingLROptions cosine() { return {.T_max = 20}; }
  [[nodiscard]] amp::GradScalerOptions scaling() const {
    return {
        .init_scale = setting.init_scale, .growth_interval = 3, .enabled = setting.precision == "amp_fp16"};
  }
  [[nodiscard]] TrainerOptions options() {
    TrainerOptions options{.model = *net,
                           .loss = nn::CrossEntropyLoss(),
                           .optimizer = *adam,
                           .train_loader = *loader,
                           .precision = setting.precision,
                           .accumulate = setting.accumulate,
                           .clip_norm = setting.clip_norm,
                           .progress_bar = false};
    options.scaler = scaling();
    options.scaler.enabled = true;
    if (setting.schedule) options.schedule = cosine();
    if (setting.microbatch) options.microbatch = *setting.microbatch;
    return options;
  }

  /// The batches of the loader's next epoch, for trainings from a plain range.
  [[nodiscard]] std::vector<data::Example> batches() {
    std::vector<data::Example> all;
    for (const auto& batch : *loader) all.push_back(batch);
    return all;
  }

  /// The state of the model and the optimizer, in f64 values.
  [[nodiscard]] std::vector<std::vector<double>> weights() const {
    std::vector<std::vector<double>> values;
    for (const auto& [name, tensor] : net->state_dict())
      values.push_back(tensor.to(DType::f64).to_vector<double>());
    for (const auto& [name, tensor] : adam->state_dict().tensors)
      values.push_back(tensor.to(DType::f64).to_vector<double>());
    return values;
  }

  Setting setting;
  std::shared_ptr<nn::Sequential> net;
  std::optional<optim::AdamW> adam;
  std::optional<data::Example> samples;
  std::optional<data::DataLoader<>> loader;
};

/// The loop that a user would write. Returns the losses of the steps.
class HandLoop {
 public:
  explicit HandLoop(Bench& bench) : bench_(bench), scaler_(bench.scaling()) {
    if (bench.setting.schedule) schedule_.emplace(*bench.adam, Bench::cosine());
  }

  std::vector<double> run(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      std::vector<data::Example> group;
      for (const data::Example& batch : *bench_.loader) {
        group.push_back(batch);
        if (static_cast<std::int64_t>(group.size()) < bench_.setting.accumulate) continue;
        step(group);
        group.clear();
      }
      if (!group.empty()) step(group);
    }
    return losses_;
  }
  [[nodiscard]] std::int64_t skipped() const { return scaler_.is_enabled() ? scaler_.steps_skipped() : 0; }

 private:
  void step(const std::vector<data::Example>& group) {
    std::int64_t samples = 0;
    for (const auto& batch : group) samples += batch.data.size(0);
    bench_.adam->zero_grad();
    Tensor total;
    for (const auto& batch : group) {
      const std::int64_t length = bench_.setting.microbatch.value_or(batch.data.size(0));
      for (std::int64_t begin = 0; begin < batch.data.size(0); begin += length) {
        const std::int64_t count = std::min(length, batch.data.size(0) - begin);
        const Tensor x = narrow(batch.data, 0, begin, count), target = narrow(batch.target, 0, begin, count);
        const Tensor loss = forward(x, target);
        const Tensor weighed =
            count == samples ? loss : loss * (static_cast<double>(count) / static_cast<double>(samples));
        scaler_.scale(weighed).backward();
        total = total.defined() ? total + weighed.detach() : weighed.detach();
      }
    }
    if (bench_.setting.clip_norm) {
      scaler_.unscale_(*bench_.adam);
      optim::clip_grad_norm_(bench_.net->parameters(), *bench_.setting.clip_norm);
    }
    const auto result = scaler_.step(*bench_.adam);
    if (schedule_) schedule_->step(result);
    if (scaler_.is_enabled()) scaler_.update();
    losses_.push_back(total.item());
  }

  Tensor forward(const Tensor& x, const Tensor& target) {
    if (bench_.setting.precision == "fp32") return cross_entropy((*bench_.net)(x), target);
    const amp::Autocast region(Device::cpu(),
                               bench_.setting.precision == "amp_fp16" ? DType::f16 : DType::bf16);
    return cross_entropy((*bench_.net)(x), target);
  }

  Bench& bench_;
  amp::GradScaler scaler_;
  std::optional<optim::LRScheduler> schedule_;
  std::vector<double> losses_;
};

}  // namespace mezzo::train
