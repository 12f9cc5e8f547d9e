// GradScaler looks at the operands of large weight gradients instead of the gradients: it must skip exactly
// when a look at every element would. On the best device that is there.
#include "mezzo/autograd/finite_proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"

namespace mezzo::amp {
namespace {

bool has_nonfinite(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  return std::any_of(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
}

/// One linear layer in autocast with an input and an output gradient that the test chooses.
class FiniteProofTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 4, kIn = 128, kOut = 96;

  void forward_and_backward(DType dtype = DType::f16) {
    Tensor output;
    {
      const Autocast autocast(device, dtype);
      output = linear(input, weight, bias);
    }
    static_cast<void>(scaler.scale(zeros({}, {.device = device})));
    output.backward(output_gradient.to(output.dtype()), {});
  }
  /// Whether the scaler's step was skipped, because of the weight then.
  bool step() {
    const StepResult result = scaler.step(optimizer);
    scaler.update();
    EXPECT_EQ(result.first_nonfinite(), result.skipped() ? std::optional<std::size_t>(0) : std::nullopt);
    return result.skipped();
  }

  Device device = Device::best();
  Tensor input = full({kBatch, kIn}, 0.5, {.dtype = DType::f16, .device = device});
  Tensor output_gradient = full({kBatch, kOut}, -2.0, {.dtype = DType::f16, .device = device});
  Tensor weight = full({kOut, kIn}, 0.25, {.device = device}).requires_grad_();
  Tensor bias = zeros({kOut}, {.device = device}).requires_grad_();
  optim::SGD optimizer{std::vector<Tensor>{weight, bias}, {.lr = 1}};
  GradScaler scaler{{.init_scale = 4}};
};

TEST_F(FiniteProofTest, ALargeWeightGradientIsProvenByItsOperands) {
  forward_and_backward();
  const std::span<const Tensor> proof = finite_proof(weight.grad());
  ASSERT_EQ(proof.size(), 2U);
  std::int64_t elements = 0;
  for (const Tensor& operand : proof) {
    EXPECT_EQ(operand.dtype(), DType::f16);
    elements += operand.numel();
  }
  EXPECT_EQ(elements, kBatch * (kIn + kOut));
  EXPECT_TRUE(finite_proof(bias.grad()).empty());
  EXPECT_FALSE(step());
}

TEST_F(FiniteProofTest, SkipsWhateverOperandHoldsTheBadValue) {
  for (const double bad : {kInf, -kInf, kNan}) {
    for (const Tensor& operand : {input, output_gradient}) {
      for (const std::int64_t at : {std::int64_t{0}, operand.numel() / 2 + 1, operand.numel() - 1}) {
        const Tensor element = select(reshape(operand, {-1}), 0, at);
        const double good = element.item();
        element.fill_(bad);
        forward_and_backward();
        EXPECT_FALSE(finite_proof(weight.grad()).empty());
        EXPECT_TRUE(has_nonfinite(weight.grad())) << "the gradient itself agrees";
        EXPECT_TRUE(step()) << bad << " at " << at;
        element.fill_(good);
        optimizer.zero_grad();
        forward_and_backward();
        EXPECT_FALSE(step()) << "finite again";
        optimizer.zero_grad();
      }
    }
  }
  EXPECT_EQ(scaler.steps_skipped(), 18);
}

TEST_F(FiniteProofTest, TheLargestFiniteOperandsDoNotOverflow) {
  input.fill_(65504);
  output_gradient.fill_(65504);
  forward_and_backward();
  EXPECT_EQ(
      weight.grad().to_vector<double>(),
      std::vector<double>(kOut * kIn, static_cast<double>(static_cast<float>(kBatch * 65504.0 * 65504.0))));
  EXPECT_FALSE(step());
}

TEST_F(FiniteProofTest, AWriteSinceEndsTheProof) {
  forward_and_backward();
  weight.grad().mul_(kInf);
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_TRUE(step());

  optimizer.zero_grad();
  forward_and_backward();
  input.fill_(kInf);  // the gradient is what it was
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_FALSE(step());
}

TEST_F(FiniteProofTest, AnAccumulatedGradientHasNone) {
  input.fill_(kNan);
  forward_and_backward();
  input = full({kBatch, kIn}, 0.5, {.dtype = DType::f16, .device = device});
  forward_and_backward();
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_TRUE(step());
}

TEST_F(FiniteProofTest, AReplacedGradientHasNone) {
  weight.register_hook([](const Tensor& gradient) { return mul(gradient, full_like(gradient, kNan)); });
  forward_and_backward();
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_TRUE(step());
}

TEST_F(FiniteProofTest, OnlyForProductsOfF16ThatCannotOverflow) {
  input = input.to(DType::f32);
  forward_and_backward(DType::bf16);
  EXPECT_TRUE(finite_proof(weight.grad()).empty()) << "bf16 reaches as far as f32";
  optimizer.zero_grad();
  mse_loss(linear(input, weight, bias), full({kBatch, kOut}, 0.0, {.device = device})).backward();
  EXPECT_TRUE(finite_proof(weight.grad()).empty()) << "f32";
}

TEST_F(FiniteProofTest, ASmallGradientIsRead) {
  weight = full({kOut, 16}, 0.25, {.device = device}).requires_grad_();
  input = full({1, 16}, 0.5, {.dtype = DType::f16, .device = device});
  output_gradient = full({1, kOut}, kInf, {.dtype = DType::f16, .device = device});
  optim::SGD small{std::vector<Tensor>{weight, bias}, {.lr = 1}};
  forward_and_backward();
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_TRUE(scaler.step(small).skipped());
}

TEST_F(FiniteProofTest, OperandsAsLargeAsTheGradientAreNotKept) {
  input = full({kOut, kIn}, 0.5, {.dtype = DType::f16, .device = device});
  output_gradient = full({kOut, kOut}, 1.0, {.dtype = DType::f16, .device = device});
  forward_and_backward();
  EXPECT_TRUE(finite_proof(weight.grad()).empty());
  EXPECT_FALSE(step());
}

}  // namespace
}  // namespace mezzo::amp
