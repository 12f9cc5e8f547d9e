// Trainings by a Trainer over a data::DataLoader. "<net>_trainer" beside "<net>_by_hand" is what it costs
// over the loop that a user would write, with clipping, a schedule and, in f16, the scaler; one call is 64
// steps.
// "<model>_loop" is a model of the examples, for peers that train the same from their own loader; one call is
// 8 steps.
#include <optional>
#include <string>
#include <vector>

#include "cases/models.h"
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

/// A model of the examples and 32 batches of data.
struct Example {
  std::shared_ptr<nn::Layer> net;
  Tensor inputs, targets;
  std::int64_t batch;
};

Example mnist_cnn() { return {conv_net(), randn({32 * 64, 1, 28, 28}), randint(0, 10, {32 * 64}), 64}; }
Example char_gpt() {
  const GptSizes sizes{.layers = 4, .width = 128, .heads = 4, .context = 128};
  return {nn::make<Gpt>(sizes), randint(0, 256, {32 * 8, 128}), randint(0, 256, {32 * 8, 128}), 8};
}
Example cifar_resnet() { return {resnet18(), randn({32 * 16, 3, 32, 32}), randint(0, 10, {32 * 16}), 16}; }

class ExampleLoop {
 public:
  ExampleLoop(Example (*make)(), const char* precision)
      : example_(make()),
        adam_(example_.net->to(target_device).parameters(), {.lr = 1e-3}),
        loader_(data::TensorDataset(example_.inputs, example_.targets),
                {.batch_size = example_.batch, .shuffle = true, .device = target_device}),
        trainer_({.model = example_.net,
                  .loss =
                      [](const Tensor& y, const Tensor& target) {
                        return cross_entropy(y.reshape({-1, y.size(-1)}), target.reshape({-1}));
                      },
                  .optimizer = adam_,
                  .train_loader = loader_,
                  .precision = precision,
                  .clip_norm = 1.0,
                  .algorithms = {train::algorithms::ChannelsLast{}},
                  .progress_bar = false}) {}
  void run() { trainer_.fit("8ba"); }

 private:
  Example example_;
  optim::AdamW adam_;
  data::DataLoader<> loader_;
  train::Trainer trainer_;
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

void add_examples(Worker& worker) {
  const std::vector<std::pair<std::string, Example (*)()>> examples{
      {"mnist_cnn", mnist_cnn}, {"char_gpt", char_gpt}, {"cifar_resnet", cifar_resnet}};
  const std::vector<std::pair<std::string, const char*>> modes{
      {"/f32", "fp32"}, {"/bf16", "amp_bf16"}, {"/f16_scaler", "amp_fp16"}};
  for (const auto& [name, example] : examples) {
    for (const auto& [mode, setting] : modes) {
      worker.add(name + "_loop" + mode,
                 [make = example, precision = setting] { return loop<ExampleLoop>(make, precision); });
    }
  }
}

void add_all(Worker& worker) {
  add_loops(worker);
  add_examples(worker);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv, bench::add_all); }
