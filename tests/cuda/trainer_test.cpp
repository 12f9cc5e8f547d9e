// The trainer on a CUDA device: the loop by hand, and the step recorded once and replayed.
#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/cuda/device_fixture.h"
#include "mezzo/train.h"

namespace mezzo::train {
namespace {

class CudaTrainer : public test::CudaTest {
 protected:
  struct Run {
    std::vector<std::vector<double>> weights;
    std::vector<double> losses;
    std::int64_t skipped = 0;
  };

  /// 11 batches of 4 samples, and a last one of 2.
  static data::DataLoader<> loader() {
    Generator generator(7);
    return data::DataLoader(
        data::TensorDataset(randn({46, 6}, {}, generator), randint(0, 3, {46}, {}, generator)),
        {.batch_size = 4, .shuffle = true, .seed = 2, .device = Device::cuda(0)});
  }

  struct Training {
    explicit Training(const std::string& name) : precision(name) {
      manual_seed(3);
      net = nn::make<nn::Sequential>(nn::Linear(6, 16), nn::ReLU(), nn::Dropout(0.25), nn::Linear(16, 3));
      net->to(Device::cuda(0));
      adam = std::make_unique<optim::AdamW>(*net, optim::AdamWOptions{.lr = 0.01});
      manual_seed(9);
    }
    [[nodiscard]] amp::GradScalerOptions scaling() const {
      return {.init_scale = 1e9, .growth_interval = 4, .enabled = precision == "amp_fp16"};
    }
    void note(Run& run) const {
      for (const auto& [name, tensor] : net->state_dict())
        run.weights.push_back(tensor.to(DType::f64).to_vector<double>());
    }

    std::string precision;
    std::shared_ptr<nn::Sequential> net;
    std::unique_ptr<optim::AdamW> adam;
    data::DataLoader<> batches{loader()};
  };

  static Run by_hand(const std::string& precision) {
    Training training(precision);
    Run run;
    amp::GradScaler scaler(training.scaling());
    optim::LRScheduler schedule(*training.adam, optim::CosineAnnealingLROptions{.T_max = 30});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& [x, target] : training.batches) {
        training.adam->zero_grad();
        Tensor loss;
        if (precision == "fp32") {
          loss = cross_entropy((*training.net)(x), target);
        } else {
          const amp::Autocast region(Device::cuda(0), precision == "amp_fp16" ? DType::f16 : DType::bf16);
          loss = cross_entropy((*training.net)(x), target);
        }
        scaler.scale(loss).backward();
        scaler.unscale_(*training.adam);
        optim::clip_grad_norm_(training.net->parameters(), 0.5);
        schedule.step(scaler.step(*training.adam));
        if (scaler.is_enabled()) scaler.update();
        run.losses.push_back(loss.item());
      }
    }
    run.skipped = scaler.is_enabled() ? scaler.steps_skipped() : 0;
    training.note(run);
    return run;
  }

  static Run by_trainer(const std::string& precision, bool captured) {
    Training training(precision);
    Run run;
    auto scaling = training.scaling();
    scaling.enabled = true;
    Trainer trainer(
        {.model = *training.net,
         .loss = nn::CrossEntropyLoss(),
         .optimizer = *training.adam,
         .schedule = optim::CosineAnnealingLROptions{.T_max = 30},
         .train_loader = training.batches,
         .max_duration = 2,
         .precision = precision,
         .scaler = scaling,
         .clip_norm = 0.5,
         .callbacks = {on(Event::batch_end, [&](State& state) { run.losses.push_back(state.loss.item()); })},
         .progress_bar = false,
         .captured = captured});
    trainer.fit();
    run.skipped = trainer.state().scaler->steps_skipped();
    training.note(run);
    return run;
  }
};

TEST_F(CudaTrainer, HasTheBitsOfTheLoopByHandCapturedOrNot) {
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const Run expected = by_hand(precision);
    ASSERT_EQ(expected.losses.size(), 24U);
    EXPECT_EQ(expected.skipped > 0, std::string(precision) == "amp_fp16");
    for (const bool captured : {false, true}) {
      const Run run = by_trainer(precision, captured);
      EXPECT_EQ(run.losses, expected.losses) << precision << captured;
      EXPECT_TRUE(run.weights == expected.weights) << precision << captured;
      EXPECT_EQ(run.skipped, expected.skipped) << precision << captured;
    }
  }
}

TEST_F(CudaTrainer, TheDefaultPrecisionIsAmpFp16) {
  Training training("amp_fp16");
  Trainer trainer({.model = *training.net,
                   .loss = nn::CrossEntropyLoss(),
                   .optimizer = *training.adam,
                   .progress_bar = false});
  EXPECT_EQ(trainer.state().precision, amp::Precision::amp_fp16);
  EXPECT_TRUE(trainer.state().scaler->is_enabled());
}

TEST_F(CudaTrainer, AnOptimizerMadeBeforeTheMoveIsRefused) {
  nn::Linear net(2, 2);
  optim::SGD sgd(net);
  EXPECT_THROW(Trainer({.model = net, .loss = nn::MSELoss(), .optimizer = sgd, .device = Device::cuda(0)}),
               DeviceError);
}

TEST_F(CudaTrainer, IgnoredTargetsCountNothingCapturedOrNot) {
  // Two batches of a step, of which the second has nothing that counts, or less than the first.
  Generator generator(5);
  const Tensor x = randn({8, 6}, {}, generator);
  for (const std::int64_t ignored : {4, 3}) {
    Tensor target = randint(0, 3, {8}, {}, generator);
    target.narrow(0, 4, ignored).fill_(-100);
    const auto train = [&](bool captured, std::int64_t batch) {
      manual_seed(3);
      nn::Linear net(6, 3);
      net.to(Device::cuda(0));
      optim::SGD sgd(net, {.lr = 0.5});
      std::vector<data::Example> batches;
      for (std::int64_t i = 0; i < 8; i += batch)
        batches.push_back(
            {narrow(x, 0, i, batch).to(Device::cuda(0)), narrow(target, 0, i, batch).to(Device::cuda(0))});
      Trainer trainer({.model = net,
                       .loss = nn::CrossEntropyLoss(),
                       .optimizer = sgd,
                       .train_loader = batches,
                       .max_duration = "3ep",
                       .precision = "fp32",
                       .accumulate = 8 / batch,
                       .progress_bar = false,
                       .captured = captured});
      trainer.fit();
      std::vector<double> values = net.weight->to_vector<double>();
      values.push_back(trainer.state().loss.item());
      return values;
    };
    const std::vector<double> whole = train(false, 8);
    for (const bool captured : {false, true}) {
      const std::vector<double> parts = train(captured, 4);
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_NEAR(parts[i], whole[i], 2e-6) << ignored << captured;
    }
  }
}

}  // namespace
}  // namespace mezzo::train
