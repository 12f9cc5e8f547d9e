// Float8 under autocast: linear and the products that stand for it, against the exact product; what is not
// finite; regions, copies of weights, recomputation, second gradients; and what is refused.
#include "mezzo/amp/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/summary.h"
#include "mezzo/amp/trace.h"
#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/anomaly.h"
#include "mezzo/nn/checkpoint.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo::amp {
namespace {

using test::message_of;

const Device kCpu = Device::cpu();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// 20 log10(|want| / |want - got|).
double decibels(const Tensor& got, const Tensor& want) {
  const Tensor exact = want.detach().to(DType::f64), error = got.detach().to(DType::f64) - exact;
  return 10 * std::log10((exact * exact).sum().item<double>() / (error * error).sum().item<double>());
}

/// Whether both have one dtype and the same bits.
bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && equal(a, b); }

/// A step of a layer: y = x w^T + b, and the gradients for g.
struct Step {
  Tensor x, w, b, g, y;

  explicit Step(std::int64_t m = 24, std::int64_t k = 64, std::int64_t n = 48)
      : x(randn({m, k}).to(DType::bf16).requires_grad_()),
        w((randn({n, k}) * 0.1).detach().requires_grad_()),
        b(randn({n}).requires_grad_()),
        g(randn({m, n}).to(DType::bf16)) {}

  using Layer = std::function<Tensor(const Step&)>;
  static Tensor plain(const Step& s) { return linear(s.x, s.w, s.b); }

  /// Forward in the region, backward outside; gradients are new ones.
  void run(const AutocastOptions& options, const Layer& layer = plain, DType dtype = DType::bf16) {
    for (const Tensor& leaf : {x, w, b}) leaf.set_grad(Tensor());
    {
      const Autocast region(kCpu, dtype, options);
      y = layer(*this);
    }
    y.backward(g.to(y.dtype()));
  }
  /// The results of the last run: y, dx, dw, db.
  [[nodiscard]] std::vector<Tensor> results() const { return {y.detach(), x.grad(), w.grad(), b.grad()}; }
};

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same(got[i], want[i])) << i;
}

class Float8 : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
};

TEST_F(Float8, LinearIsCloseToTheExactProduct) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Fp8& fp8 : {Fp8{}, Fp8{.gradients = DType::f8_e4m3}, Fp8{.power_of_two = true},
                           Fp8{.gradient_weight = GradientWeight::high}}) {
      Step step(40, 256, 64);
      step.run({.fp8 = fp8}, Step::plain, dtype);
      const Tensor x = step.x.detach().to(DType::f64), w = step.w.detach().to(DType::f64),
                   g = step.g.to(DType::f64);
      EXPECT_EQ(step.y.dtype(), dtype);
      EXPECT_EQ(step.w.grad().dtype(), DType::f32);
      EXPECT_EQ(step.x.grad().dtype(), DType::bf16);
      EXPECT_GE(decibels(step.y, linear(x, w, step.b.detach().to(DType::f64))), 18);
      EXPECT_GE(decibels(step.w.grad(), matmul(t(g), x)), 17);
      EXPECT_GE(decibels(step.x.grad(), matmul(g, w)), 17);
      EXPECT_TRUE(allclose(step.b.grad(), g.sum({0}).to(DType::f32), 1e-6, 1e-6));
    }
  }
}

TEST_F(Float8, HighIsTheProductOf16BitOperands) {
  Step step;
  step.run({.fp8 = Fp8{.gradient_weight = GradientWeight::high}});
  EXPECT_TRUE(same(step.w.grad(), matmul(t(step.g), step.x.detach(), DType::f32)));
}

TEST_F(Float8, SizesThatAreNoMultiplesOf16StayIn16Bits) {
  for (const auto& [k, n] : {std::pair{60, 48}, std::pair{64, 40}}) {
    Step step(8, k, n);
    step.run({});
    const auto want = step.results();
    step.run({.fp8 = true});
    expect_same(step.results(), want);
  }
  Step odd(5, 64, 48);  // rows of any number
  odd.run({});
  const Tensor want = odd.y;
  odd.run({.fp8 = true});
  EXPECT_FALSE(equal(odd.y, want));
}

TEST_F(Float8, SmallWeightsStayIn16BitsWhereAsked) {
  Step step;
  step.run({});
  const auto want = step.results();
  step.run({.fp8 = Fp8{.max_n = 48, .max_k = 64}});
  expect_same(step.results(), want);
  step.run({.fp8 = Fp8{.max_n = 48, .max_k = 63}});
  EXPECT_FALSE(equal(step.y, want[0]));
}

TEST_F(Float8, ProductsWithAParameterAreThoseOfLinear) {
  Step step;
  step.run({.fp8 = true});
  const auto with_bias = step.results();
  const Tensor right = t(step.w).detach().contiguous().requires_grad_();
  Tensor y, left_y;
  {
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    y = addmm(step.b, step.x, right);
    left_y = matmul(step.w, t(step.x));
    EXPECT_TRUE(same(mm(step.x, right), matmul(step.x, right)));
    EXPECT_TRUE(same(t(left_y).detach(), matmul(step.x, right).detach()));
  }
  EXPECT_TRUE(same(y.detach(), with_bias[0]));
  for (const Tensor& leaf : {step.x, step.b}) leaf.set_grad(Tensor());
  y.backward(step.g);
  expect_same({step.x.grad(), t(right.grad()), step.b.grad()}, {with_bias[1], with_bias[2], with_bias[3]});
  step.w.set_grad(Tensor());
  left_y.backward(t(step.g));
  EXPECT_TRUE(same(step.w.grad(), with_bias[2]));
}

TEST_F(Float8, OtherProductsStayAsTheyAre) {
  const Tensor a = randn({16, 32}), b = randn({32, 16}), batch = randn({2, 16, 32});
  const Tensor weight = randn({32, 16}).requires_grad_();
  const Autocast region(kCpu, DType::bf16, {.fp8 = true});
  const auto plain = [&](const auto& f) {
    const Autocast without(kCpu, DType::bf16);
    return f();
  };
  const auto expect_plain = [&](const auto& f) { EXPECT_TRUE(same(f().detach(), plain(f).detach())); };
  expect_plain([&] { return matmul(a, b); });           // no parameter
  expect_plain([&] { return matmul(batch, weight); });  // no two matrices
  expect_plain([&] { return addmm(a.narrow(1, 0, 16), a, weight, 0.5); });
  expect_plain([&] { return matmul(a, weight, DType::f32); });
  const PolicyOverride keep("linear", Category::fp32);
  EXPECT_EQ(linear(a, t(weight)).dtype(), DType::f32);
}

TEST_F(Float8, TheInnerRegionCounts) {
  Step step;
  step.run({});
  const Tensor want = step.y;
  const Autocast region(kCpu, DType::bf16, {.fp8 = true});
  EXPECT_NE(autocast_fp8(DeviceType::cpu), nullptr);
  {
    const Autocast without(kCpu, DType::bf16);
    EXPECT_EQ(autocast_fp8(DeviceType::cpu), nullptr);
    EXPECT_TRUE(same(linear(step.x, step.w, step.b).detach(), want.detach()));
    const Autocast off(kCpu, DType::bf16, {.enabled = false, .fp8 = true});
    EXPECT_EQ(linear(step.x.detach().to(DType::f32), step.w, step.b).dtype(), DType::f32);
  }
  EXPECT_FALSE(equal(linear(step.x, step.w, step.b), want));
}

TEST_F(Float8, WhatIsNotFiniteMakesTheStepSkipped) {
  enum : std::uint8_t { in_x, in_w, in_g };
  for (const double bad : {kInf, -kInf, std::nan("")}) {
    for (const auto place : {in_x, in_w, in_g}) {
      Step step;
      optim::SGD optimizer({step.w, step.b}, {.lr = 0.1});
      GradScaler scaler({.init_scale = 1});
      const Tensor before = step.b.detach().clone();
      {
        const NoGrad no_grad;
        const Tensor& target = place == in_x ? step.x : place == in_w ? step.w : step.g;
        target.select(0, 3).select(0, 5).fill_(bad);
      }
      {
        const Autocast region(kCpu, DType::bf16, {.fp8 = true});
        step.y = linear(step.x, step.w, step.b);
      }
      const Tensor y = step.y.to(DType::f32);
      scaler.scale(sum(y * y * step.g.to(DType::f32))).backward();
      const auto result = scaler.step(optimizer);
      EXPECT_TRUE(result.skipped()) << bad << " " << int{place};
      EXPECT_EQ(result.first_nonfinite(), std::optional<std::size_t>(0));
      EXPECT_TRUE(same(step.b.detach(), before));
    }
  }
}

TEST_F(Float8, AnomalyDetectionNamesTheOperand) {
  nn::Sequential net(nn::Linear(32, 16));
  Tensor x = randn({4, 32});
  x.select(0, 1).select(0, 2).fill_(kInf);
  const autograd::DetectAnomaly detect({.throws = false});
  {
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    static_cast<void>(net(x));
  }
  ASSERT_TRUE(detect.found());
  EXPECT_EQ(detect.found()->text(),
            "input 0 of quantize_f8 in Linear '0', f32 [4, 32], with 1 elements that are inf or NaN");
}

TEST_F(Float8, WeightsAreQuantisedOncePerRegionAndVersion) {
  Step step;
  const auto quantised = [](const Trace& trace) {
    std::int64_t casts = 0, spared = 0;
    for (const TraceRow& row : trace.report().rows) {
      if (row.op != "linear_f8") continue;
      EXPECT_EQ(row.policy, Category::lower_precision);
      casts += row.casts.casts, spared += row.casts.spared;
    }
    return std::pair(casts, spared);
  };
  const Trace trace;
  {
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    const Tensor first = linear(step.x, step.w), second = linear(step.x, step.w);
    EXPECT_EQ(quantised(trace), (std::pair<std::int64_t, std::int64_t>(3, 1)));
    EXPECT_TRUE(same(first, second));
    {
      const NoGrad no_grad;
      step.w.mul_(-1);
    }
    const Tensor third = linear(step.x, step.w);
    EXPECT_EQ(quantised(trace), (std::pair<std::int64_t, std::int64_t>(5, 1)));
    EXPECT_TRUE(same(third, -first));
  }
  const Autocast region(kCpu, DType::bf16, {.cache_enabled = false, .fp8 = true});
  static_cast<void>(linear(step.x, step.w));
  static_cast<void>(linear(step.x, step.w));
  EXPECT_EQ(quantised(trace), (std::pair<std::int64_t, std::int64_t>(9, 1)));
}

TEST_F(Float8, NoCodesOutliveTheRegion) {
  const std::int64_t before = memory_stats(kCpu).current;
  Step step;
  const std::int64_t with_leaves = memory_stats(kCpu).current;
  {
    const NoGrad no_grad;
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    static_cast<void>(linear(step.x, step.w));
    EXPECT_GT(memory_stats(kCpu).current, with_leaves);
  }
  EXPECT_EQ(memory_stats(kCpu).current, with_leaves);
  EXPECT_GT(with_leaves, before);
}

TEST_F(Float8, BackwardKeepsAByteAnElement) {
  const auto kept = [](const AutocastOptions& options) {
    const Tensor x = randn({512, 256}).to(DType::bf16).requires_grad_();
    const Tensor w = randn({16, 256}).requires_grad_();
    const std::int64_t before = memory_stats(kCpu).current;
    Tensor y;
    {
      const Autocast region(kCpu, DType::bf16, options);
      y = linear(x * 2, w);
    }
    return memory_stats(kCpu).current - before;
  };
  // 256 KiB of bf16, 128 KiB of codes; beside them y, the weight's copy and small things.
  EXPECT_LE(kept({.fp8 = true}), kept({}) - 100 * 1024);
}

TEST_F(Float8, RecomputedRegionsAndThreadsGiveTheSameBits) {
  Step step(64, 128, 96);
  const auto layer = [](const Step& s) { return relu(linear(s.x, s.w, s.b)); };
  step.run({.fp8 = true}, layer);
  const auto want = step.results();
  step.run({.fp8 = true}, [&](const Step& s) {
    return autograd::checkpoint([&](const Tensor& x) { return relu(linear(x, s.w, s.b)); }, s.x);
  });
  expect_same(step.results(), want);
  for (const int threads : {1, 2, 5}) {
    const test::ThreadGuard guard(threads);
    step.run({.fp8 = true}, layer);
    expect_same(step.results(), want);
  }
}

TEST_F(Float8, TiedWeightsAndAccumulationAddUp) {
  Step step(16, 32, 32);
  const auto gradient = [&](const std::function<Tensor()>& f) {
    step.w.set_grad(Tensor());
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    f().sum().backward();
    return step.w.grad();
  };
  const Tensor h = linear(step.x.detach().to(DType::f32), step.w.detach());
  const Tensor first = gradient([&] { return linear(step.x, step.w); }),
               second = gradient([&] { return linear(h, step.w); });
  const Tensor both = gradient([&] { return linear(step.x, step.w) + linear(h, step.w); });
  EXPECT_TRUE(allclose(both, first + second, 1e-6, 1e-6));
}

TEST_F(Float8, NothingIsKeptForFrozenWeights) {
  Step step(512, 256, 16);
  step.w.requires_grad_(false);
  const std::int64_t before = memory_stats(kCpu).current;
  {
    const Autocast region(kCpu, DType::bf16, {.fp8 = true});
    step.y = linear(step.x, step.w, step.b);
  }
  EXPECT_LE(memory_stats(kCpu).current - before, 64 * 1024);
  step.y.backward(step.g);
  EXPECT_TRUE(step.x.grad().defined());
  EXPECT_FALSE(step.w.grad().defined());
}

TEST_F(Float8, ASecondGradientIsThePlainProducts) {
  for (const auto gradient_weight : {GradientWeight::fp8, GradientWeight::high}) {
    // |dy/dx|^2 of a layer with a nonlinearity: its gradient needs x, w and g.
    const auto penalty = [&](Step& s, bool fp8) {
      for (const Tensor& leaf : {s.x, s.w}) leaf.set_grad(Tensor());
      Tensor y;
      {
        const Autocast region(kCpu, DType::bf16,
                              {.fp8 = fp8 ? Fp8Option(Fp8{.gradient_weight = gradient_weight}) : false});
        y = linear(s.x, s.w);
      }
      const Tensor loss = sum(tanh(y.to(DType::f32)));
      const Tensors grads = grad({loss}, {s.x, s.w}, {}, {.create_graph = true});
      (sum(grads[0].to(DType::f32) * grads[0].to(DType::f32)) + sum(grads[1] * grads[1])).backward();
      return std::pair(s.x.grad().to(DType::f32), s.w.grad());
    };
    Step step(16, 32, 48);
    const auto got = penalty(step, true), want = penalty(step, false);
    EXPECT_GE(decibels(got.first, want.first), 12);
    EXPECT_GE(decibels(got.second, want.second), 12);
  }
}

TEST_F(Float8, ModulesCanBeSkipped) {
  nn::Sequential net(nn::Linear(32, 32), nn::Sequential(nn::ReLU(), nn::Linear(32, 32)), nn::Linear(32, 16));
  const Tensor x = randn({8, 32});
  const auto runs_in = [&](const Fp8& fp8) {
    std::vector<std::string> texts;
    const nn::Summary all = amp::summary(net, x, {.dtype = DType::bf16, .fp8 = fp8});
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      for (const char* path : {"0", "1.1", "2"}) {
        if (all.rows[i].path == path) texts.push_back(all.extra[i][0]);
      }
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(runs_in({}), (Texts{"f8", "f8", "f8"}));
  EXPECT_EQ(runs_in({.skip = {"2"}}), (Texts{"f8", "f8", "bf16: skipped"}));
  EXPECT_EQ(runs_in({.skip = {"1", "0"}}), (Texts{"bf16: skipped", "bf16: skipped", "f8"}));
  EXPECT_EQ(message_of<ValueError>([&] { return runs_in({.skip = {"head"}}).size(); }),
            "amp::Fp8: expected in skip: paths of modules of Sequential, got \"head\" in "
            "Linear '0'; named_modules() lists them");
  // Computed again by backward, where no outer module runs.
  const auto gradient = [&](bool checkpointed) {
    net.zero_grad();
    Tensor y;
    {
      const Autocast region(kCpu, DType::bf16, {.fp8 = Fp8{.skip = {"1"}}});
      y = checkpointed ? nn::checkpoint(net, x) : net(x);
    }
    y.sum().backward();
    return net.parameters()[0].grad().clone();
  };
  EXPECT_TRUE(same(gradient(true), gradient(false)));
}

TEST_F(Float8, SummaryAndPolicySayWhatRuns) {
  nn::Sequential net(nn::Linear(100, 32), nn::ReLU(), nn::Linear(32, 32));
  const nn::Summary all = amp::summary(net, Shape{4, 100}, {.dtype = DType::bf16, .fp8 = true});
  EXPECT_EQ(all.extra[1][0], "bf16: K = 100 is no multiple of 16");
  EXPECT_EQ(all.extra[2][0], "bf16");
  EXPECT_EQ(all.extra[3][0], "f8");
  EXPECT_EQ(all.rows[3].mult_adds, 4 * 32 * 32);
  EXPECT_NE(to_string(policy()).find("in float8 under fp8: addmm, linear, matmul, mm\n"), std::string::npos);
  const PolicyOverride keep("linear", Category::fp32);
  EXPECT_NE(to_string(policy()).find("in float8 under fp8: addmm, matmul, mm\n"), std::string::npos);
}

TEST_F(Float8, EvaluationAndEmptyBatches) {
  Step step;
  step.run({.fp8 = true});
  const NoGrad no_grad;
  const Autocast region(kCpu, DType::bf16, {.fp8 = true});
  EXPECT_TRUE(same(linear(step.x, step.w, step.b), step.y.detach()));
  const InferenceMode inference;
  EXPECT_TRUE(same(linear(step.x, step.w, step.b), step.y.detach()));
  EXPECT_EQ(linear(empty({0, 64}), step.w, step.b).shape(), (Shape{0, 48}));
  const Tensor in_rows = linear(reshape(step.x, {2, 3, 4, 64}), step.w, step.b);
  EXPECT_TRUE(same(reshape(in_rows, {24, 48}), step.y.detach()));
}

TEST_F(Float8, StridedOperandsGiveTheBitsOfDenseOnes) {
  Step step(32, 64, 48);
  const Tensor wide = zeros({32, 128}), columns = t(t(step.x.detach()).contiguous());
  const Autocast region(kCpu, DType::bf16, {.fp8 = true});
  const Tensor want = linear(step.x.detach(), step.w.detach());
  wide.slice(1, 0, 128, 2).copy_(step.x.detach());
  EXPECT_TRUE(same(linear(wide.slice(1, 0, 128, 2), step.w.detach()), want));
  EXPECT_TRUE(same(linear(columns, step.w.detach()), want));
  EXPECT_TRUE(same(linear(step.x.detach(), t(t(step.w.detach()).contiguous())), want));
}

TEST_F(Float8, RowsHaveScalesOfTheirOwn) {
  const Tensor x = randn({3, 40}) * tensor({{1.0}, {1e4}, {1e-4}});
  const QuantizedF8 rows = quantize_f8(x, {.per_row = true});
  EXPECT_EQ(rows.scale.shape(), (Shape{3, 1}));
  for (std::int64_t i = 0; i < 3; ++i) {
    const QuantizedF8 row = quantize_f8(x[i]);
    EXPECT_TRUE(equal(rows.codes[i], row.codes));
    EXPECT_EQ(rows.inverse[i].item(), row.inverse.item());
  }
  EXPECT_GE(decibels(dequantize_f8(rows.codes, rows.inverse), x), 25);
}

TEST_F(Float8, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(message_of<ValueError>([] { return Autocast(kCpu, DType::f8_e4m3), 0; }),
            "Autocast: expected f16, bf16 or f32, got f8_e4m3; choose one of them");
  EXPECT_EQ(message_of<ValueError>([] { return Autocast(kCpu, DType::f32, {.fp8 = true}), 0; }),
            "Autocast: expected f16 or bf16 beside fp8, got f32; choose one of them");
  EXPECT_EQ(message_of<DTypeError>(
                [] { return Autocast(kCpu, DType::bf16, {.fp8 = Fp8{.gradients = DType::bf16}}), 0; }),
            "amp::Fp8: expected gradients in f8_e5m2 or f8_e4m3, got bf16; name one of them");
  EXPECT_EQ(message_of<DTypeError>([] { return quantize_f8(zeros({2}, {.dtype = DType::f64})).scale; }),
            "quantize_f8: expected an f16, bf16 or f32 tensor, got f64; cast it with to(DType::f32)");
  EXPECT_THROW(static_cast<void>(quantize_f8(zeros({2}), {.dtype = DType::bf16})), DTypeError);
  EXPECT_THROW(static_cast<void>(quantize_f8(zeros({}), {.per_row = true})), ShapeError);
  const Tensor f64 = zeros({16, 16}, {.dtype = DType::f64}), w = zeros({16, 16}).requires_grad_();
  const Autocast region(kCpu, DType::bf16, {.fp8 = true});
  EXPECT_THROW(static_cast<void>(linear(f64, w)), DTypeError);
}

}  // namespace
}  // namespace mezzo::amp
