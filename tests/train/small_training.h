// A training that has all that a checkpoint must bring back: dropout, batch norm, shuffled batches,
// accumulation, clipping, a schedule, a scaler with steps that overflow, and an average of the weights.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace mezzo::train {

struct Recipe {
  std::string name;
  DType dtype = DType::f32;      ///< of the autocast region, or of the parameters
  bool half_parameters = false;  ///< 16-bit parameters with f32 masters, without a region
};

class SmallTraining {
 public:
  explicit SmallTraining(const Recipe& recipe) : recipe_(recipe) {
    manual_seed(3);
    net_ = nn::make<nn::Sequential>(nn::Linear(6, 16), nn::BatchNorm1d(16), nn::ReLU(), nn::Dropout(0.25),
                                    nn::Linear(16, 4));
    if (recipe.half_parameters) net_->to(recipe.dtype);
    adam_.emplace(*net_, optim::AdamWOptions{.lr = 0.01, .master_weights = recipe.half_parameters});
    schedule_.emplace(*adam_, optim::CosineAnnealingLROptions{.T_max = 20});
    ema_.emplace(*net_, optim::EMAOptions{.decay = 0.5});
    scaler_.emplace(amp::GradScalerOptions{
        .init_scale = 1024, .growth_interval = 3, .enabled = recipe.dtype == DType::f16});
    Generator generator(11);
    loader_.emplace(data::TensorDataset(randn({44, 6}, {}, generator), randint(0, 4, {44}, {}, generator)),
                    data::DataLoaderOptions{.batch_size = 8, .shuffle = true, .seed = 5, .num_workers = 1});
  }

  [[nodiscard]] Parts parts() {
    return {{"model", *net_}, {"optimizer", *adam_},          {"schedule", *schedule_},
            {"ema", *ema_},   {"scaler", *scaler_},           {"loader", *loader_},
            {"step", step_},  {"random", default_generator()}};
  }
  /// Batches so far.
  [[nodiscard]] std::int64_t steps() const noexcept { return step_; }
  [[nodiscard]] std::int64_t skipped() const { return scaler_->steps_skipped(); }

  /// Forward and backward of a batch; every third one is followed by a step.
  void micro_step() {
    if (batch_ != loader_->end()) ++batch_;
    while (batch_ == loader_->end()) batch_ = loader_->begin();
    Tensor loss;
    {
      const Tensor x = recipe_.half_parameters ? batch_->data.to(recipe_.dtype) : batch_->data;
      std::optional<amp::Autocast> region;
      if (!recipe_.half_parameters && recipe_.dtype != DType::f32)
        region.emplace(DeviceType::cpu, recipe_.dtype);
      loss = cross_entropy((*net_)(x), batch_->target) / 3;
    }
    // Some steps overflow.
    scaler_->scale(step_ % 7 == 4 && scaler_->is_enabled() ? loss * INFINITY : loss).backward();
    ++step_;
    if (step_ % 3 == 0) {
      scaler_->unscale_(*adam_);
      optim::clip_grad_norm_(net_->parameters(), 0.5);
      const amp::StepResult result = scaler_->step(*adam_);
      schedule_->step(result);
      ema_->update(result);
      scaler_->update();
      adam_->zero_grad();
    }
  }

  /// All that the training has, bit by bit.
  [[nodiscard]] std::vector<std::string> bits() {
    std::vector<std::string> result;
    const io::TensorFile file = detail::checkpoint_of(parts(), {});
    for (const auto& [name, tensor] : file.tensors) {
      const Tensor row = tensor.contiguous();
      const auto* const data = static_cast<const char*>(row.impl().data());
      result.push_back(name + ":" +
                       std::string(data, static_cast<std::size_t>(row.numel() * size_of(row.dtype()))));
    }
    result.push_back(file.metadata.at("mezzo.values"));
    return result;
  }

 private:
  Recipe recipe_;
  std::shared_ptr<nn::Sequential> net_;
  std::optional<optim::AdamW> adam_;
  std::optional<optim::CosineAnnealingLR> schedule_;
  std::optional<optim::EMA> ema_;
  std::optional<amp::GradScaler> scaler_;
  std::optional<data::DataLoader<data::Example>> loader_;
  data::DataLoader<data::Example>::iterator batch_;
  std::int64_t step_ = 0;
};

}  // namespace mezzo::train
