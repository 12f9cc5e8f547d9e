// The calls that put low-precision and fused norms into a model: which modules go, what stays the same, that
// optimizers and checkpoints go on, and what the reports say.
#include "mezzo/amp/norm_surgery.h"

#include <gtest/gtest.h>

#include "amp/norm_support.h"
#include "mezzo/nn/linear.h"
#include "mezzo/optim/adam.h"

namespace mezzo::amp {
namespace {

using namespace testing;
using nn::surgery::Report;
using nn::surgery::Subclasses;
using Names = std::vector<std::string>;

/// A residual block, whose norm may be anybody's.
struct Block final : nn::Layer {
  explicit Block(std::shared_ptr<nn::LayerNorm> shared) : norm(*this, "norm", std::move(shared)) {}
  Tensor forward(const Tensor& x) override { return x + fc(norm(x)); }
  nn::Child<nn::LayerNorm> norm;
  nn::Child<nn::Linear> fc{*this, "fc", nn::make<nn::Linear>(kWidth, kWidth)};
};

/// x [N, kWidth] -> the same: two blocks that share a norm, one with its own, and a group norm.
struct Net final : nn::Layer {
  Tensor forward(const Tensor& x) override { return groups(last(blocks(x))); }
  std::shared_ptr<nn::LayerNorm> shared = nn::make<nn::LayerNorm>(kWidth);
  nn::Child<nn::Sequential> blocks{
      *this, "blocks", nn::make<nn::Sequential>(nn::make<Block>(shared), nn::make<Block>(shared))};
  nn::Child<Block> last{*this, "last", nn::make<Block>(nn::make<nn::LayerNorm>(kWidth))};
  nn::Child<nn::GroupNorm> groups{*this, "groups", nn::make<nn::GroupNorm>(2, kWidth)};
};

std::shared_ptr<Net> net_on(Device device) {
  manual_seed(3);
  auto net = nn::make<Net>();
  net->to(device);
  return net;
}

using Apply = Report (*)(nn::Module&, const NormPrecision&, const Optimizers&, const NormSurgeryOptions&);
struct Call {
  std::string name;
  Apply apply;
  std::string makes;
  std::size_t modules;
  Names paths;
};
std::vector<Call> calls() {
  const Names layer_norms{"blocks.0.norm", "blocks.1.norm", "last.norm"};
  return {{"low-precision LayerNorm", apply_low_precision_layernorm, "LPLayerNorm", 2, layer_norms},
          {"low-precision GroupNorm", apply_low_precision_groupnorm, "LPGroupNorm", 1, {"groups"}},
          {"fused LayerNorm", apply_fused_layernorm, "FusedLayerNorm", 2, layer_norms}};
}

Names paths_of(const Report& report) {
  Names paths;
  for (const auto& replaced : report.replaced())
    paths.insert(paths.end(), replaced.paths.begin(), replaced.paths.end());
  return paths;
}
std::string text_of(const nn::Module& module) { return nn::to_string(module); }
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(NormSurgery, ReplacesEveryNormOfItsKindAndKeepsParameters) {
  for (const Device device : devices()) {
    for (const Call& call : calls()) {
      const auto net = net_on(device);
      net->last->eval();
      const nn::NamedTensors before = net->named_parameters();
      const Report report = call.apply(*net, "amp_bf16", {}, {});
      EXPECT_EQ(report.replaced().size(), call.modules) << call.name;
      EXPECT_EQ(paths_of(report), call.paths);
      for (const auto& replaced : report.replaced()) {
        EXPECT_EQ(replaced.after->type_name(), call.makes);
        EXPECT_EQ(replaced.after->is_training(), replaced.before->is_training());
      }
      EXPECT_TRUE(report.parameter_pairs().empty());
      EXPECT_TRUE(report.notes().empty());
      const nn::NamedTensors after = net->named_parameters();
      ASSERT_EQ(after.size(), before.size());
      for (std::size_t i = 0; i < after.size(); ++i) {
        EXPECT_EQ(after[i].first, before[i].first);
        EXPECT_TRUE(after[i].second.is_same(before[i].second));
      }
      const Autocast region(device, DType::bf16);
      Tensor y = ones({2, kWidth}, {.device = device});
      if (call.paths.size() == 1)
        y = net->groups(y);
      else
        y = net->last->norm(y);
      EXPECT_EQ(y.dtype(), DType::bf16) << call.name;
    }
  }
}

TEST(NormSurgery, ModesThatActAndModesThatDoNot) {
  for (const Call& call : calls()) {
    for (const NormPrecision& acting : std::vector<NormPrecision>{
             "amp_fp16", "amp_bf16", "AMP_BF16", "amp", "bf16", Precision::amp_fp16, NormPrecision()}) {
      const Report report = call.apply(*net_on(Device::cpu()), acting, {}, {});
      EXPECT_EQ(report.replaced().size(), call.modules);
      EXPECT_EQ(report.notes().empty(), acting.value().has_value());
      EXPECT_EQ(has(to_string(report), "the norms follow the autocast region they run in"), !acting.value());
    }
    for (const auto& [idle, why] : std::vector<std::pair<NormPrecision, std::string>>{
             {"fp32", "precision fp32 has no effect"}, {"FP16", "precision fp16 has no effect"}}) {
      const auto net = net_on(Device::cpu());
      const std::string before = text_of(*net);
      const Report report = call.apply(*net, idle, {}, {});
      EXPECT_TRUE(report.empty());
      EXPECT_TRUE(has(to_string(report), "nothing was replaced\nnote: " + why)) << report;
      EXPECT_EQ(text_of(*net), before);
    }
  }
}

/// The mode says whether norms act in low precision; in which dtype says the region that they run in.
TEST(NormSurgery, TheRegionDecidesTheDTypeAndNotTheMode) {
  for (const Device device : devices()) {
    for (const Call& call : calls()) {
      for (const DType dtype : {DType::f16, DType::bf16}) {
        const auto norm_in_region = [&](const char* mode) {
          const auto net = net_on(device);
          EXPECT_FALSE(call.apply(*net, mode, {}, {}).empty());
          Generator generator(7);
          const Tensor x = normal(0, 3, {2, kWidth}, {}, generator).to(device);
          const Autocast region(device, dtype);
          return call.paths.size() == 1 ? net->groups(x) : net->last->norm(x);
        };
        const Tensor same = norm_in_region(dtype == DType::f16 ? "amp_fp16" : "amp_bf16");
        const Tensor other = norm_in_region(dtype == DType::f16 ? "amp_bf16" : "amp_fp16");
        EXPECT_EQ(same.dtype(), dtype) << call.name;
        EXPECT_EQ(other.dtype(), dtype) << call.name;
        EXPECT_EQ(bits({other}), bits({same})) << call.name;
      }
    }
  }
}

TEST(NormSurgery, ASecondRunChangesNothingAndSaysSo) {
  for (const Call& call : calls()) {
    const auto net = net_on(Device::cpu());
    static_cast<void>(call.apply(*net, {}, {}, {}));
    const std::string before = text_of(*net);
    const Report again = call.apply(*net, {}, {}, {});
    EXPECT_TRUE(again.empty());
    EXPECT_EQ(again.kept().size(), call.modules);
    EXPECT_EQ(again.notes(), Names{"nothing to do: the norms were replaced before"});
    EXPECT_EQ(text_of(*net), before);
  }
}

TEST(NormSurgery, OneFormMayTakeThePlaceOfAnother) {
  const auto net = net_on(Device::cpu());
  static_cast<void>(apply_low_precision_layernorm(*net));
  Report report = apply_low_precision_layernorm(*net, {}, {}, {.parameters = NormParameters::f32});
  EXPECT_EQ(report.replaced().size(), 2U);
  EXPECT_TRUE(has(text_of(*net), "parameters=f32"));
  report = apply_fused_layernorm(*net);
  EXPECT_EQ(nn::surgery::count<FusedLayerNorm>(*net), 2U);
  static_cast<void>(report.undo());
  EXPECT_EQ(nn::surgery::count<LPLayerNorm>(*net), 2U);
}

TEST(NormSurgery, SaysThatThereIsNothing) {
  nn::Sequential net(nn::make<nn::Linear>(2, 2));
  EXPECT_EQ(to_string(apply_low_precision_groupnorm(net, "amp")),
            "nothing was replaced\nnote: found nothing to replace: no GroupNorm\n");
}

TEST(NormSurgery, NormsInF64Stay) {
  const auto net = net_on(Device::cpu());
  net->last->to(DType::f64);
  const Report report = apply_fused_layernorm(*net);
  EXPECT_EQ(paths_of(report), (Names{"blocks.0.norm", "blocks.1.norm"}));
  ASSERT_EQ(report.kept().size(), 1U);
  EXPECT_EQ(report.kept()[0].path, "last.norm");
  EXPECT_TRUE(has(report.kept()[0].why, "f64"));
}

/// A norm with more to it.
struct Scaled final : nn::LayerNorm {
  Scaled() : nn::LayerNorm(kWidth) {}
  Tensor forward(const Tensor& x) override { return nn::LayerNorm::forward(x) * scale; }
  nn::Param scale{*this, "scale", full({1}, 2.0)};
};

TEST(NormSurgery, DerivedClassesAreKeptUnlessAskedFor) {
  nn::Sequential net(nn::make<Block>(nn::make<Scaled>()));
  const Report kept = apply_low_precision_layernorm(net);
  EXPECT_TRUE(kept.empty());
  ASSERT_EQ(kept.kept().size(), 1U);
  EXPECT_TRUE(has(to_string(kept), "0.norm  Scaled  is of a class derived from LayerNorm"));
  const Tensor scale = dynamic_cast<Scaled&>(*net.at<Block>(0).norm).scale;
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const NormSurgeryOptions all{.subclasses = Subclasses::replace};
  Report report = apply_low_precision_layernorm(net, {}, {&sgd}, all);
  EXPECT_EQ(report.replaced().size(), 1U);
  ASSERT_EQ(report.parameter_pairs().size(), 1U);
  EXPECT_TRUE(report.parameter_pairs()[0].first.is_same(scale));
  EXPECT_EQ(sgd.parameters().size(), 4U) << "the scale is gone";
  static_cast<void>(report.undo());
  report = apply_low_precision_layernorm(net, "amp", {}, all);
  EXPECT_TRUE(has(to_string(report), "tell the optimizers with optim::remap"));
}

TEST(NormSurgery, WhatIsRefusedLeavesModelAndOptimizersAsTheyWere) {
  const auto norm = nn::make<Scaled>();
  nn::Sequential net(nn::make<Block>(norm));
  const std::string before = text_of(net);
  const NormSurgeryOptions all{.subclasses = Subclasses::replace};
  optim::SGD only_scale(std::vector<Tensor>{norm->scale}, {});
  EXPECT_THROW(static_cast<void>(apply_fused_layernorm(net, {}, {&only_scale}, all)), ValueError);
  EXPECT_EQ(text_of(net), before);
  EXPECT_TRUE(net.at<Block>(0).norm.module() == norm);
  EXPECT_EQ(only_scale.parameters().size(), 1U);
  EXPECT_THROW(static_cast<void>(apply_fused_layernorm(net, "fp32", {nullptr}, all)), ValueError);

  struct Picky final : nn::Layer {
    Tensor forward(const Tensor& x) override { return norm(x); }
    nn::Child<Scaled> norm{*this, "norm", nn::make<Scaled>()};
  };
  nn::Sequential picky(nn::make<nn::LayerNorm>(kWidth), nn::make<Picky>());
  try {
    static_cast<void>(apply_low_precision_layernorm(picky, {}, {}, all));
    FAIL() << "expected a ValueError";
  } catch (const ValueError& error) {
    EXPECT_TRUE(
        has(error.what(), "a module of type Scaled for '1.norm' (a member of Picky), got LPLayerNorm"))
        << error.what();
  }
  EXPECT_EQ(picky[0]->type_name(), "LayerNorm");
}

// --- training goes on

/// SGD with momentum for the matrices, AdamW for the rest.
struct Training {
  explicit Training(Device device_in) : device(device_in), net(net_on(device_in)) {
    std::vector<Tensor> matrices, rest;
    for (const Tensor& parameter : net->parameters())
      (parameter.dim() > 1 ? matrices : rest).push_back(parameter);
    sgd = std::make_unique<optim::SGD>(matrices, optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
    adam = std::make_unique<optim::AdamW>(rest, optim::AdamWOptions{.lr = 0.01});
  }
  double step(std::uint64_t seed, std::optional<DType> dtype = {}) const {
    Generator generator(seed);
    const Tensor x = normal(0, 1, {6, kWidth}, {}, generator).to(device);
    Tensor loss;
    {
      const Autocast region(device, dtype, {.enabled = dtype.has_value()});
      loss = mse_loss((*net)(x), x);
    }
    loss.backward();
    for (optim::Optimizer* optimizer : optimizers()) {
      optimizer->step();
      optimizer->zero_grad();
    }
    return loss.item();
  }
  [[nodiscard]] Optimizers optimizers() const { return {sgd.get(), adam.get()}; }

  Device device;
  std::shared_ptr<Net> net;
  std::unique_ptr<optim::Optimizer> sgd, adam;
};

TEST(NormSurgery, ItMakesNoDifferenceWhenItComesAlsoInARegion) {
  for (const Device device : devices()) {
    for (const Call& call : calls()) {
      const Training early(device), late(device), without(device);
      EXPECT_FALSE(call.apply(*early.net, "amp_fp16", early.optimizers(), {}).empty());
      for (std::uint64_t i = 0; i < 3; ++i) {
        for (const Training* training : {&early, &late, &without}) training->step(i);
      }
      EXPECT_FALSE(call.apply(*late.net, "amp_fp16", late.optimizers(), {}).empty());
      for (std::uint64_t i = 3; i < 6; ++i) {
        for (const Training* training : {&early, &late, &without}) training->step(i, DType::f16);
      }
      EXPECT_EQ(bits(late.net->parameters()), bits(early.net->parameters())) << call.name;
      EXPECT_NE(bits(late.net->parameters()), bits(without.net->parameters())) << call.name << " did nothing";
    }
  }
}

TEST(NormSurgery, OptimizersAndTheirMomentumGoOnBitForBit) {
  for (const Device device : devices()) {
    for (const Call& call : calls()) {
      const Training straight(device), operated(device);
      for (std::uint64_t i = 0; i < 3; ++i) {
        straight.step(i);
        operated.step(i);
      }
      EXPECT_FALSE(call.apply(*operated.net, "amp_fp16", operated.optimizers(), {}).empty());
      for (std::uint64_t i = 3; i < 6; ++i) {
        straight.step(i);
        operated.step(i);
      }
      EXPECT_EQ(bits(operated.net->parameters()), bits(straight.net->parameters())) << call.name;
    }
  }
}

TEST(NormSurgery, TrainingInLowPrecisionReachesAboutTheSameLoss) {
  for (const Device device : devices()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const Training plain(device), operated(device);
      static_cast<void>(apply_low_precision_layernorm(*operated.net));
      static_cast<void>(apply_low_precision_groupnorm(*operated.net));
      double first = 0, last = 0, reference = 0;
      for (std::uint64_t i = 0; i < 8; ++i) {
        last = operated.step(i % 2, dtype);
        reference = plain.step(i % 2);
        if (i == 0) first = last;
      }
      EXPECT_LT(last, first);
      // Eight steps, each with a rounding of its own.
      EXPECT_NEAR(last, reference, reference * 8 * info(dtype).eps / 2);
      for (const Tensor& parameter : operated.net->parameters()) EXPECT_EQ(parameter.dtype(), DType::f32);
    }
  }
}

TEST(NormSurgery, CheckpointsOfBeforeLoadAfterwardsAndTheOtherWayRound) {
  const auto source = net_on(Device::cpu()), target = net_on(Device::cpu());
  const NoGrad no_grad;
  for (const Tensor& parameter : source->parameters()) parameter.add_(1.0);
  static_cast<void>(apply_low_precision_layernorm(*target));
  static_cast<void>(apply_low_precision_groupnorm(*target));
  EXPECT_TRUE(target->load_state_dict(source->state_dict()).is_exact());
  EXPECT_EQ(bits(target->parameters()), bits(source->parameters()));
  EXPECT_TRUE(net_on(Device::cpu())->load_state_dict(target->state_dict()).is_exact());
}

}  // namespace
}  // namespace mezzo::amp
