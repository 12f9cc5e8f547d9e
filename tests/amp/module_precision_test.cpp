// Rules of precision by module: which module each names, the regions that open around calls, and how long
// they last.
#include "mezzo/amp/module_precision.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/summary.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/checkpoint.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/nn/surgery.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::amp {
namespace {

using test::message_of;

struct Block final : nn::Layer {
  nn::Child<nn::Linear> attn{*this, "attn", nn::Linear(32, 32)};
  nn::Child<nn::Linear> mlp{*this, "mlp", nn::Linear(32, 32)};
  DType after_attn{}, after_mlp{};
  Tensor forward(const Tensor& x) override {
    const Tensor a = attn(x);
    const Tensor b = mlp(a);
    after_attn = a.dtype(), after_mlp = b.dtype();
    return b;
  }
};

struct Net final : nn::Layer {
  nn::Child<Block> first{*this, "first", Block()};
  nn::Child<Block> second{*this, "second", Block()};
  nn::Child<nn::Linear> head{*this, "head", nn::Linear(32, 16)};
  Tensor forward(const Tensor& x) override { return head(second(first(x))); }
};

Tensor input() { return ones({4, 32}); }
Autocast region(DType dtype = DType::bf16, bool fp8_on = false) {
  return Autocast(Device::cpu(), dtype, {.fp8 = fp8_on});
}

/// The dtypes behind attn and mlp of both blocks, and of the result.
std::vector<DType> dtypes_of(Net& net) {
  const DType result = net(input()).dtype();
  return {net.first->after_attn, net.first->after_mlp, net.second->after_attn, net.second->after_mlp, result};
}

constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
using DTypes = std::vector<DType>;

TEST(ModulePrecision, OpensRegionsAroundTheModulesThatRulesName) {
  Net net;
  const ModulePrecision rules(
      net, {{"head", f32}, {R"([a-z]+\.attn)", f16}, {"first", bf16}, {"second.mlp", no_autocast}});
  // Outside of any region: what has no rule computes as its inputs are. no_autocast gets f16 beside f32.
  net.second->mlp->to(f16);
  EXPECT_EQ(dtypes_of(net), (DTypes{f16, bf16, f16, f16, f32}));
  net.second->mlp->to(f32);
  {
    const Autocast around(Device::cpu(), f16);
    EXPECT_EQ(net.first(input()).dtype(), bf16);
    EXPECT_EQ(net.first->after_attn, f16);
    EXPECT_EQ(net.second->mlp(input()).dtype(), f32);
    EXPECT_EQ(linear(input(), net.head->weight).dtype(), f16) << "the region around is as before";
  }
  EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
}

TEST(ModulePrecision, GivesTheBitsOfTheSameRegionsByHand) {
  manual_seed(3);
  Net net;
  const Tensor x = randn({8, 32}, {.requires_grad = true});
  const auto step = [&](const auto& forward) {
    net.zero_grad();
    x.set_grad({});
    forward().to(f32).square().mean().backward();
    std::vector<Tensor> result{x.grad().clone()};
    for (const Tensor& parameter : net.parameters()) result.push_back(parameter.grad().clone());
    return result;
  };
  const std::vector<Tensor> by_hand = step([&] {
    Tensor h;
    {
      const Autocast around(Device::cpu(), bf16, {.fp8 = true});
      h = net.first(x);
      const Autocast inner(bf16);
      h = net.second->attn(h);
    }
    {
      const Autocast around(Device::cpu(), bf16, {.fp8 = true});
      h = net.second->mlp(h);
    }
    const Autocast last(f32);
    return net.head(h);
  });
  const auto by_rules = [&](nn::Layer& model) {
    return step([&] {
      const Autocast around(Device::cpu(), bf16, {.fp8 = true});
      return model(x);
    });
  };
  const ModulePrecision rules(net, {{"second.attn", bf16}, {"head", f32}});
  const std::vector<Tensor> got = by_rules(net);
  ASSERT_EQ(got.size(), by_hand.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], by_hand[i])) << i;
  // Layers that run again in backward, outside of all regions, compute the same.
  EXPECT_EQ(nn::checkpoint_layers<nn::Layer>(net).size(), 8U);
  const std::vector<Tensor> again = by_rules(net);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(again[i], by_hand[i])) << i;
}

TEST(ModulePrecision, TakesFloat8InTheDTypeOfTheRegionAround) {
  manual_seed(5);
  Net net;
  const Tensor x = randn({16, 32});
  const auto in_float8 = [&](DType dtype) {
    const Autocast around(Device::cpu(), dtype, {.fp8 = true});
    return net.first->attn(x);
  };
  const Tensor want_f16 = in_float8(f16), want_bf16 = in_float8(bf16);
  const ModulePrecision rules(net, {{"first.attn", fp8}, {"second.attn", Fp8{.max_n = 64, .max_k = 64}}});
  {
    const Autocast around(Device::cpu(), f16);
    EXPECT_TRUE(equal(net.first->attn(x), want_f16));
    EXPECT_EQ(net.second->attn(x).dtype(), f16);
    EXPECT_EQ(autocast_fp8(DeviceType::cpu), nullptr);
  }
  EXPECT_TRUE(equal(net.first->attn(x), want_bf16)) << "outside of a region: the CPU's dtype";
  const Autocast off(Device::cpu(), f16, {.enabled = false});
  EXPECT_TRUE(equal(net.first->attn(x), want_bf16));
}

TEST(ModulePrecision, LastsAsLongAsTheObject) {
  Net net;
  auto rules = std::make_unique<ModulePrecision>(net, PrecisionRules{{"head", f16}});
  const std::shared_ptr<Net> copy = nn::clone(net);
  EXPECT_EQ(net(input()).dtype(), f16);
  EXPECT_EQ((*copy)(input()).dtype(), f16);
  DType on_a_thread{};
  std::thread([&] { on_a_thread = net(input()).dtype(); }).join();
  EXPECT_EQ(on_a_thread, f16);
  rules.reset();
  EXPECT_EQ(net(input()).dtype(), f32);
  EXPECT_EQ((*copy)(input()).dtype(), f32);
  const ModulePrecision others(net, {{"head", bf16}});
  EXPECT_EQ(net(input()).dtype(), bf16);
  EXPECT_EQ((*copy)(input()).dtype(), f32);
}

TEST(ModulePrecision, StaysWithThePlaceThroughSurgery) {
  Net net;
  const ModulePrecision rules(net, {{"head", f16}});
  auto report = nn::surgery::replace<nn::Linear>(
      net, [](nn::Linear& old) { return old.out_features() == 16 ? nn::make<nn::Linear>(32, 16) : nullptr; });
  ASSERT_EQ(report.replaced().size(), 1U);
  EXPECT_EQ(net(input()).dtype(), f16);
  report.undo();
  EXPECT_EQ(net(input()).dtype(), f16);
}

TEST(ModulePrecision, OutlivesItsModel) {
  auto net = nn::make<Net>();
  const ModulePrecision rules(*net, {{"head", f16}});
  net.reset();
  Net other;
  EXPECT_EQ(other(input()).dtype(), f32);
}

TEST(ModulePrecision, IsShownBySummaries) {
  nn::Sequential net{nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 16)};
  const ModulePrecision rules(net, {{"0", no_autocast}, {"2", f32}});
  const std::string text = nn::to_string(amp::summary(net, input(), {.dtype = bf16}));
  EXPECT_NE(text.find("f32 (rule: no autocast)"), std::string::npos) << text;
  EXPECT_NE(text.find("f32 (rule: f32)"), std::string::npos) << text;
}

TEST(ModulePrecision, NamesSharedModulesByEachOfTheirPaths) {
  const auto shared = nn::make<nn::Linear>(32, 32);
  nn::Sequential net{shared, shared};
  {
    const ModulePrecision rules(net, {{"1", f16}});
    EXPECT_EQ(net(input()).dtype(), f16);
  }
  const ModulePrecision both(net, {{"[01]", bf16}});
  EXPECT_EQ(net(input()).dtype(), bf16);
}

TEST(ModulePrecision, RefusesRulesThatSayNothingOrTwoThings) {
  Net net;
  const auto refused = [&](const PrecisionRules& list) {
    return message_of<ValueError>([&] { ModulePrecision(net, list); });
  };
  EXPECT_EQ(refused({{"tail", f16}}),
            "ModulePrecision: expected rules that match a module, got 'tail', which matches none of Net; "
            "named_modules() lists the paths");
  EXPECT_EQ(refused({{R"(first\..*)", f16}, {".*attn", bf16}}),
            "ModulePrecision: expected one rule for a module, got 'first.attn', which 'first\\..*' and "
            "'.*attn' match; "
            "name its path in full, or narrow a pattern");
  EXPECT_NE(refused({{"head", f16}, {"head", bf16}}).find("one rule for a module"), std::string::npos);
  EXPECT_NE(refused({{"a(", f16}}).find("a regular expression, got 'a('"), std::string::npos);
  EXPECT_NE(refused({{"head", DType::f64}}).find("f16, bf16 or f32"), std::string::npos);
  EXPECT_EQ(net(input()).dtype(), f32) << "nothing has changed";
  const ModulePrecision rules(net, {{"head", f16}});
  EXPECT_EQ(message_of<StateError>([&] {
              ModulePrecision(net, {{"he.*", bf16}});
            }),
            "ModulePrecision: expected modules without a rule, got Linear 'head', whose rule is 'f16'; let "
            "the other "
            "ModulePrecision end first, or give it all rules");
  // An exact path counts before patterns, which then are for other modules.
  const ModulePrecision more(net, {{"first.attn", f16}, {"first.*", bf16}});
  static_cast<void>(net.first(input()));
  EXPECT_EQ(net.first->after_attn, f16);
  EXPECT_EQ(net.first->after_mlp, bf16);
}

}  // namespace
}  // namespace mezzo::amp
