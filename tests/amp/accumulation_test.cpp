// Gradient accumulation: k small batches make the step of one large batch, with and without autocast and
// scaler; the scale, skipped steps and clipping belong to the large batch.
#include <gtest/gtest.h>

#include <cmath>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/core/cuda.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/clip.h"

namespace mezzo::amp {
namespace {

constexpr std::int64_t kRows = 48;  // of a large batch

std::vector<Device> devices() {
  return cuda::is_available() ? std::vector{Device::cpu(), Device::cuda()} : std::vector{Device::cpu()};
}

/// How a training runs.
struct Plan {
  Device device = Device::cpu();
  std::int64_t parts = 1;
  bool adam = false;
  DType dtype = DType::f32;  ///< of parameters and data
  std::optional<DType> region = {};
  double max_norm = 0;  ///< gradients are clipped to it; 0: not
};

/// One training, whose large batches come in parts.
class Training {
 public:
  explicit Training(const Plan& plan) : plan_(plan) {
    Generator generator(3);
    const nn::LinearOptions options{.generator = &generator};
    net_.push_back(nn::make<nn::Linear>(8, 16, options));
    net_.push_back(nn::make<nn::Tanh>());  // smooth: no gradient hangs on a bit of its input
    net_.push_back(nn::make<nn::Linear>(16, 4, options));
    net_.to(plan.device).to(plan.dtype);
    const std::vector<Tensor> parameters = net_.parameters();
    if (plan.adam)
      optimizer_ = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-2});
    else
      optimizer_ = std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }

  /// The gradients of large batch `i`; part `bad` overflows.
  void accumulate(std::uint64_t i, std::int64_t bad = -1) {
    Generator generator(100 + i);
    const TensorOptions options{.dtype = plan_.dtype, .device = plan_.device};
    const Tensor inputs = uniform(-1, 1, {kRows, 8}, options, generator);
    const Tensor targets = uniform(-1, 1, {kRows, 4}, options, generator);
    const std::int64_t rows = kRows / plan_.parts;
    for (std::int64_t part = 0; part < plan_.parts; ++part) {
      Tensor loss;
      {
        const Autocast region(plan_.device, plan_.region, {.enabled = plan_.region.has_value()});
        const Tensor output = net_(narrow(inputs, 0, part * rows, rows));
        loss = mse_loss(output, narrow(targets, 0, part * rows, rows)) / static_cast<double>(plan_.parts);
      }
      scaler_.scale(part == bad ? loss * kInf : loss).backward();
      scales_.push_back(scaler_.get_scale());
    }
  }
  /// The end of a large batch: the norm before clipping, and what became of the step.
  StepResult step() {
    if (plan_.max_norm > 0) {
      scaler_.unscale_(*optimizer_);
      norm_ = optim::clip_grad_norm_(net_.parameters(), plan_.max_norm).item();
    }
    const StepResult result = scaler_.step(*optimizer_);
    scaler_.update();
    optimizer_->zero_grad();
    return result;
  }
  void run(std::uint64_t batches) {
    for (std::uint64_t i = 0; i < batches; ++i) {
      accumulate(i);
      EXPECT_FALSE(step().skipped());
    }
  }

  [[nodiscard]] std::vector<double> values() const { return flat(net_.parameters()); }
  /// Unscaled.
  [[nodiscard]] std::vector<double> gradients() const {
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : net_.parameters()) gradients.push_back(parameter.grad());
    std::vector<double> result = flat(gradients);
    for (double& value : result) value /= scaler_.get_scale();
    return result;
  }
  /// Parameters and all that the optimizer keeps, bit by bit.
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> all_bits() const {
    std::vector<Tensor> tensors = net_.parameters();
    const optim::OptimizerState state = optimizer_->state_dict();
    for (const auto& [name, tensor] : state.tensors) tensors.push_back(tensor);
    return bits(tensors);
  }
  [[nodiscard]] const std::vector<double>& scales() const { return scales_; }
  [[nodiscard]] double norm() const { return norm_; }
  GradScaler& scaler() { return scaler_; }

 private:
  static std::vector<double> flat(const std::vector<Tensor>& tensors) {
    std::vector<double> result;
    for (const Tensor& tensor : tensors)
      for (const double value : tensor.to_vector<double>()) result.push_back(value);
    return result;
  }

  Plan plan_;
  nn::Sequential net_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  GradScaler scaler_{{.init_scale = 256, .growth_interval = 1}};
  std::vector<double> scales_;  // at every part
  double norm_ = 0;
};

/// |a - b| / |b|, as vectors.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double differences = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    differences += std::pow(a[i] - b[i], 2);
    size += std::pow(b[i], 2);
  }
  return std::sqrt(differences / size);
}

/// Gradients of one large batch and the values after three, against those of large batches in one part.
void expect_large_batch(Plan plan, double bound) {
  for (const Device device : devices()) {
    for (const bool adam : {false, true}) {
      plan.device = device;
      plan.adam = adam;
      plan.parts = 1;
      Training large(plan), large_run(plan);
      large.accumulate(0);
      large_run.run(3);
      for (const std::int64_t parts : {2, 4, 8, 3}) {
        plan.parts = parts;
        Training small(plan), small_run(plan);
        small.accumulate(0);
        small_run.run(3);
        const std::string what =
            to_string(device) + (adam ? " AdamW " : " SGD ") + std::to_string(parts) + " parts";
        EXPECT_LT(difference(small.gradients(), large.gradients()), bound) << what;
        EXPECT_LT(difference(small_run.values(), large_run.values()), bound) << what;
      }
    }
  }
}

TEST(Accumulation, EqualsTheLargeBatch) {  // G-70
  // What differs is the order of sums.
  expect_large_batch({}, 1e-6);
  expect_large_batch({.dtype = DType::f64}, 1e-13);
}

TEST(Accumulation, EqualsTheLargeBatchUnderAutocast) {
  // A part rounds what the whole rounds. Only an f32 sum in another order may tip a value over to the next
  // number of the dtype: half of the distance, for a few values.
  for (const DType dtype : {DType::f16, DType::bf16})
    expect_large_batch({.region = dtype}, info(dtype).eps / 2);
}

TEST(Accumulation, ClippingAtTheEndIsThatOfTheLargeBatch) {
  for (const Device device : devices()) {
    Plan plan{.device = device, .max_norm = 0.05};
    Training large(plan);
    large.run(3);
    EXPECT_GT(large.norm(), plan.max_norm) << "the bound is reached";
    plan.parts = 4;
    Training small(plan);
    small.run(3);
    EXPECT_NEAR(small.norm(), large.norm(), 1e-6 * large.norm());
    EXPECT_LT(difference(small.values(), large.values()), 1e-6);
    plan.max_norm = 0;
    Training free(plan);
    free.run(3);
    EXPECT_GT(difference(free.values(), large.values()), 1e-2) << "clipping makes a difference";
  }
}

TEST(Accumulation, TheScaleIsConstantBetweenTheParts) {
  Training training({.parts = 4, .region = DType::f16});
  training.run(3);  // the scale grows with every update
  EXPECT_EQ(training.scales(),
            (std::vector<double>{256, 256, 256, 256, 512, 512, 512, 512, 1024, 1024, 1024, 1024}));
}

TEST(Accumulation, OnePartThatOverflowsSkipsTheLargeBatch) {
  for (const Device device : devices()) {
    for (const double max_norm : {0.0, 1.0}) {
      for (std::int64_t bad = 0; bad < 4; ++bad) {
        const Plan plan{
            .device = device, .parts = 4, .adam = true, .region = DType::bf16, .max_norm = max_norm};
        Training with(plan), without(plan);
        for (Training* const training : {&with, &without}) training->run(2);
        const auto before = with.all_bits();
        with.accumulate(2, bad);
        EXPECT_TRUE(with.step().skipped()) << bad;
        EXPECT_EQ(with.all_bits(), before) << bad;
        EXPECT_EQ(with.scaler().get_scale(), 512) << "1024, halved once";
        EXPECT_EQ(with.scaler().steps_skipped(), 1);
        // Nothing is left over: the next batch is that of a training that never saw the bad one.
        without.scaler().update(512.0);
        for (Training* const training : {&with, &without}) {
          training->accumulate(3);
          EXPECT_FALSE(training->step().skipped()) << bad;
        }
        EXPECT_EQ(with.all_bits(), without.all_bits()) << bad;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::amp
