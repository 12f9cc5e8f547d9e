// What a Trainer costs over the loop that a user would write: steps of small and large networks over a
// data::DataLoader, with clipping, a schedule and, in f16, the scaler. One call is 64 steps.
#include <optional>
#include <string>
#include <vector>

#include "cases/program.h"
#include "mezzo/data.h"
#include "mezzo/train.h"

namespace bench {
namespace {

constexpr std::int64_t kSteps = 64;

struct Part {
  std::vector<std::int64_t> sizes;
  std::int64_t batch;
};

/// What both loops have.
struct Setup {
  explicit Setup(const Part& part)
      : adam([&] {
          for (std::size_t i = 0; i + 1 < part.sizes.size(); ++i) {
            if (i > 0) net.push_back(nn::ReLU());
            net.push_back(nn::Linear(part.sizes[i], part.sizes[i + 1]));
          }
          net.to(target_device);
          return net.parameters();
        }()),
        loader(data::TensorDataset(randn({32 * part.batch, part.sizes.front()}),
                                   randn({32 * part.batch, part.sizes.back()})),
               {.batch_size = part.batch, .shuffle = true, .device = target_device}) {}

  nn::Sequential net;
  optim::AdamW adam;
  data::DataLoader<> loader;
};

struct ByHand : Setup {
  ByHand(const Part& part, std::optional<DType> dtype)
      : Setup(part),
        region_dtype(dtype),
        schedule(adam, optim::CosineAnnealingLROptions{.T_max = 1 << 20}),
        scaler(amp::GradScalerOptions{.enabled = dtype == DType::f16}) {}

  void step(const data::Example& batch) {
    adam.zero_grad();
    Tensor loss;
    {
      std::optional<amp::Autocast> region;
      if (region_dtype) region.emplace(target_device, *region_dtype);
      loss = mse_loss(net(batch.data), batch.target);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(adam);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    schedule.step(scaler.step(adam));
    if (scaler.is_enabled()) scaler.update();
  }
  void run() {
    for (std::int64_t steps = 0; steps < kSteps;) {
      for (const auto& batch : loader) {
        step(batch);
        if (++steps == kSteps) break;
      }
    }
  }

  std::optional<DType> region_dtype;
  optim::LRScheduler schedule;
  amp::GradScaler scaler;
};

struct ByTrainer : Setup {
  ByTrainer(const Part& part, const char* precision, bool captured)
      : Setup(part),
        trainer({.model = net,
                 .loss = nn::MSELoss(),
                 .optimizer = adam,
                 .schedule = optim::CosineAnnealingLROptions{.T_max = 1 << 20},
                 .train_loader = loader,
                 .precision = precision,
                 .clip_norm = 1.0,
                 .progress_bar = false,
                 .captured = captured}) {}
  void run() { trainer.fit(train::Time(kSteps, train::TimeUnit::batch)); }

  train::Trainer trainer;
};

template <class L, class... A>
Body loop(A... arguments) {
  auto made = std::make_shared<L>(arguments...);
  return [made] { made->run(); };
}

void add_loops(Worker& worker) {
  const std::vector<std::pair<std::string, Part>> nets{{"mlp_8_64_64_4", {{8, 64, 64, 4}, 32}},
                                                       {"mlp_784_512_512_10", {{784, 512, 512, 10}, 128}}};
  for (const auto& [name, part] : nets) {
    const Part sizes = part;
    worker.add(name + "_by_hand/f32", [=] { return loop<ByHand>(sizes, std::optional<DType>()); });
    worker.add(name + "_by_hand/bf16", [=] { return loop<ByHand>(sizes, std::optional(DType::bf16)); });
    worker.add(name + "_by_hand/f16_scaler", [=] { return loop<ByHand>(sizes, std::optional(DType::f16)); });
    worker.add(name + "_trainer/f32", [=] { return loop<ByTrainer>(sizes, "fp32", false); });
    worker.add(name + "_trainer/bf16", [=] { return loop<ByTrainer>(sizes, "amp_bf16", false); });
    worker.add(name + "_trainer/f16_scaler", [=] { return loop<ByTrainer>(sizes, "amp_fp16", false); });
    worker.add(name + "_trainer/f16_scaler_captured",
               [=] { return loop<ByTrainer>(sizes, "amp_fp16", true); });
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv, bench::add_loops); }
