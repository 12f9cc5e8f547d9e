// Summaries under autocast: the dtype each layer runs in and the precision of its norm, also of modules that
// decide for themselves.
#include "mezzo/amp/summary.h"

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/policy.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

nn::Sequential net_with_norms() {
  auto shared = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 8), nn::make<nn::LayerNorm>(8));
  return nn::Sequential(nn::make<nn::Linear>(4, 8), nn::make<nn::BatchNorm1d>(8), shared,
                        nn::make<nn::ReLU>(), shared, nn::make<nn::Softmax>(-1));
}

TEST(AmpSummary, PrintsWhatRunsInWhichDtype) {
  nn::Sequential net = net_with_norms();
  EXPECT_EQ(
      nn::to_string(amp::summary(net, Shape{3, 4}, {.dtype = DType::f16})),
      R"(====================================================================================================================
Layer (type (name))   Output Shape      Param #  Mult-Adds  Runs in   Norm
====================================================================================================================
Sequential            [3, 8]                 --         --  f16, f32  --
├─Linear (0)          [3, 8]                 40         96  f16       --
├─BatchNorm1d (1)     [3, 8]                 16         --  f16       f16 in and out, f32 statistics and parameters
├─Sequential (2)      [3, 8]                 --         --  f16, f32  --
│    ├─Linear (0)     [3, 8]                 72        384  f16       --
│    └─LayerNorm (1)  [3, 8]                 16         --  f32       f16 in, f32 out, f32 statistics and parameters
├─ReLU (3)            [3, 8]                 --         --  f32       --
├─Sequential (4)      [3, 8]        (recursive)         --  f16, f32  --
└─Softmax (5)         [3, 8]                 --         --  f32       --
====================================================================================================================
Total params: 144
Trainable params: 144
Non-trainable params: 0
Total mult-adds: 480
====================================================================================================================
Input size: 48 B
Forward/backward pass size: 768 B
Params size: 576 B
Estimated total size: 1.39 kB
====================================================================================================================)");
}

/// The cells of a row by its path: "f16 | f16 in and out".
std::string cells(const nn::Summary& result, const std::string& path) {
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    if (result.rows[i].path == path) return result.extra[i][0] + " | " + result.extra[i][1];
  }
  return "no row '" + path + "'";
}

/// The cells of one layer, alone in a model.
template <class L>
std::string cells_of(std::shared_ptr<L> layer, const Tensor& x, const SummaryOptions& options) {
  nn::Sequential net(std::move(layer));
  return cells(amp::summary(net, x, options), "0");
}

TEST(AmpSummary, OfNormsInEveryDtype) {
  const Tensor x = randn({2, 4, 4});
  const SummaryOptions bf16{.dtype = DType::bf16};
  const auto norm = [] { return nn::make<nn::GroupNorm>(2, 4); };
  EXPECT_EQ(cells_of(norm(), x, {.enabled = false}), "f32 | f32 in and out");
  EXPECT_EQ(cells_of(norm(), x, bf16), "f32 | f32 in and out");
  EXPECT_EQ(cells_of(norm(), x.to(DType::bf16), bf16),
            "f32 | bf16 in, f32 out, f32 statistics and parameters");
  auto half = norm();
  half->to(DType::f16);
  EXPECT_EQ(cells_of(half, x.to(DType::f16), {.enabled = false}),
            "f16 | f16 in and out, f32 statistics, f16 parameters");
  auto wide = norm();
  wide->to(DType::f64);
  EXPECT_EQ(cells_of(wide, x.to(DType::f64), bf16), "f64 | f64 in and out");
  const auto bare = nn::make<nn::RMSNorm>(4, nn::RMSNormOptions{.elementwise_affine = false});
  EXPECT_EQ(cells_of(bare, x.to(DType::bf16), bf16), "f32 | bf16 in, f32 out, f32 statistics");
  EXPECT_EQ(cells_of(nn::make<nn::InstanceNorm1d>(4), x.to(DType::f16), {}),
            "f16 | f16 in and out, f32 statistics");
}

/// What a low-precision norm does: rounds its input and parameters, and runs without autocast.
struct LowNorm final : nn::LayerNorm {
  explicit LowNorm(std::int64_t size, bool round_parameters) : nn::LayerNorm(size), round(round_parameters) {}
  Tensor forward(const Tensor& x) override {
    const DType dtype = autocast_dtype(x.device().type);
    const Autocast off(x.device(), {}, {.enabled = false});
    const auto cast = [&](const Tensor& t) { return round ? t.to(dtype) : t; };
    return layer_norm(x.to(dtype), normalized_shape(), cast(weight), cast(bias), eps());
  }
  bool round;
};

TEST(AmpSummary, OfModulesThatDecideForThemselves) {
  nn::Sequential net(nn::make<nn::Linear>(4, 8), nn::make<LowNorm>(8, true), nn::make<nn::Linear>(8, 8));
  const nn::Summary result = amp::summary(net, Shape{3, 4}, {.dtype = DType::f16});
  EXPECT_EQ(cells(result, "1"), "f16 | f16 in and out, f32 statistics, f16 parameters");
  EXPECT_EQ(cells(result, ""), "f16 | --") << "all of it in f16";
  EXPECT_EQ(result.rows[2].output_dtype, DType::f16);
}

TEST(AmpSummary, TakesTheRegionsDefaultsAndItsPolicy) {
  nn::Sequential net(nn::make<nn::Linear>(4, 8), nn::make<nn::Softmax>(-1));
  EXPECT_EQ(cells(amp::summary(net, Shape{3, 4}), "0"), "bf16 | --") << "a CPU's default";
  EXPECT_EQ(cells(amp::summary(net, Shape{3, 4}, {.dtype = DType::f32}), ""), "f32 | --");
  EXPECT_EQ(cells(amp::summary(net, Shape{3, 4}, {.enabled = false}), ""), "f32 | --");
  const PolicyOverride low("softmax", Category::lower_precision), high("linear", Category::fp32);
  const nn::Summary result = amp::summary(net, Shape{3, 4}, {.dtype = DType::f16});
  EXPECT_EQ(cells(result, "0"), "f32 | --");
  EXPECT_EQ(cells(result, "1"), "f16 | --");
}

/// Ops of all kinds in one module.
struct Mixed final : nn::Module {
  nn::Param gain{*this, "gain", ones({4})};
  Tensor forward(const Tensor& x, const Tensor& index) {
    const Tensor moved = x.to(DType::f64).to(DType::f32).clone();  // casts
    const Tensor row = reshape(moved, {4, 3});                     // a view
    return which == 0 ? row : which == 1 ? mul(x, gain) : index_select(x, 0, index);
  }
  int which = 0;
};

TEST(AmpSummary, CountsOpsThatCompute) {
  Mixed net;
  const Tensor x = randn({3, 4}).to(DType::f16), index = tensor({2}, {.dtype = DType::i64});
  const auto runs_in = [&](int which) {
    net.which = which;
    const nn::Summary result =
        amp::summary(net, [&] { return net.forward(x, index); }, {.dtype = DType::f16});
    return cells(result, "");
  };
  EXPECT_EQ(runs_in(0), "-- | --") << "casts, copies and views";
  EXPECT_EQ(runs_in(1), "f32 | --") << "f16 times f32";
  EXPECT_EQ(runs_in(2), "f16 | --") << "an integer input beside";
}

TEST(AmpSummary, LeavesNoRegionBehind) {
  nn::Sequential net(nn::make<nn::Linear>(4, 8));
  EXPECT_THROW(static_cast<void>(amp::summary(net, Shape{3, 5}, {.dtype = DType::f16})), ShapeError);
  EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
  EXPECT_THROW(static_cast<void>(amp::summary(net, Shape{3, 4}, {.dtype = DType::i64})), ValueError);
  EXPECT_THROW(static_cast<void>(amp::summary(net, Shape{3, 4}, {.table = {.depth = -1}})), ValueError);
  static_cast<void>(amp::summary(net, Shape{3, 4}));
  EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
  EXPECT_EQ(net(zeros({3, 4})).dtype(), DType::f32);
}

TEST(AmpSummary, RunsOnTheModelsDevice) {
  const Device device = Device::best();
  nn::Sequential net = net_with_norms();
  net.to(device);
  const SummaryOptions options{.dtype = DType::bf16, .table = {.depth = 1}};
  const Tensor x = zeros({3, 4}, {.device = device});
  const nn::Summary by_shape = amp::summary(net, Shape{3, 4}, options);
  EXPECT_EQ(nn::to_string(by_shape), nn::to_string(amp::summary(net, x, options)));
  EXPECT_EQ(by_shape.extra, summary(
                                net, [&] { return net(x); }, options)
                                .extra);
  EXPECT_EQ(cells(by_shape, "0"), "bf16 | --");
}

}  // namespace
}  // namespace mezzo::amp
