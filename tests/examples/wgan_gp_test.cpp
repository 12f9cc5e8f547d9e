// examples/wgan_gp: the gradient that its penalty is made of beside finite differences, and the program as a
// user runs it.
#include <gtest/gtest.h>

#include "../examples/wgan_gp/model.h"
#include "examples/trained_program.h"
#include "mezzo/core/cuda.h"
#include "support/sanitizer.h"

namespace mezzo {
namespace {

/// A critic that is w x has the gradient w everywhere, whatever scale and precision.
TEST(WGANModel, GradientNormsOfALinearCriticAreItsWeights) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    nn::Sequential critic(nn::Linear(2, 1));
    const NoGrad no_grad;
    critic.parameters()[0].copy_(tensor({{3.0, -4.0}}));
    const EnableGrad enable_grad;
    amp::GradScaler scaler({.enabled = dtype == DType::f16});
    const Setting setting{Device::cpu(), dtype};
    const Tensor x = randn({300, 2}).requires_grad_();
    const Tensor norms = wgan::gradient_norms(critic, x, scaler, setting, true);
    ASSERT_EQ(norms.shape(), Shape{300});
    // Of 1/300 in 16 bits, and products with 3 and 4.
    const double rounding = dtype == DType::f32 ? 0x1p-22 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    EXPECT_NEAR(amax(norms).item(), 5, 5 * rounding);
    EXPECT_NEAR(amin(norms).item(), 5, 5 * rounding);
    // d norm / d w = w / norm, added up over 300 samples in f32.
    const double tolerance = 4 * rounding + 300 * 0x1p-24;
    mean(norms).backward();
    const auto gradient = critic.parameters()[0].grad().to_vector<float>();
    EXPECT_NEAR(gradient.at(0), 0.6, tolerance) << to_string(dtype);
    EXPECT_NEAR(gradient.at(1), -0.8, tolerance) << to_string(dtype);
  }
}

/// In f64 beside central differences, in every weight.
TEST(WGANModel, ThePenaltysGradientIsThatOfItsValues) {
  manual_seed(1);
  nn::Sequential critic(nn::Linear(2, 5), nn::Tanh(), nn::Linear(5, 1));
  critic.to(DType::f64);
  const Tensor x = randn({7, 2}, {.dtype = DType::f64}).requires_grad_();
  amp::GradScaler scaler({.enabled = false});
  const Setting setting{Device::cpu(), DType::f32};
  const auto penalty = [&] {
    return mean(square(wgan::gradient_norms(critic, x, scaler, setting, true) - 1));
  };
  penalty().backward();
  for (const Tensor& parameter : critic.parameters()) {
    if (!parameter.grad().defined()) continue;  // the last bias is in no gradient
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      constexpr double kStep = 1e-4;
      const auto moved = [&](double by) {
        const NoGrad no_grad;
        const Tensor element = parameter.view({-1})[i];
        const double before = element.item();
        element.fill_(before + by);
        const EnableGrad enable_grad;
        const double value = penalty().item();
        element.fill_(before);
        return value;
      };
      const double difference = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      EXPECT_NEAR(parameter.grad().view({-1})[i].item(), difference, 1e-6);
    }
  }
}

class WGANProgram : public test::TrainedProgram {
 protected:
  WGANProgram() : TrainedProgram("wgan_gp") {}
};

TEST_F(WGANProgram, EndsWithAGradientOfLength1InEveryPrecision) {
  // A heavier penalty is there in fewer steps, with a generator that has learned less.
  const std::string steps = test::under_sanitizer() ? "--steps 300 --penalty 20 " : "--steps 2500 ";
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const std::string text =
        text_of(steps + "--report run.html --samples samples.npy --precision " + precision);
    EXPECT_NE(text.find("reached: the critic's gradient norm is 1 +- 0.15\n"), std::string::npos) << text;
    const std::string end = text.substr(text.find("gradient norm", text.find("step 0:") + 30));
    EXPECT_LT(number_behind(text, "step 0: gradient norm "), 0.1);
    EXPECT_NEAR(number_behind(end, "gradient norm "), 1, 0.15) << text;
    const Tensor samples = io::read_npy((folder_ / "samples.npy").string());
    EXPECT_EQ(samples.shape(), (Shape{1024, 2}));
    if (!test::under_sanitizer()) {
      EXPECT_LT(number_behind(end, "energy distance "), 0.1 * number_behind(text, "energy distance "))
          << text;
      const Tensor radius = sqrt(sum(square(samples), 1));
      EXPECT_GT(mean((abs(radius - 1) < 0.3).to(DType::f32)).item(), 0.7) << "points are near the ring";
    }
    const std::string page = content_of("run.html");
    for (const std::string name : {"gradient_norm", "distance", "critic_loss"})
      EXPECT_NE(page.find("\"" + name + "\":[["), std::string::npos) << name;
  }
}

TEST_F(WGANProgram, StoppedAndBegunAgainItEndsWithTheSameBits) {
  const std::string flags = "--steps 60 --penalty 10 --save-every 25 --precision amp_fp16 ";
  static_cast<void>(run(flags + "--resume whole"));
  static_cast<void>(text_of(flags + "--resume parts --stop 37"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "parts/step-000000000025.safetensors"));
  EXPECT_NE(run(flags + "--resume parts").text.find("step 25: gradient norm"), std::string::npos);
  expect_same_checkpoint("parts", "whole");
}

TEST_F(WGANProgram, SaysWhetherTheNormWasReached) {
  const test::Ran ran = run("--steps 3");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.text.find("wgan_gp: expected a gradient norm of 1 +- 0.15 at the end, got 0.0"),
            std::string::npos)
      << ran.text;
}

/// The files of MNIST with noise in them.
TEST_F(WGANProgram, LearnsImagesFromFiles) {
  const auto header = [](std::initializer_list<int> bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  std::string images = header({0, 0, 8, 3, 0, 0, 0, 64, 0, 0, 0, 28, 0, 0, 0, 28});
  for (int i = 0; i < 64 * 784; ++i) images += static_cast<char>(i * 40503 >> 8);
  std::ofstream(folder_ / "t10k-images-idx3-ubyte", std::ios::binary) << images;
  std::ofstream(folder_ / "t10k-labels-idx1-ubyte", std::ios::binary)
      << header({0, 0, 8, 1, 0, 0, 0, 64}) + std::string(64, 1);
  const std::string text =
      text_of("--data . --steps 9 --stop 2 --batch-size 4 --precision amp_bf16 --samples images.npy");
  EXPECT_NE(text.find("64 samples of [1, 28, 28]"), std::string::npos) << text;
  EXPECT_NE(text.find("step 2: gradient norm"), std::string::npos) << text;
  const Tensor made = io::read_npy((folder_ / "images.npy").string());
  EXPECT_EQ(made.shape(), (Shape{1024, 1, 28, 28}));
  EXPECT_LE(amax(abs(made)).item(), 1);
}

TEST_F(WGANProgram, SaysWhatIsWrongInOneLine) {
  expect_refused("--data nowhere", "nowhere");
  expect_refused("--precision fp8", "amp_bf16");
  expect_refused("--precision fp16", "expected --precision fp32, amp_fp16, amp_bf16 or amp_fp8");
  expect_refused("--shape square", "expected --shape ring or swiss_roll");
  expect_refused("--critic-steps 0", "--critic-steps");
  expect_refused("--batch-size 0", "batch_size");
  expect_refused("--batch-size 10000", "batch");
  expect_refused("--lr -1", "lr");
  expect_refused("--width 0", "Linear");
  expect_refused("--penalty x", "--penalty");
}

TEST_F(WGANProgram, BeginsOnCudaAsOnTheCpu) {
  if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
  const std::string flags = "--steps 9 --stop 3 --width 16 --batch-size 16 --device ";
  const std::string cuda = text_of(flags + "cuda"), cpu = text_of(flags + "cpu");
  const auto norm = [](const std::string& text) { return number_behind(text, "step 3: gradient norm "); };
  EXPECT_NEAR(norm(cuda), norm(cpu), 0.0015) << "3 digits are printed";
}

}  // namespace
}  // namespace mezzo
