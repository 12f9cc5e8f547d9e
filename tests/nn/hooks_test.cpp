// Hooks of modules: when they run, what they see and replace, and how long they stay.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mezzo/mezzo.h"

namespace mezzo::nn {
namespace {

/// y = 2 x.
struct Twice final : Layer {
  Tensor forward(const Tensor& x) override { return x * 2; }
};
/// Takes a number before its tensor, and gives two tensors.
struct Scaled final : Module {
  std::pair<Tensor, Tensor> forward(double factor, const Tensor& x) { return {x * factor, x}; }
  auto operator()(double factor, const Tensor& x) { return call(*this, factor, x); }
};

TEST(ModuleHooks, RunInOrderAroundForward) {
  Twice layer;
  std::vector<std::string> seen;
  layer.register_forward_hook([&](Module& module, const Tensor& x, const Tensor& y) {
    seen.push_back("after " + module.type_name() + " " + std::to_string(x.item()) + " " +
                   std::to_string(y.item()));
  });
  layer.register_forward_pre_hook(
      [&](Module&, const Tensor& x) { seen.push_back("first " + std::to_string(x.item())); });
  layer.register_forward_pre_hook([&](Module&, const Tensor&) { seen.emplace_back("second"); });
  EXPECT_EQ(layer(tensor(3.0)).item(), 6);
  EXPECT_EQ(seen, (std::vector<std::string>{"first 3.000000", "second", "after Twice 3.000000 6.000000"}));
  static_cast<void>(layer.forward(tensor(3.0)));  // not a call
  EXPECT_EQ(seen.size(), 3U);
}

TEST(ModuleHooks, ReplaceInputAndOutput) {
  Twice layer;
  layer.register_forward_pre_hook([](Module&, const Tensor& x) { return x + 1; });
  layer.register_forward_hook([](Module&, const Tensor& x, const Tensor& y) { return y * 10 + x; });
  EXPECT_EQ(layer(tensor(3.0)).item(), 84);
}

TEST(ModuleHooks, AreRemoved) {
  Twice layer;
  int calls = 0;
  const std::size_t a = layer.register_forward_hook([&](Module&, const Tensor&, const Tensor&) { ++calls; });
  const std::size_t b = layer.register_forward_pre_hook([&](Module&, const Tensor&) { ++calls; });
  static_cast<void>(layer(tensor(1.0)));
  layer.remove_hook(a);
  static_cast<void>(layer(tensor(1.0)));
  layer.remove_hook(b);
  layer.remove_hook(b);
  const std::size_t c = layer.register_forward_pre_hook([](Module&, const Tensor&) {});
  EXPECT_NE(c, a);
  EXPECT_NE(c, b);
  layer.remove_hook(100);
  static_cast<void>(layer(tensor(1.0)));
  EXPECT_EQ(calls, 3);
}

TEST(ModuleHooks, SeeGradientsOfInputAndOutput) {
  Twice layer;
  std::vector<double> seen;
  layer.register_full_backward_hook([&](Module&, const Tensor& grad_input, const Tensor& grad_output) {
    seen.push_back(grad_input.item());
    seen.push_back(grad_output.item());
  });
  const Tensor x = tensor(3.0).requires_grad_();
  // x is used besides, which is not the layer's gradient.
  (layer(x) * 5 + x * 100).backward();
  EXPECT_EQ(seen, (std::vector<double>{10, 5}));
  EXPECT_EQ(x.grad().item(), 110);
}

TEST(ModuleHooks, ReplaceTheGradientOfTheInput) {
  Twice layer;
  layer.register_full_backward_hook([](Module&, const Tensor& grad_input, const Tensor& grad_output) {
    return grad_input * 3 + grad_output;
  });
  const Tensor x = tensor(3.0).requires_grad_();
  (layer(x) * 5).backward();
  EXPECT_EQ(x.grad().item(), 35);
}

TEST(ModuleHooks, OfBackwardRunWhereTheInputNeedsNoGradient) {
  Linear layer(2, 1);
  int calls = 0;
  const auto looks = [&](Module&, const Tensor& grad_input, const Tensor& grad_output) {
    EXPECT_FALSE(grad_input.defined());
    EXPECT_TRUE(equal(grad_output, full({1, 1}, 2)));
    ++calls;
  };
  const std::size_t id = layer.register_full_backward_hook(looks);
  (layer(ones({1, 2})) * 2).sum().backward();
  EXPECT_EQ(calls, 1);
  {
    const NoGrad no_grad;
    static_cast<void>(layer(ones({1, 2})));
  }
  layer.remove_hook(id);
  layer.register_full_backward_hook(
      [](Module&, const Tensor&, const Tensor& grad_output) { return grad_output; });
  EXPECT_THROW(layer(ones({1, 2})).sum().backward(), AutogradError);
}

TEST(ModuleHooks, KeepSecondDerivatives) {
  Twice layer;
  int calls = 0;
  layer.register_full_backward_hook([&](Module&, const Tensor&, const Tensor&) { ++calls; });
  const Tensor x = tensor(3.0).requires_grad_();
  const Tensor y = square(layer(x));  // 4 x^2
  const Tensors first = grad(y, {x}, {.create_graph = true});
  EXPECT_EQ(first[0].item(), 24);
  EXPECT_EQ(calls, 1);
  first[0].backward();
  EXPECT_EQ(x.grad().item(), 8);
}

TEST(ModuleHooks, OfALayerThatGivesItsInput) {
  Identity layer;
  int calls = 0;
  layer.register_full_backward_hook([&](Module&, const Tensor& grad_input, const Tensor& grad_output) {
    EXPECT_EQ(grad_input.item(), 7);
    EXPECT_EQ(grad_output.item(), 7);
    ++calls;
  });
  const Tensor x = tensor(3.0).requires_grad_();
  (layer(x) * 7).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 7);
}

TEST(ModuleHooks, OfModulesWithOtherArguments) {
  Scaled module;
  bool saw = false;
  module.register_forward_pre_hook([&](Module&, const Tensor& input) { saw = !input.defined(); });
  module.register_forward_hook([](Module&, const Tensor&, const Tensor& output) { return output + 1; });
  const auto [scaled, same] = module(4.0, tensor(2.0));
  EXPECT_TRUE(saw);
  EXPECT_EQ(scaled.item(), 9);
  EXPECT_EQ(same.item(), 2);
}

TEST(ModuleHooks, GoAlongWhenALayerBecomesAPartAndNotWhenItIsCloned) {
  int calls = 0;
  const auto counted = [&calls](Module&, const Tensor&, const Tensor&) { ++calls; };
  Twice layer;
  layer.register_forward_hook(counted);
  Sequential net(std::move(layer));
  const Tensor x = tensor(1.0).requires_grad_();
  static_cast<void>(net(x));
  EXPECT_EQ(calls, 1);
  const auto copy = clone(net);
  static_cast<void>((*copy)(x));
  EXPECT_EQ(calls, 1);
}

TEST(ModuleHooks, OfAModuleThatIsGoneAreNotCalled) {
  const Tensor x = tensor(3.0).requires_grad_();
  Tensor y;
  int calls = 0;
  {
    Twice layer;
    layer.register_full_backward_hook([&](Module&, const Tensor&, const Tensor&) { ++calls; });
    y = layer(x);
  }
  y.backward();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(ModuleHooks, MayRemoveThemselves) {
  Twice layer;
  int calls = 0;
  std::size_t id = 0;
  id = layer.register_forward_hook([&](Module& module, const Tensor&, const Tensor&) {
    ++calls;
    module.remove_hook(id);
  });
  static_cast<void>(layer(tensor(1.0)));
  static_cast<void>(layer(tensor(1.0)));
  EXPECT_EQ(calls, 1);
}

TEST(ModuleHooks, SeeTheDtypesOfARegion) {
  Linear layer(3, 2);
  DType input = DType::f64, output = DType::f64;
  layer.register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
    input = x.dtype();
    output = y.dtype();
  });
  const amp::Autocast autocast(DType::bf16);
  static_cast<void>(layer(ones({1, 3})));
  EXPECT_EQ(input, DType::f32);
  EXPECT_EQ(output, DType::bf16);
}

}  // namespace
}  // namespace mezzo::nn
