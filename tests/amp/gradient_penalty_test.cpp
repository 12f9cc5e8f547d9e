// Gradient penalties: losses made of their own gradients. Second-order gradients against finite differences,
// the scaled path against the unscaled one, autocast against f64, and the scaler's whole loop.
#include <gtest/gtest.h>

#include <cmath>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/cuda.h"

namespace mezzo::amp {
namespace {

std::vector<Device> devices() {
  return cuda::is_available() ? std::vector{Device::cpu(), Device::cuda()} : std::vector{Device::cpu()};
}

/// What is added to the loss: the squared or plain length of the gradient by all parameters, or how far the
/// gradient by each row of the input is from length 1 (as critics of generative networks have it).
enum class Penalty { square, length, input };
constexpr std::array<Penalty, 3> kPenalties{Penalty::square, Penalty::length, Penalty::input};

/// Where, how and with which scale.
struct Plan {
  Device device = Device::cpu();
  DType dtype = DType::f64;          ///< of parameters and data
  std::optional<DType> region = {};  ///< of autocast
  double scale = 0;                  ///< of the scaler; 0: it is off
  Penalty penalty = Penalty::square;
};

/// y = tanh(x w1^T + b1) w2^T + b2 and its mean squared error. The same values in every dtype: of f32.
struct Net {
  explicit Net(const Plan& plan) {
    Generator generator(11);
    const auto make = [&](const Shape& shape) {
      return uniform(-1, 1, shape, {}, generator).to(plan.device).to(plan.dtype);
    };
    for (const Shape& shape : {Shape{6, 4}, Shape{6}, Shape{3, 6}, Shape{3}})
      parameters.push_back(make(shape).detach().requires_grad_());
    input = make({5, 4}).detach().requires_grad_();
    target = make({5, 3});
  }
  [[nodiscard]] Tensor loss() const {
    const Tensor hidden = tanh(linear(input, parameters[0], parameters[1]));
    return mse_loss(linear(hidden, parameters[2], parameters[3]), target);
  }
  std::vector<Tensor> parameters;
  Tensor input, target;
};

Tensor penalty_of(Penalty penalty, const std::vector<Tensor>& gradients) {
  if (penalty == Penalty::input) return mean(square(norm(gradients[0], 2, 1) - 1.0));
  Tensor squares = sum(square(gradients[0]));
  for (std::size_t i = 1; i < gradients.size(); ++i) squares = squares + sum(square(gradients[i]));
  return penalty == Penalty::square ? squares : sqrt(squares);
}

/// Loss and penalty, by PyTorch's recipe: the gradient of the scaled loss, unscaled by a product.
Tensor total_loss(const Net& net, const Plan& plan, GradScaler& scaler, double factor = 1) {
  const AutocastOptions options{.enabled = plan.region.has_value()};
  Tensor loss;
  {
    const Autocast region(plan.device, plan.region, options);
    loss = net.loss() * factor;
  }
  const std::vector<Tensor> scaled{scaler.scale(loss)};
  const std::vector<Tensor> by =
      plan.penalty == Penalty::input ? std::vector<Tensor>{net.input} : net.parameters;
  std::vector<Tensor> gradients;
  for (const Tensor& gradient : grad(scaled, by, {}, {.create_graph = true}))
    gradients.push_back(gradient * scaler.inv_scale_tensor());
  const Autocast region(plan.device, plan.region, options);
  return loss + penalty_of(plan.penalty, gradients) * 0.5;
}

GradScaler scaler_of(const Plan& plan) {
  return GradScaler({.init_scale = plan.scale > 0 ? plan.scale : 1, .enabled = plan.scale > 0});
}

/// The gradient of loss and penalty by each parameter, unscaled.
std::vector<std::vector<double>> gradients_of(const Plan& plan) {
  const Net net(plan);
  GradScaler scaler = scaler_of(plan);
  scaler.scale(total_loss(net, plan, scaler)).backward();
  std::vector<std::vector<double>> result;
  for (const Tensor& parameter : net.parameters) {
    EXPECT_EQ(parameter.grad().dtype(), parameter.dtype());
    result.push_back(parameter.grad().to_vector<double>());
    for (double& value : result.back()) value /= scaler.get_scale();
  }
  return result;
}

double largest(const std::vector<std::vector<double>>& values) {
  double result = 0;
  for (const auto& list : values)
    for (const double value : list) result = std::max(result, std::abs(value));
  return result;
}

/// Element by element, within `bound` times the largest of what is expected.
void expect_near(const std::vector<std::vector<double>>& got,
                 const std::vector<std::vector<double>>& expected, double bound, const std::string& what) {
  const double allowed = bound * largest(expected);
  for (std::size_t p = 0; p < expected.size(); ++p) {
    for (std::size_t i = 0; i < expected[p].size(); ++i)
      EXPECT_NEAR(got[p][i], expected[p][i], allowed) << what << ": parameter " << p << " element " << i;
  }
}

std::string name_of(const Plan& plan) {
  return to_string(plan.device) + " " + to_string(plan.dtype) + " penalty " +
         std::to_string(static_cast<int>(plan.penalty)) + " scale " + std::to_string(plan.scale);
}

TEST(GradientPenalty, IsTheDerivativeThatFiniteDifferencesGive) {
  for (const Penalty penalty : kPenalties) {
    for (const double scale : {0.0, 1024.0}) {
      const Plan plan{.scale = scale, .penalty = penalty};
      const Net net(plan);
      const auto total = [&] {
        GradScaler scaler = scaler_of(plan);
        return total_loss(net, plan, scaler).item();
      };
      // Central differences err by h^2 of a third derivative, 1e-10, and by rounding, 1e-16 / h.
      constexpr double kStep = 1e-5;
      std::vector<std::vector<double>> expected;
      for (const Tensor& parameter : net.parameters) {
        auto& list = expected.emplace_back();
        for (double& value : parameter.mutable_data<double>()) {
          const double middle = value;
          value = middle + kStep;
          const double above = total();
          value = middle - kStep;
          list.push_back((above - total()) / (2 * kStep));
          value = middle;
        }
      }
      expect_near(gradients_of(plan), expected, 1e-8, name_of(plan));
    }
  }
}

TEST(GradientPenalty, ScaledAndUnscaledPathsAgree) {  // G-72
  for (const Device device : devices()) {
    for (const Penalty penalty : kPenalties) {
      for (const DType dtype : {DType::f32, DType::f64}) {
        Plan plan{.device = device, .dtype = dtype, .penalty = penalty};
        const auto plain = gradients_of(plan);
        for (const double scale : {2.0, 1024.0, 65536.0}) {  // powers of two move no bit
          plan.scale = scale;
          EXPECT_EQ(gradients_of(plan), plain) << name_of(plan);
        }
        // The inverse of 1000 is rounded to f32: the penalty sees gradients off by 2^-25 of their size, and a
        // square, its derivative and the step each see them again.
        plan.scale = 1000;
        expect_near(gradients_of(plan), plain, 16 * 0x1p-24, name_of(plan));
      }
    }
  }
}

TEST(GradientPenalty, UnderAutocastAgreesWithF64) {
  for (const Device device : devices()) {
    for (const Penalty penalty : kPenalties) {
      const auto exact = gradients_of({.device = device, .penalty = penalty});
      for (const DType region : {DType::f16, DType::bf16}) {
        const Plan plan{
            .device = device, .dtype = DType::f32, .region = region, .scale = 1024, .penalty = penalty};
        // Some fifteen roundings on the way of a value, each by half the distance between two numbers at the
        // most and in either direction: together about the root of fifteen such halves.
        const double bound = 4 * info(region).eps / 2;
        expect_near(gradients_of(plan), exact, bound, name_of(plan) + " " + to_string(region));
      }
    }
  }
}

TEST(GradientPenalty, SecondDerivativesPassThroughTheCasts) {
  // Small integers, exact in every dtype: y = x w, f = |y|^2, g = 2 x^T x w, p = |g|^2, dp/dw = 8 (x^T x)^2
  // w, and the derivative of that along a direction d is 8 (x^T x)^2 d.
  for (const Device device : devices()) {
    for (const DType region : {DType::f16, DType::bf16}) {
      const Tensor x = tensor({1.0, -1.0, 2.0, 1.0}, {2, 2}, {.device = device});
      const Tensor w = tensor({1.0, 2.0}, {2, 1}, {.device = device, .requires_grad = true});
      Tensor f;
      {
        const Autocast autocast(device, region);
        const Tensor y = matmul(x, w);
        EXPECT_EQ(y.dtype(), region);
        f = sum(square(y.to(DType::f32)));
      }
      const Tensor g = grad(f, {w}, {.create_graph = true})[0];
      EXPECT_EQ(g.dtype(), DType::f32) << "behind the cast";
      EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{14, 10}));
      const Tensor second = grad(sum(square(g)), {w}, {.create_graph = true})[0];
      EXPECT_EQ(second.dtype(), DType::f32);
      EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{8 * 40, 8 * 17}));
      const Tensor third = grad(sum(second), {w})[0];
      EXPECT_EQ(third.to_vector<double>(), (std::vector<double>{8 * 33, 8 * 12}));
    }
  }
}

/// Six iterations by PyTorch's recipe under autocast, of which `bad` overflows or is left out. The
/// parameters, bit by bit.
std::vector<std::vector<std::uint64_t>> train(const Plan& plan, int bad, bool leave_out) {
  const Net net(plan);
  optim::SGD optimizer(net.parameters, {.lr = 0.05, .momentum = 0.9});
  GradScaler scaler = scaler_of(plan);
  for (int i = 0; i < 6; ++i) {
    if (i == bad && leave_out) {
      scaler.update(plan.scale / 2);  // what an overflow does to the scale
      continue;
    }
    const auto before = bits(net.parameters);
    const Tensor total = total_loss(net, plan, scaler, i == bad ? 1e9 : 1);
    scaler.scale(total).backward();
    scaler.unscale_(optimizer);
    EXPECT_EQ(scaler.step(optimizer).skipped(), i == bad);
    EXPECT_EQ(bits(net.parameters) == before, i == bad);
    scaler.update();
    optimizer.zero_grad();
  }
  EXPECT_EQ(scaler.get_scale(), plan.scale / 2);
  return bits(net.parameters);
}

TEST(GradientPenalty, ASkippedStepLeavesNothingBehind) {
  for (const Device device : devices()) {
    for (const Penalty penalty : kPenalties) {
      const Plan plan{
          .device = device, .dtype = DType::f32, .region = DType::f16, .scale = 512, .penalty = penalty};
      EXPECT_EQ(train(plan, 3, false), train(plan, 3, true)) << name_of(plan);
    }
  }
}

TEST(GradientPenalty, AnOverflowOfTheInnerGradientIsAnOverflow) {
  // The scaled gradient that the penalty is made of exceeds f16; the loss itself is finite. The scale comes
  // down until it fits.
  const Plan plan{.dtype = DType::f32, .region = DType::f16, .scale = 0x1p22};
  const Net net(plan);
  optim::SGD optimizer(net.parameters, {.lr = 0.05});
  GradScaler scaler = scaler_of(plan);
  int skipped = 0, stepped = 0;
  for (int i = 0; i < 20; ++i) {
    scaler.scale(total_loss(net, plan, scaler)).backward();
    const bool skip = scaler.step(optimizer).skipped();
    EXPECT_FALSE(skip && stepped > 0) << "the first step that fits ends it";
    ++(skip ? skipped : stepped);
    scaler.update();
    optimizer.zero_grad();
  }
  EXPECT_GE(skipped, 3);
  EXPECT_GE(stepped, 10);
  // The skipped steps have changed nothing: it is the training with the scale that fits from the start.
  Plan fitting = plan;
  fitting.scale = scaler.get_scale();
  const Net same(fitting);
  optim::SGD other(same.parameters, {.lr = 0.05});
  GradScaler fixed = scaler_of(fitting);
  for (int i = 0; i < stepped; ++i) {
    fixed.scale(total_loss(same, fitting, fixed)).backward();
    EXPECT_FALSE(fixed.step(other).skipped());
    fixed.update();
    other.zero_grad();
  }
  for (std::size_t i = 0; i < net.parameters.size(); ++i)
    EXPECT_EQ(net.parameters[i].to_vector<double>(), same.parameters[i].to_vector<double>()) << i;
}

}  // namespace
}  // namespace mezzo::amp
