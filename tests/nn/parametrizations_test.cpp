// weight_norm and spectral_norm against torch.nn.utils.parametrizations (2.15, f64), and the surgery.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mezzo/mezzo.h"

namespace mezzo::nn {
namespace {

Tensor f64(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, {.dtype = DType::f64});
}
constexpr double kDigits = 2e-8;  // of torch's numbers below, 9 digits of up to 255

/// torch: lin.weight = [[1, 2, -2], [3, 0, 4]]; lin.bias = [.5, -.5]
std::shared_ptr<Linear> layer() {
  auto linear = make<Linear>(3, 2, {.dtype = DType::f64});
  const NoGrad no_grad;
  linear->weight.copy_(f64({1, 2, -2, 3, 0, 4}, {2, 3}));
  linear->bias.copy_(f64({.5, -.5}, {2}));
  return linear;
}
const Tensor kInput = f64({1, 2, 3, -1, .5, 2}, {2, 3});

Tensor named(const Module& module, const std::string& name) {
  for (const auto& [path, value] : module.state_dict()) {
    if (path == name) return value;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}
std::vector<std::string> names(const Module& module) {
  std::vector<std::string> result;
  for (const auto& [path, value] : module.state_dict()) result.push_back(path);
  return result;
}
Tensor parameter(const Module& module, const std::string& name) {
  for (const auto& [path, value] : module.named_parameters()) {
    if (path == name) return value;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(WeightNorm, EqualsTorch) {
  const auto normed = weight_norm(layer());
  EXPECT_EQ(names(*normed), (std::vector<std::string>{"bias", "parametrizations.weight.original0",
                                                      "parametrizations.weight.original1"}));
  EXPECT_TRUE(equal(named(*normed, "parametrizations.weight.original0"), f64({3, 5}, {2, 1})));
  EXPECT_TRUE(allclose((*normed)(kInput), (*layer())(kInput), 1e-15));
  named(*normed, "parametrizations.weight.original0").copy_(f64({2, 10}, {2, 1}));
  const Tensor y = (*normed)(kInput);
  EXPECT_TRUE(allclose(y, f64({-1.0 / 6, 29.5, -13.0 / 6, 9.5}, {2, 2}), 1e-14));
  square(y).sum().backward();
  EXPECT_TRUE(allclose(parameter(*normed, "parametrizations.weight.original0").grad(),
                       f64({5.88888889, 196}, {2, 1}), 0, kDigits));
  EXPECT_TRUE(allclose(parameter(*normed, "parametrizations.weight.original1").grad(),
                       f64({1.35802469, -4.50617284, -3.82716049, -155.2, 255, 116.4}, {2, 3}), 0, kDigits));
}

TEST(WeightNorm, OverOneDimOrAll) {
  EXPECT_EQ(named(*weight_norm(Conv2d(2, 3, 2)), "parametrizations.weight.original0").shape(),
            (Shape{3, 1, 1, 1}));
  EXPECT_EQ(named(*weight_norm(Conv2d(2, 3, 2), 1), "parametrizations.weight.original0").shape(),
            (Shape{1, 2, 1, 1}));
  EXPECT_EQ(named(*weight_norm(Conv2d(2, 3, 2), -1), "parametrizations.weight.original0").shape(), (Shape{}));
  EXPECT_THROW(static_cast<void>(weight_norm(Linear(2, 3), 2)), IndexError);
}

TEST(WeightNorm, OfEachLayerKeepsWhatItComputes) {
  const auto same = [](const auto& plain, const auto& input) {
    const Tensor before = (*plain)(input);
    EXPECT_TRUE(allclose((*weight_norm(plain))(input), before, 1e-5, 1e-6)) << plain->described();
    EXPECT_TRUE(allclose((*weight_norm(plain, -1))(input), before, 1e-5, 1e-6)) << plain->described();
  };
  same(make<Linear>(3, 4), randn({2, 3}));
  same(make<Embedding>(5, 3), tensor({4, 0, 1}));
  same(make<Conv1d>(2, 3, 2), randn({1, 2, 5}));
  same(make<Conv2d>(2, 4, 3, {.padding = 1, .groups = 2}), randn({1, 2, 5, 5}));
  same(make<Conv3d>(1, 2, 2), randn({1, 1, 3, 3, 3}));
  same(make<ConvTranspose1d>(2, 3, 2), randn({1, 2, 5}));
  same(make<ConvTranspose2d>(2, 3, 2), randn({1, 2, 4, 4}));
  same(make<ConvTranspose3d>(1, 2, 2), randn({1, 1, 2, 2, 2}));
}

TEST(SpectralNorm, EqualsTorch) {
  const auto normed = spectral_norm(layer());
  EXPECT_EQ(names(*normed),
            (std::vector<std::string>{"bias", "parametrizations.weight.original",
                                      "parametrizations.weight.0._u", "parametrizations.weight.0._v"}));
  named(*normed, "parametrizations.weight.0._u").copy_(f64({.6, .8}, {2}));
  named(*normed, "parametrizations.weight.0._v").copy_(f64({.6, 0, .8}, {3}));
  const Tensor y = (*normed)(kInput);
  EXPECT_TRUE(allclose(y, f64({0.305034116, 2.42448826, -0.279863536, 0.47482942}, {2, 2}), 0, kDigits));
  const Tensor u = f64({-0.196116135, 0.980580676}, {2});
  EXPECT_TRUE(allclose(named(*normed, "parametrizations.weight.0._u"), u, 0, kDigits));
  EXPECT_TRUE(allclose(named(*normed, "parametrizations.weight.0._v"),
                       f64({0.535303379, -0.0764719113, 0.841191024}, {3}), 0, kDigits));
  square(y).sum().backward();
  EXPECT_TRUE(
      allclose(parameter(*normed, "parametrizations.weight.original").grad(),
               f64({0.543768098, 0.138221439, 0.634668846, -0.818255696, 2.20884404, 0.725973451}, {2, 3}), 0,
               kDigits));
  normed->eval();  // no iteration
  EXPECT_TRUE(allclose((*normed)(kInput), y, 1e-14));
  EXPECT_TRUE(allclose(named(*normed, "parametrizations.weight.0._u"), u, 0, kDigits));
}

TEST(SpectralNorm, TakesTheDimOfOutputsAsRows) {
  EXPECT_EQ(named(*spectral_norm(ConvTranspose2d(2, 3, 2)), "parametrizations.weight.0._u").shape(),
            (Shape{3}));
  EXPECT_EQ(named(*spectral_norm(ConvTranspose2d(2, 3, 2)), "parametrizations.weight.0._v").shape(),
            (Shape{8}));
  EXPECT_EQ(named(*spectral_norm(Conv2d(2, 3, 2)), "parametrizations.weight.0._u").shape(), (Shape{3}));
  EXPECT_EQ(named(*spectral_norm(Conv2d(2, 3, 2), {.dim = 1}), "parametrizations.weight.0._u").shape(),
            (Shape{2}));
  EXPECT_THROW(static_cast<void>(spectral_norm(Linear(2, 3), {.n_power_iterations = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(spectral_norm(Linear(2, 3), {.eps = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(spectral_norm(Linear(2, 3), {.dim = 2})), IndexError);
}

TEST(SpectralNorm, BringsTheLargestSingularValueToOne) {
  manual_seed(3);
  auto normed = spectral_norm(Linear(20, 10, {.bias = false}), {.n_power_iterations = 20});
  for (int i = 0; i < 5; ++i) static_cast<void>((*normed)(ones({1, 20})));
  // The largest stretch by 200 products with W^T W of a random vector.
  normed->eval();
  const NoGrad no_grad;
  const Tensor w = (*normed)(eye(20));  // W^T
  Tensor v = randn({10});
  for (int i = 0; i < 200; ++i) v = normalize(mv(t(w), mv(w, v)), 2, 0);
  EXPECT_NEAR(norm(mv(w, v)).item(), 1, 1e-4);
}

TEST(Parametrizations, AreClonedMovedAndSaved) {
  Sequential net(weight_norm(Linear(3, 4)), ReLU(), spectral_norm(Linear(4, 2)));
  net.eval();
  const Tensor x = randn({2, 3});
  const Tensor y = net(x);
  EXPECT_TRUE(equal((*clone(net))(x), y));
  Sequential other(weight_norm(Linear(3, 4)), ReLU(), spectral_norm(Linear(4, 2)));
  other.eval();
  other.load_state_dict(net.state_dict());
  EXPECT_TRUE(equal(other(x), y));
  net.to(DType::f64);
  EXPECT_EQ(net(x.to(DType::f64)).dtype(), DType::f64);
  EXPECT_EQ(to_string(*weight_norm(Linear(3, 4))),
            "ParametrizedLinear(\n"
            "  in_features=3, out_features=4, bias=true\n"
            "  (parametrizations): Parametrizations(\n"
            "    (weight): NormedWeight(dim=0)\n"
            "  )\n"
            ")");
}

TEST(Parametrizations, TrainUnderAutocast) {
  manual_seed(1);
  Sequential net(weight_norm(Linear(3, 8)), Tanh(), spectral_norm(Linear(8, 1)));
  optim::SGD optimizer(net, {.lr = 0.5});
  const Tensor x = randn({32, 3}), target = tanh(x.sum(1, true));
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(DType::bf16);
      loss = mse_loss(net(x), target);
    }
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, first / 4);
}

TEST(Parametrizations, OfWholeModelsAreSurgery) {
  manual_seed(1);
  Sequential net(Conv2d(1, 4, 3), ReLU(), Flatten(), Linear(16, 3));
  const Tensor x = randn({2, 1, 4, 4});
  const Tensor y = net(x);
  optim::SGD optimizer(net, {.lr = 0.1});
  const surgery::Report report = apply_weight_norm(net);
  EXPECT_EQ(report.replaced().size(), 2U);
  EXPECT_TRUE(allclose(net(x), y, 1e-5, 1e-6));
  static_cast<void>(optim::remap({&optimizer}, report.parameter_pairs()));
  EXPECT_EQ(optimizer.parameters().size(), 6U);
  net(x).sum().backward();
  optimizer.step();
  const Tensor trained = net(x);
  EXPECT_EQ(remove_parametrizations(net).replaced().size(), 2U);
  EXPECT_TRUE(allclose(net(x), trained, 1e-5, 1e-6));
  EXPECT_EQ(names(net), (std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias"}));
  EXPECT_TRUE(parameter(net, "0.weight").requires_grad());
  EXPECT_EQ(apply_spectral_norm(net).replaced().size(), 2U);
  EXPECT_EQ(apply_spectral_norm(net).replaced().size(), 0U);  // they have one
  EXPECT_EQ(apply_spectral_norm(net).kept().size(), 2U);
}

TEST(Parametrizations, RefuseASecondOne) {
  EXPECT_THROW(static_cast<void>(weight_norm(weight_norm(Linear(2, 3)))), ValueError);
  EXPECT_THROW(static_cast<void>(spectral_norm(weight_norm(Conv1d(2, 3, 1)))), ValueError);
}

}  // namespace
}  // namespace mezzo::nn
