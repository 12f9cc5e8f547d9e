// ActivationCheckpointing as an algorithm: the bits of a training without it, in less memory.
#include <gtest/gtest.h>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

using algorithms::ActivationCheckpointing;
using test::message_of;

/// Three layers of a transformer with dropout.
struct Encoder final : nn::Layer {
  static nn::TransformerEncoderLayer layer() {
    return nn::TransformerEncoderLayer(32, 4, {.dim_feedforward = 64, .dropout = 0.1, .batch_first = true});
  }
  nn::Child<nn::TransformerEncoderLayer> a{*this, "a", layer()}, b{*this, "b", layer()},
      c{*this, "c", layer()};
  nn::Child<nn::Linear> head{*this, "head", nn::Linear(32, 4)};
  Tensor forward(const Tensor& x) override { return head(c(b(a(x))).mean(1)); }
};

struct Outcome {
  std::vector<std::string> bits;
  std::int64_t peak = 0;
};

Outcome trained(amp::Precision precision, std::vector<AnyCallback> algorithms) {
  manual_seed(3);
  Encoder net;
  optim::AdamW adam(net, {.lr = 1e-3});
  Generator generator(5);
  std::vector<data::Example> batches;
  for (int i = 0; i < 4; ++i)
    batches.push_back({randn({8, 24, 32}, {}, generator), randint(0, 4, {8}, {}, generator)});
  TrainerOptions options{.model = net, .loss = nn::CrossEntropyLoss()};
  options.optimizer = adam;
  options.train_loader = batches;
  options.max_duration = 2;
  options.precision = precision;
  options.microbatch = 4;
  options.algorithms = std::move(algorithms);
  options.progress_bar = false;
  options.seed = 7;
  Trainer trainer(options);
  reset_peak_memory_stats(Device::cpu());
  const std::int64_t before = memory_stats(Device::cpu()).current;
  trainer.fit();
  return {AlteredLoop::bits(net.state_dict()), memory_stats(Device::cpu()).peak - before};
}

TEST(ActivationCheckpoints, HaveTheBitsOfATrainingWithoutInLessMemory) {
  for (const auto precision :
       {amp::Precision::fp32, amp::Precision::amp_bf16, amp::Precision::amp_fp16, amp::Precision::amp_fp8}) {
    const Outcome plain = trained(precision, {});
    const Outcome all = trained(precision, {ActivationCheckpointing::of<nn::TransformerEncoderLayer>()});
    const Outcome one_layer = trained(
        precision, {ActivationCheckpointing([](const nn::Module& module) { return module.path() == "b"; })});
    EXPECT_EQ(all.bits, plain.bits);
    EXPECT_EQ(one_layer.bits, plain.bits);
    EXPECT_LT(all.peak, one_layer.peak);
    EXPECT_LT(one_layer.peak, plain.peak);
  }
}

TEST(ActivationCheckpoints, RefuseWhatChoosesNothing) {
  EXPECT_THROW(ActivationCheckpointing(nullptr), ValueError);
  EXPECT_NE(message_of<CallbackError>([] {
              return trained(amp::Precision::fp32, {ActivationCheckpointing::of<nn::Conv2d>()});
            }).find("ActivationCheckpointing: expected at least one layer of the model"),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo::train
