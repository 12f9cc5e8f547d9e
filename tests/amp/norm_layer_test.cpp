// The low-precision and fused norm layers: dtypes inside and outside of regions, one rounding, gradients that
// were never in 16 bits. The oracle is the composition cast -> norm in f32 -> cast, and numbers from the
// formula.
#include <gtest/gtest.h>

#include "amp/norm_support.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::amp {
namespace {

using namespace testing;

class NormLayer : public ::testing::TestWithParam<std::tuple<DType, Device>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Device device = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(, NormLayer,
                         ::testing::Combine(::testing::Values(DType::f16, DType::bf16),
                                            ::testing::ValuesIn(devices())),
                         [](const auto& of) {
                           return to_string(std::get<0>(of.param)) +
                                  (std::get<1>(of.param).is_cuda() ? "_cuda" : "_cpu");
                         });

/// The values of an f32 tensor after a cast to 16 bits, in f32.
Tensor rounded(const Tensor& tensor, DType dtype) {
  return tensor.defined() ? tensor.detach().to(dtype).to(DType::f32) : Tensor();
}

TEST_P(NormLayer, IsOneF32NormBetweenTwoCasts) {
  for (const Kind& kind : kinds()) {
    for (const DType given : {DType::f32, DType::f16, DType::bf16}) {
      const auto layer = kind.make(device, true);
      const Tensor x = input(kind, device).to(given), in = kind.fused ? x.to(DType::f32) : rounded(x, dtype);
      const Tensor weight = kind.casts_parameters ? rounded(kind.weight(*layer), dtype)
                                                  : kind.weight(*layer).get(),
                   bias = kind.casts_parameters ? rounded(kind.bias(*layer), dtype) : kind.bias(*layer).get();
      const Tensor expected = kind.function(in, weight.detach(), bias.detach()).to(dtype);
      Tensor y;
      {
        const Autocast region(device, dtype);
        y = layer->forward(x);
      }
      EXPECT_EQ(y.dtype(), dtype) << kind.name;
      EXPECT_EQ(bits(y), bits(expected)) << kind.name << " of " << to_string(given);
    }
  }
}

TEST_P(NormLayer, GradientsAreThoseOfF32AndArriveSo) {
  for (const Kind& kind : kinds()) {
    const auto layer = kind.make(device, true);
    // All that is rounded to 16 bits on the way in is exact in them, so that only backward could round.
    {
      const NoGrad no_grad;
      kind.weight(*layer)->copy_(round(kind.weight(*layer) * 16.0) / 16.0);
    }
    const Tensor x = round(input(kind, device) * 8.0).detach().requires_grad_();
    const auto run = [&](bool in_region) {
      layer->zero_grad();
      x.set_grad({});
      Tensor y;
      {
        const Autocast region(device, dtype, {.enabled = in_region});
        y = layer->forward(x);
      }
      sum(y.to(DType::f32) * upstream(kind, device)).backward();
      return std::vector<Tensor>{x.grad(), kind.weight(*layer)->grad(), kind.bias(*layer)->grad()};
    };
    const std::vector<Tensor> low = run(true), high = run(false);
    for (std::size_t i = 0; i < low.size(); ++i) {
      EXPECT_EQ(low[i].dtype(), DType::f32) << kind.name << " " << i;
      // upstream() is exact in 16 bits; what is left is the order of sums, in f32.
      EXPECT_LT(distance(low[i], high[i]), 1e-5) << kind.name << " " << i;
    }
  }
}

TEST_P(NormLayer, ParameterGradientsDoNotOverflowOrRoundIn16Bits) {
  for (const Kind& kind : kinds()) {
    if (kind.groups) continue;
    for (const double factor : {1.0, 64.0}) {  // 2049 is no number of 16 bits; 2049 * 64 exceeds f16
      const auto layer = kind.make(device, true);
      const Tensor x = input(kind, device, 2049).to(dtype);
      Tensor y;
      {
        const Autocast region(device, dtype);
        y = layer->forward(x);
      }
      backward_of(y, full(y.shape(), factor, {.dtype = dtype, .device = device}));
      const Tensor gradient = kind.bias(*layer)->grad();
      EXPECT_EQ(gradient.dtype(), DType::f32) << kind.name;
      EXPECT_EQ(gradient.to_vector<double>(), std::vector<double>(kWidth, 2049 * factor)) << kind.name;
    }
  }
}

TEST_P(NormLayer, MissingParametersEachByItself) {
  for (const Kind& kind : kinds()) {
    for (const bool has_weight : {true, false}) {
      for (const bool has_bias : {true, false}) {
        const auto layer = kind.make(device, has_weight || has_bias);
        if (!has_weight) kind.weight(*layer).set(Tensor());
        if (!has_bias) kind.bias(*layer).set(Tensor());
        const Tensor x = input(kind, device).to(dtype).requires_grad_();
        const Autocast region(device, dtype);
        const Tensor y = layer->forward(x);
        EXPECT_EQ(y.dtype(), dtype);
        backward_of(y, ones_like(y));
        EXPECT_EQ(x.grad().dtype(), dtype);
        EXPECT_EQ(kind.weight(*layer).defined() && kind.weight(*layer)->grad().defined(), has_weight);
        EXPECT_EQ(kind.bias(*layer).defined() && kind.bias(*layer)->grad().defined(), has_bias);
      }
    }
  }
}

TEST_P(NormLayer, OutsideOfARegionItIsTheLayerItReplaced) {
  for (const Kind& kind : kinds()) {
    const auto layer = kind.make(device, true);
    const auto plain = kind.plain(*layer);
    const auto expect_same = [&](const Tensor& x) {
      const Tensor y = layer->forward(x), expected = plain->forward(x);
      EXPECT_EQ(y.dtype(), expected.dtype()) << kind.name;
      EXPECT_EQ(bits(y), bits(expected)) << kind.name;
    };
    const Tensor x = input(kind, device);
    expect_same(x);
    expect_same(x.to(dtype));
    {
      const Autocast outer(device, dtype);
      const Autocast off(device, {}, {.enabled = false});
      expect_same(x);
    }
    if (device.is_cuda()) {
      const Autocast of_the_cpu(Device::cpu(), dtype);
      expect_same(x);
    }
    layer->to(DType::f64);
    const Autocast region(device, dtype);
    expect_same(x.to(DType::f64));
    EXPECT_EQ(layer->forward(x.to(DType::f64)).dtype(), DType::f64) << kind.name;
  }
}

TEST_P(NormLayer, AnF32RegionWidens) {
  for (const Kind& kind : kinds()) {
    const auto layer = kind.make(device, true);
    const Tensor x = input(kind, device).to(dtype);
    const Tensor expected =
        kind.function(x.to(DType::f32), kind.weight(*layer)->detach(), kind.bias(*layer)->detach());
    const Autocast region(device, DType::f32);
    const Tensor y = layer->forward(x);
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(bits(y), bits(expected)) << kind.name;
  }
}

TEST_P(NormLayer, LeavesTheRegionAsItWas) {
  for (const Kind& kind : kinds()) {
    const auto layer = kind.make(device, true);
    const Autocast region(device, dtype);
    static_cast<void>(layer->forward(input(kind, device)));
    EXPECT_THROW(static_cast<void>(layer->forward(ones({2, 3}, {.device = device}))), ShapeError);
    EXPECT_TRUE(is_autocast_enabled(device.type));
    EXPECT_EQ(matmul(ones({2, 2}, {.device = device}), ones({2, 2}, {.device = device})).dtype(), dtype);
  }
}

// V-10 and V-11: x = [1, 2, 3, 4] in f16, gamma .1 .2 .3 .4, beta .5.
TEST(NormLayerNumbers, OneRoundingToTheDigit) {
  for (const Device device : devices()) {
    nn::LayerNorm plain(4);
    {
      const NoGrad no_grad;
      plain.weight->copy_(tensor({0.1, 0.2, 0.3, 0.4}));
      plain.bias->fill_(0.5);
    }
    plain.to(device);
    const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).to(device);
    LPLayerNorm half(plain, NormParameters::autocast), full(plain, NormParameters::f32);
    FusedLayerNorm fused(plain);
    const Autocast region(device, DType::f16);
    EXPECT_EQ(half.forward(x).to_vector<double>(),
              (std::vector<double>{0.365966796875, 0.41064453125, 0.63427734375, 1.0361328125}));
    // With f32 parameters: .36583646, .41055764, .63416354, 1.03665417 before the rounding.
    const std::vector<double> expected{0.36572265625, 0.41064453125, 0.63427734375, 1.037109375};
    EXPECT_EQ(full.forward(x).to_vector<double>(), expected);
    EXPECT_EQ(fused.forward(x).to_vector<double>(), expected);
  }
}

// V-12: the same with the gradient [.5, -1, 1.5, -2], which f16 holds exactly.
TEST(NormLayerNumbers, BackwardToTheDigit) {
  for (const Device device : devices()) {
    nn::LayerNorm plain(4);
    plain.to(device);
    const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).to(device);
    LPLayerNorm layer(plain, NormParameters::autocast);
    Tensor y;
    {
      const Autocast region(device, DType::f16);
      y = layer.forward(x);
    }
    backward_of(y, tensor({0.5, -1.0, 1.5, -2.0}, {.dtype = DType::f16}).to(device));
    const std::vector<double> expected{-0.67081770998, 0.44721180666, 0.67081770998, -2.68327083994};
    const std::vector<double> got = plain.weight->grad().to_vector<double>();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
    EXPECT_EQ(plain.bias->grad().to_vector<double>(), (std::vector<double>{0.5, -1, 1.5, -2}));
  }
}

TEST(NormLayerMemory, UsesTheCopiesThatAutocastKeeps) {
  const Device cpu = Device::cpu();
  for (const Kind& kind : kinds()) {
    if (!kind.casts_parameters) continue;
    const auto layer = kind.make(cpu, true);
    const Autocast region(cpu, DType::f16);
    static_cast<void>(layer->forward(input(kind, cpu)));
    const std::int64_t before = memory_stats(cpu).allocations;
    static_cast<void>(half_copy(kind.weight(*layer), DType::f16));
    static_cast<void>(half_copy(kind.bias(*layer), DType::f16));
    EXPECT_EQ(memory_stats(cpu).allocations, before) << kind.name;
  }
}

TEST(NormLayerMemory, KeepsNothingWiderThanTheRegionForBackward) {
  const Device cpu = Device::cpu();
  for (const Kind& kind : kinds()) {
    const auto layer = kind.make(cpu, true);
    const Tensor x = input(kind, cpu, 4096).to(DType::f16).requires_grad_();
    const Autocast region(cpu, DType::f16);
    const std::int64_t before = memory_stats(cpu).current;
    const Tensor y = layer->forward(x);
    const std::int64_t kept = memory_stats(cpu).current - before;
    EXPECT_LT(kept, x.numel() * 2 + x.numel()) << kind.name << ": the result, and x as it is";
  }
}

TEST(NormLayerText, PrintsClonesAndNamesItself) {
  const nn::LayerNorm norm(4);
  LPLayerNorm low(norm, NormParameters::f32);
  EXPECT_EQ(nn::to_string(low),
            "LPLayerNorm([4], eps=1e-05, elementwise_affine=true, bias=true, parameters=f32)");
  const nn::GroupNorm groups(2, 4);
  EXPECT_EQ(nn::to_string(LPGroupNorm(groups)), "LPGroupNorm(2, 4, eps=1e-05, affine=true, bias=true)");
  EXPECT_EQ(nn::to_string(FusedLayerNorm(norm)),
            "FusedLayerNorm([4], eps=1e-05, elementwise_affine=true, bias=true)");
  const auto copy = nn::clone(low);
  EXPECT_FALSE(copy->weight->is_same(low.weight));
  EXPECT_TRUE(low.weight->is_same(norm.weight));
  const Autocast region(Device::cpu(), DType::bf16);
  EXPECT_EQ(copy->forward(ones({2, 4})).dtype(), DType::bf16);
  nn::Sequential net(nn::make<LPLayerNorm>(norm, NormParameters::autocast));
  try {
    static_cast<void>(net(ones({2, 3})));
    FAIL() << "expected a ShapeError";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("LPLayerNorm '0': expected an input whose last sizes are [4]"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(static_cast<void>(net(Tensor())), ValueError);
}

}  // namespace
}  // namespace mezzo::amp
