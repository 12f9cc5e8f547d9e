// A small training that runs by a Trainer or by a loop written by hand, for comparing the bits of both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

struct AlteredLoopOptions {
  amp::Precision precision = amp::Precision::fp32;
  std::int64_t accumulate = 1;
  std::optional<std::int64_t> microbatch = {};
  double init_scale = 1024;  ///< of amp_fp16
  Device device = Device::cpu();
  bool images = false;  ///< batches [8, 3, 12, 8] and a net of convolutions, else [8, 6] and a perceptron
};

/// Everything of it, the same bits each time: a net with dropout, AdamW, 12 batches of 8 samples.
struct AlteredLoop {
  explicit AlteredLoop(const AlteredLoopOptions& options_ = {}) : options(options_) {
    manual_seed(3);
    if (options.images) {
      net = nn::make<nn::Sequential>(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::ReLU(),
                                     nn::AdaptiveAvgPool2d(2), nn::Flatten(), nn::Linear(32, 4));
    } else {
      net = nn::make<nn::Sequential>(nn::Linear(6, 16), nn::BatchNorm1d(16), nn::ReLU(), nn::Dropout(0.25),
                                     nn::Linear(16, 8), nn::ReLU(), nn::Linear(8, 4));
    }
    net->to(options.device);
    optimizer.emplace(*net, optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
    scaler_options = {.init_scale = options.init_scale, .growth_interval = 3};
    Generator generator(11);
    const Shape shape = options.images ? Shape{8, 3, 12, 8} : Shape{8, 6};
    for (int i = 0; i < 12; ++i)
      batches.push_back({randn(shape, {}, generator).to(options.device),
                         randint(0, 4, {8}, {}, generator).to(options.device)});
  }

  /// Options of a trainer that does the same as run() without changes.
  [[nodiscard]] TrainerOptions trainer(Time max_duration, std::vector<AnyCallback> algorithms = {}) {
    TrainerOptions made{.model = *net, .loss = nn::CrossEntropyLoss()};
    made.optimizer = *optimizer;
    made.train_loader = batches;
    made.max_duration = max_duration;
    made.precision = options.precision;
    made.scaler = scaler_options;
    if (options.microbatch) made.microbatch = *options.microbatch;
    made.accumulate = options.accumulate;
    made.algorithms = std::move(algorithms);
    made.progress_bar = false;
    made.seed = 5;
    return made;
  }
  void train(Time max_duration, std::vector<AnyCallback> algorithms) {
    Trainer(trainer(max_duration, std::move(algorithms))).fit();
  }

  /// What a loop by hand does in addition.
  struct Changes {
    std::function<void(int step)> before_step = {};
    std::function<data::Example(const data::Example&, int step, int place)> batch = {};
    std::function<Tensor(const Tensor& target, const Tensor& output)> target = {};
    std::function<void()> gradients = {};
    std::function<void(int step, const amp::StepResult&)> after_step = {};
  };
  void run(int steps, const Changes& changes) {
    manual_seed(5);
    amp::GradScalerOptions made = scaler_options;
    made.enabled = options.precision == amp::Precision::amp_fp16;
    amp::GradScaler scaler(made);
    for (int step = 0; step < steps; ++step) {
      if (changes.before_step) changes.before_step(step);
      std::vector<data::Example> parts;
      std::int64_t samples = 0;
      for (int place = 0; place < options.accumulate; ++place) {
        const auto index = static_cast<std::size_t>(step * options.accumulate + place) % batches.size();
        data::Example batch = batches[index];
        if (changes.batch) batch = changes.batch(batch, step, place);
        const std::int64_t count = batch.data.size(0), size = options.microbatch.value_or(count);
        samples += count;
        for (std::int64_t at = 0; at < count; at += size) {
          const std::int64_t length = std::min(size, count - at);
          parts.push_back({narrow(batch.data, 0, at, length), narrow(batch.target, 0, at, length)});
        }
      }
      optimizer->zero_grad();
      for (const auto& part : parts) scaler.scale(loss(part, samples, changes)).backward();
      if (changes.gradients) {
        if (scaler.is_enabled()) scaler.unscale_(*optimizer);
        changes.gradients();
      }
      const amp::StepResult result = scaler.step(*optimizer);
      if (scaler.is_enabled()) scaler.update();
      if (changes.after_step) changes.after_step(step, result);
    }
    if (scaler.is_enabled()) skipped = scaler.steps_skipped();
  }

  /// A text per tensor that tells values apart, bit by bit.
  [[nodiscard]] static std::vector<std::string> bits(const nn::NamedTensors& tensors) {
    std::vector<std::string> result;
    for (const auto& [name, tensor] : tensors) {
      const Tensor row = tensor.detach().to(Device::cpu()).contiguous();
      const std::string_view bytes(static_cast<const char*>(row.impl().data()),
                                   static_cast<std::size_t>(row.numel() * size_of(row.dtype())));
      result.push_back(name + ":" + std::to_string(std::hash<std::string_view>()(bytes)));
    }
    return result;
  }
  /// Of model and optimizer.
  [[nodiscard]] std::vector<std::string> bits() const {
    auto result = bits(net->state_dict());
    for (auto& text : bits(optimizer->state_dict().tensors)) result.push_back(std::move(text));
    return result;
  }

  AlteredLoopOptions options;
  std::shared_ptr<nn::Sequential> net;
  std::optional<optim::AdamW> optimizer;
  amp::GradScalerOptions scaler_options;
  std::vector<data::Example> batches;
  std::int64_t skipped = 0;

 private:
  [[nodiscard]] Tensor loss(const data::Example& part, std::int64_t samples, const Changes& changes) {
    Tensor value;
    {
      std::optional<amp::Autocast> region;
      if (options.precision == amp::Precision::amp_fp16) region.emplace(options.device, DType::f16);
      if (options.precision == amp::Precision::amp_bf16) region.emplace(options.device, DType::bf16);
      const Tensor output = (*net)(part.data);
      Tensor target = part.target;
      if (changes.target) target = changes.target(target, output);
      value = cross_entropy(output, target);
    }
    const std::int64_t count = part.data.size(0);
    return count == samples ? value : value * (static_cast<double>(count) / static_cast<double>(samples));
  }
};

/// The ways in which a training may run.
inline std::vector<AlteredLoopOptions> altered_loop_ways() {
  using amp::Precision;
  return {{.precision = Precision::fp32},
          {.precision = Precision::amp_bf16, .accumulate = 2, .microbatch = 3},
          {.precision = Precision::amp_fp16, .microbatch = 4, .init_scale = 0x1p24},
          {.precision = Precision::amp_fp16, .accumulate = 3, .init_scale = 0x1p24}};
}

}  // namespace mezzo::train
