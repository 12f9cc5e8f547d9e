// Memory of training: the peak is what the algorithm needs and not a byte more, and nothing stays behind.
#include <gtest/gtest.h>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/policy.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/optim/adam.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

std::int64_t live_bytes() { return memory_stats(kCpu).current; }

/// The timing sample's model in small: three linear layers of one width with ReLU between, MSE, SGD.
struct Sample {
  Sample(std::int64_t batch_in, std::int64_t width_in) : batch(batch_in), width(width_in) {
    for (int layer = 0; layer < 3; ++layer) {
      parameters.push_back(full({width, width}, 0.01).requires_grad_());
      parameters.push_back(zeros({width}).requires_grad_());
    }
  }
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    Tensor h = x;
    for (std::size_t layer = 0; layer < 3; ++layer) {
      if (layer > 0) h = relu(h);
      h = linear(h, parameters[2 * layer], parameters[2 * layer + 1]);
    }
    return h;
  }
  // In bytes.
  [[nodiscard]] std::int64_t activation() const { return batch * width * 4; }
  [[nodiscard]] std::int64_t layer() const { return (width * width + width) * 4; }

  std::int64_t batch, width;
  std::vector<Tensor> parameters;
};

/// Peak of the second iteration, when the optimizer has its state and gradients come and go.
std::int64_t peak_of_iteration(std::int64_t batch, std::int64_t width) {
  const std::int64_t before = live_bytes();
  const Sample net(batch, width);
  const Tensor input = full({batch, width}, 0.5), target = zeros({batch, width});
  optim::SGD optimizer(net.parameters, {.lr = 1e-3});
  for (int i = 0; i < 2; ++i) {
    reset_peak_memory_stats(kCpu);
    const Tensor loss = mse_loss(net.forward(input), target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return memory_stats(kCpu).peak - before;
}

// Learning rate and momentum, six step counts, and the loss.
constexpr std::int64_t kScalars = 2 * 8 + 6 * 8 + 4;

TEST(TrainingMemory, OfAWideModelIsDataTwiceTheParametersAndOneActivation) {  // V-15
  // The most is held at the end of backward: all gradients, and that of the first layer's output.
  constexpr std::int64_t kBatch = 32, kWidth = 256;
  const Sample net(kBatch, kWidth);
  const std::int64_t data = 2 * net.activation(), parameters = 3 * net.layer();
  EXPECT_EQ(peak_of_iteration(kBatch, kWidth), data + 2 * parameters + 1 * net.activation() + kScalars);
}

TEST(TrainingMemory, OfALargeBatchIsDataParametersOneLayersGradientAndFourActivations) {  // V-15
  // The most is held in the backward of the last layer: the outputs of both ReLUs, the gradients of its
  // output and of its input, and those of its weight and bias.
  constexpr std::int64_t kBatch = 512, kWidth = 64;
  const Sample net(kBatch, kWidth);
  const std::int64_t data = 2 * net.activation(), parameters = 3 * net.layer();
  EXPECT_EQ(peak_of_iteration(kBatch, kWidth),
            data + parameters + net.layer() + 4 * net.activation() + kScalars);
}

TEST(TrainingMemory, NothingStaysBehindAfterARunWithAutocastScalerAndAdam) {
  const std::int64_t before = live_bytes();
  {
    const Mlp net;
    optim::Adam optimizer(net.parameters, {.lr = 0.01, .amsgrad = true});
    GradScaler scaler({.init_scale = 128, .growth_interval = 3});
    for (std::uint64_t i = 0; i < 10; ++i) {
      const Batch batch(i);
      Tensor loss;
      {
        const Autocast region(kCpu, i < 5 ? DType::f16 : DType::bf16);
        loss = mse_loss(net.forward(batch.input), batch.target);
      }
      scaler.scale(loss).backward();
      if (i == 4) net.parameters[0].grad().fill_(kInf);
      scaler.step(optimizer);
      scaler.update();
      optimizer.zero_grad();
    }
    EXPECT_GT(live_bytes(), before);
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(TrainingMemory, DoesNotGrowFromIterationToIteration) {
  const Mlp net;
  optim::SGD optimizer(net.parameters, {.lr = 0.01, .momentum = 0.9});
  GradScaler scaler({.init_scale = 128});
  std::vector<std::int64_t> live;
  for (std::uint64_t i = 0; i < 6; ++i) {
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = mse_loss(net.forward(Batch(0).input), Batch(0).target);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    live.push_back(live_bytes());
  }
  for (std::size_t i = 2; i < live.size(); ++i) EXPECT_EQ(live[i], live[1]) << i;
}

// --- relu's mask under autocast

TEST(AutocastMemory, OfAnF32ReluWhoseResultIsCastIsAByteAndTwo) {
  constexpr std::int64_t kCount = 1 << 16;
  const Tensor x = full({kCount}, 0.5).requires_grad_();
  const Autocast region(kCpu, DType::bf16);
  const std::int64_t before = live_bytes();
  const Tensor copy = relu(x).to(DType::bf16);
  EXPECT_EQ(live_bytes() - before, kCount * (1 + 2)) << "the mask and the copy, not the f32 result";
}

TEST(AutocastMemory, OfA16BitReluIsItsResult) {
  constexpr std::int64_t kCount = 1 << 16;
  const Tensor x = full({kCount}, 0.5, {.dtype = DType::bf16}).requires_grad_();
  const Autocast region(kCpu, DType::bf16);
  const std::int64_t before = live_bytes();
  const Tensor y = relu(x);
  EXPECT_EQ(live_bytes() - before, kCount * 2);
}

TEST(AutocastMemory, OfAReluWithoutHistoryIsItsResult) {
  const Tensor x = full({1 << 16}, 0.5).requires_grad_();
  const Autocast region(kCpu, DType::bf16);
  const NoGrad no_grad;
  const std::int64_t before = live_bytes();
  const Tensor y = relu(x);
  EXPECT_EQ(live_bytes() - before, y.numel() * 4);
}

/// relu(x)'s gradient for `grad`, inside a region or without one.
Tensor relu_gradient(const Tensor& values, const Tensor& grad, bool in_region) {
  const Tensor x = values.detach().requires_grad_();
  const Tensor y = [&] {
    const Autocast region(kCpu, DType::bf16, {.enabled = in_region});
    return relu(x);
  }();
  y.backward(grad);
  return x.grad();
}

TEST(ReluMask, GivesTheGradientOfRelu) {
  const Tensor x = tensor({-1.0, -0.0, 0.0, 1e-45, -1e-45, 1e-40, 2.0, kInf, -kInf, kNan, 3.0, 4.0});
  const Tensor grad = tensor({1.0, kNan, kInf, 2.0, kNan, -0.0, kNan, -kInf, kInf, 5.0, 1e-45, -6.0});
  EXPECT_EQ(bits(relu_gradient(x, grad, true)), bits(relu_gradient(x, grad, false)));
}

TEST(ReluMask, GivesItForImagesOfEitherFormatAndForViews) {
  Generator generator(3);
  const Tensor image = randn({2, 3, 5, 7}, {}, generator), grad = randn({2, 3, 5, 7}, {}, generator);
  const Tensor last = image.contiguous(MemoryFormat::channels_last);
  const Tensor view = randn({7, 5, 3, 4}, {}, generator).permute({3, 2, 1, 0}).slice(0, 0, 4, 2);
  for (const Tensor& x : {image, last, view}) {
    const Tensor masked = relu_gradient(x, grad, true), plain = relu_gradient(x, grad, false);
    EXPECT_EQ(bits(masked.contiguous()), bits(plain.contiguous()));
    EXPECT_EQ(masked.strides(), plain.strides());
  }
}

TEST(ReluMask, HasSecondGradientsOfRelu) {
  const Tensor x = tensor({-1.0, 0.0, 2.0, 3.0}).requires_grad_();
  const Tensor y = [&] {
    const Autocast region(kCpu, DType::bf16);
    return relu(x);
  }();
  const Tensor v = tensor({1.0, 1.0, 2.0, 3.0}).requires_grad_();
  const Tensor first = grad(y, x, v, {.create_graph = true})[0];
  EXPECT_EQ(bits(first), bits(tensor({0.0, 0.0, 2.0, 3.0})));
  EXPECT_EQ(bits(grad(sum(first * first), v)[0]), bits(tensor({0.0, 0.0, 4.0, 6.0})));
}

TEST(ReluMask, FollowsAnOverrideOfRelu) {
  const Tensor x = tensor({-1.0, 1.0 + 0x1p-20}).requires_grad_();
  const PolicyOverride lower("relu", Category::lower_precision);
  const Autocast region(kCpu, DType::bf16);
  const Tensor y = relu(x);
  EXPECT_EQ(y.dtype(), DType::bf16);
  sum(y).backward();
  EXPECT_EQ(bits(x.grad()), bits(tensor({0.0, 1.0})));
}

}  // namespace
}  // namespace mezzo::amp
