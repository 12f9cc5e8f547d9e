// Metrics on the device: the CPU's values, and no reads before the value is asked for.
#include "mezzo/train/metrics.h"

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/core/backend.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

class CudaMetrics : public twin::CudaTwin {};

TEST_F(CudaMetrics, ClassesAreThoseOfTheCpu) {
  twin::expect_same([](Device device, twin::Trace& trace) {
    const Tensor target =
        (twin::values(7, {64}, DType::f64, Device::cpu()).abs() * 9).floor().to(DType::i64).to(device);
    const Tensor logits = twin::values(8, {64, 9}, DType::f16, device);
    train::Accuracy accuracy;
    train::TopKAccuracy top(3);
    train::ConfusionMatrix confusion(9, {.ignore_index = 4});
    train::F1Score f1(9, {.average = train::Average::none});
    train::Perplexity perplexity;
    const std::uint64_t reads = host_reads();
    {
      const amp::Autocast autocast(device, DType::f16);
      for (int i = 0; i < 2; ++i) {
        accuracy.update(logits, target);
        top.update(logits, target);
        confusion.update(logits, target);
        f1.update(logits, target);
        perplexity.update(logits, target);
      }
    }
    const Tensor value = accuracy.compute();
    EXPECT_EQ(host_reads(), reads);
    EXPECT_EQ(value.device(), device);
    trace.add("accuracy", value);
    trace.add("top 3", top.compute());
    trace.add("confusion", confusion.compute());
    trace.add("f1", f1.compute());
    // exp and log of the devices differ in their last bits.
    trace.add("perplexity", perplexity.compute().to(DType::f32));
  });
}

TEST_F(CudaMetrics, NumbersAreThoseOfTheCpuAndMergeAcrossDevices) {
  twin::expect_same([](Device device, twin::Trace& trace) {
    const Tensor preds = twin::values(1, {40}, DType::f32, device),
                 target = twin::values(2, {40}, DType::f32, device);
    train::MeanSquaredError mse, host;
    train::R2Score r2;
    train::Mean mean;
    mse.update(preds, target);
    host.update(preds.cpu(), target.cpu());
    r2.update(preds, target);
    mean.update(preds, 0.5);
    mean.update(3.0);
    host.merge(mse);
    trace.add("mse", mse.compute());
    trace.add("merged", host.compute());
    trace.add("r2", r2.compute());
    trace.add("mean", mean.compute());
  });
}

TEST_F(CudaMetrics, ARecordedStepUpdatesThem) {
  const Tensor logits = zeros({8, 3}, Device::cuda()),
               target = zeros({8}, {.dtype = DType::i64, .device = Device::cuda()});
  train::Accuracy accuracy;
  train::ConfusionMatrix confusion(3);
  train::F1Score f1(3, {.average = train::Average::micro});
  train::Perplexity perplexity;
  train::Mean mean, number;
  amp::CapturedStep step(
      Device::cuda(),
      [&] {
        accuracy.update(logits, target);
        confusion.update(logits, target);
        f1.update(logits, target);
        perplexity.update_loss(cross_entropy(logits, target), 8);
        mean.update(logits);
        number.update(2.0, 0.5);
        return Tensor();
      },
      2);
  for (int i = 0; i < 2; ++i) step();
  for (train::Metric* const metric :
       std::vector<train::Metric*>{&accuracy, &confusion, &f1, &perplexity, &mean, &number})
    metric->reset();
  for (int i = 0; i < 4; ++i) {
    logits.copy_(twin::values(static_cast<std::uint64_t>(i), {8, 3}, DType::f32, Device::cuda()));
    step();
  }
  EXPECT_TRUE(step.is_recorded());
  train::Accuracy expected;
  train::Mean expected_mean;
  for (int i = 0; i < 4; ++i) {
    const Tensor values = twin::values(static_cast<std::uint64_t>(i), {8, 3}, DType::f32, Device::cpu());
    expected.update(values, target.cpu());
    expected_mean.update(values);
  }
  EXPECT_EQ(accuracy.value(), expected.value());
  EXPECT_EQ(f1.value(), expected.value());
  EXPECT_DOUBLE_EQ(mean.value(), expected_mean.value());
  EXPECT_EQ(number.value(), 2);
  EXPECT_EQ(sum(confusion.compute()).item(), 32);
  EXPECT_EQ(perplexity.state()[1].item(), 32);
}

TEST_F(CudaMetrics, AnotherDeviceIsRefused) {
  train::Mean mean;
  mean.update(tensor({1.0}));
  EXPECT_THROW(mean.update(tensor({1.0}).cuda()), DeviceError);
}

}  // namespace
}  // namespace mezzo
