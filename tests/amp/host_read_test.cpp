// A training step reads nothing back to the host, whatever happens in it.
#include <gtest/gtest.h>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"

namespace mezzo::amp {
namespace {

constexpr int kSteps = 100, kAccumulate = 3;

/// Host reads of 100 steps under autocast and a scaler, each accumulated over three batches, with clipping, a
/// changing learning rate, and an overflow in every seventh step.
std::uint64_t reads_of_training(bool with_item) {
  const Mlp net;
  optim::AdamW optimizer(net.parameters, {.lr = 0.01});
  GradScaler scaler({.init_scale = 256, .growth_interval = 5});
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < kAccumulate; ++i) batches.emplace_back(i);
  const Tensor one = ones({}), huge = full({}, 1e30);
  const std::uint64_t before = host_reads();
  Tensor loss;
  for (int step = 0; step < kSteps; ++step) {
    for (const Batch& batch : batches) {
      {
        const Autocast region(Device::cpu(), DType::f16);
        loss = mse_loss(net.forward(batch.input), batch.target) / kAccumulate;
      }
      scaler.scale(loss * (step % 7 == 3 ? huge : one)).backward();
    }
    if (step % 2 == 0) {
      scaler.unscale_(optimizer);
      optim::clip_grad_norm_(net.parameters, 0.5);
    }
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad(step % 3 != 0);
    optimizer.set_lr(0.01 / (step + 1));
  }
  if (with_item) static_cast<void>(loss.item());
  const std::uint64_t reads = host_reads() - before;
  // The overflows were real, and steps were made.
  EXPECT_EQ(scaler.steps_skipped(), 14);
  EXPECT_EQ(scaler.steps_ok(), kSteps - 14);
  EXPECT_NE(bits(net.parameters), bits(Mlp().parameters));
  return reads;
}

TEST(HostRead, AHundredStepsReadNothing) { EXPECT_EQ(reads_of_training(false), 0U); }

TEST(HostRead, OneItemIsOneRead) { EXPECT_EQ(reads_of_training(true), 1U); }

}  // namespace
}  // namespace mezzo::amp
