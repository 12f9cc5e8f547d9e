// Anomaly detection: which op is blamed in forward and backward, in which module, what is no anomaly, and how
// scopes nest.
#include "mezzo/nn/anomaly.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/attention.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/nn/transformer.h"
#include "mezzo/ops/ops.h"

namespace mezzo::autograd {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr AnomalyOptions kRemember{.throws = false};

/// What is found while f runs; the op is "none" when all was well.
template <class F>
Anomaly found_in(F f) {
  const DetectAnomaly anomaly(kRemember);
  f();
  return anomaly.found().value_or(Anomaly{.op = "none", .place = {}, .shape = {}});
}

/// exp of what it is given, through a module of its own.
struct Exponential final : nn::Layer {
  Tensor forward(const Tensor& x) override { return exp(x); }
};
struct Net final : nn::Layer {
  nn::Child<nn::Linear> fc{*this, "fc", nn::make<nn::Linear>(2, 2)};
  nn::Child<Exponential> grow{*this, "grow", nn::make<Exponential>()};
  Tensor forward(const Tensor& x) override { return sqrt(grow(relu(fc(x)))); }
};

TEST(DetectAnomaly, BlamesTheOpThatMadeItAndNotThoseThatPassItOn) {
  const Tensor x = tensor({1.0, 90.0, -1.0});
  const Anomaly overflow = found_in([&] { static_cast<void>(sum(mul(exp(x), 2.0))); });
  EXPECT_EQ(overflow.op, "exp") << "e^90 is beyond f32";
  EXPECT_EQ(overflow.count, 1);
  EXPECT_EQ(overflow.shape, (Shape{3}));
  EXPECT_FALSE(overflow.in_backward);
  const Anomaly nan = found_in([&] { static_cast<void>(add(log(x), 1.0)); });
  EXPECT_EQ(nan.op, "log") << "of a negative number";
  EXPECT_EQ(found_in([&] { static_cast<void>(sum(exp(mul(x, 0.5)))); }).op, "none");
  EXPECT_EQ(found_in([&] { static_cast<void>(exp(tensor({kInf, kNan}))); }).op, "none") << "it was given so";
  EXPECT_EQ(found_in([&] { static_cast<void>(sub(tensor({kInf}), tensor({kInf}))); }).op, "sub")
      << "NaN of infinities is new";
}

TEST(DetectAnomaly, LooksAtEveryDtypeAndLayout) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = zeros({4, 3}, {.dtype = dtype});
    const Anomaly found = found_in([&] { static_cast<void>(log(transpose(slice(x, 0, 1, 3), 0, 1))); });
    EXPECT_EQ(found.op, "log") << to_string(dtype);
    EXPECT_EQ(found.count, 6);
    EXPECT_EQ(found.dtype, dtype);
  }
  EXPECT_EQ(found_in([] { static_cast<void>(log(zeros({0, 3}))); }).op, "none");
}

TEST(DetectAnomaly, NamesTheModuleAndTheOpInItsError) {
  Net net;
  const DetectAnomaly anomaly = detect_anomaly();
  try {
    static_cast<void>(net(full({1, 2}, 1e6)));
    FAIL() << "nothing was found";
  } catch (const AutogradError& error) {
    EXPECT_NE(std::string(error.what()).find("output 0 of exp in Exponential 'grow', f32 [1, 2], with "),
              std::string::npos)
        << error.what();
  }
  ASSERT_TRUE(anomaly.found().has_value());
  EXPECT_EQ(anomaly.found()->place, "Exponential 'grow'");
}

/// sqrt in a module: its slope at 0 is infinite.
struct Root final : nn::Layer {
  Tensor forward(const Tensor& x) override { return sqrt(x); }
};
struct Rooted final : nn::Layer {
  nn::Child<Root> root{*this, "root", nn::make<Root>()};
  Tensor forward(const Tensor& x) override { return mul(root(mul(x, 1.0)), 2.0); }
};

TEST(DetectAnomaly, KnowsInBackwardWhereForwardWas) {
  Rooted net;
  const Tensor x = tensor({4.0, 0.0}, {.requires_grad = true});
  const Anomaly found = found_in([&] { sum(net(x)).backward(); });
  EXPECT_EQ(found.op, "sqrt");
  EXPECT_EQ(found.place, "Root 'root'");
  EXPECT_TRUE(found.in_backward);
  EXPECT_EQ(found.count, 1);
  EXPECT_NE(found.text().find("the gradient of input 0 of sqrt in Root 'root', f32 [2], with 1 "),
            std::string::npos)
      << found.text();
  const Tensor before = sum(net(x));
  EXPECT_EQ(found_in([&] { before.backward(); }).place, "") << "nobody looked on in forward";
}

TEST(DetectAnomaly, LeavesNoGradientWhenBackwardThrows) {
  Rooted net;
  const Tensor x = tensor({4.0, 0.0}, {.requires_grad = true});
  const DetectAnomaly anomaly;
  const Tensor loss = sum(net(x));
  EXPECT_THROW(loss.backward(), AutogradError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(DetectAnomaly, BlamesTheGradientThatOverflowsInTheCastToItsInputsDtype) {
  // mul gives 1e6 in f32, which is finite, to an input in f16, where it is not.
  const Tensor x = ones({2}, {.dtype = DType::f16, .requires_grad = true});
  const Anomaly found = found_in([&] { sum(exp(x * 1.0) * full({2}, 1e6)).backward(); });
  EXPECT_EQ(found.op, "mul") << "and not exp, which passes it on";
  EXPECT_EQ(found.index, 0U);
  const Tensor a = tensor({1.0}, {.requires_grad = true}), b = tensor({1e-30}, {.requires_grad = true});
  EXPECT_EQ(found_in([&] { sum(div(a, b)).backward(); }).index, 1U) << "a / b^2";
}

TEST(DetectAnomaly, BlamesTheSumThatTheDefaultScaleOverflows) {  // V-9
  const Tensor a = ones({2, 2}, {.requires_grad = true});
  amp::GradScaler scaler;
  const Anomaly found = found_in([&] {
    Tensor loss;
    {
      const amp::Autocast region(Device::cpu(), DType::f16);
      loss = sum(matmul(a, a));
    }
    scaler.scale(loss).backward();
  });
  EXPECT_EQ(found.op, "sum");
  EXPECT_TRUE(found.in_backward);
}

TEST(DetectAnomaly, BlamesNoGradientFunctionForWhatItWasGiven) {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  EXPECT_EQ(found_in([&] { mul(x, 2.0).backward(tensor({kInf, 1.0}), {}); }).op, "none") << "the seed";
  const Tensor y = mul(x, 2.0);
  y.register_hook([](const Tensor& gradient) { return mul(mul(gradient, 3e38), 10.0); });
  const Anomaly in_hook = found_in([&] { sum(exp(y)).backward(); });
  EXPECT_EQ(in_hook.op, "mul_scalar");
  EXPECT_TRUE(in_hook.between_gradients);
}

TEST(DetectAnomaly, SeesGradientsThatOverflowWhenTheyAreAdded) {
  const Tensor x = tensor({0.001}, {.requires_grad = true});
  const Anomaly found = found_in([&] {
    const Tensor y = mul(x, 1.0);
    add(mul(y, 2e38), mul(y, 3e38)).backward();
  });
  EXPECT_EQ(found.op, "add");
  EXPECT_TRUE(found.in_backward && found.between_gradients);
}

TEST(DetectAnomaly, SeesASecondBackwardInThePlaceOfTheFirstForward) {
  // The slope of x^1.5 is finite at 0, its second derivative is not.
  struct Power final : nn::Layer {
    Tensor forward(const Tensor& x) override { return pow(x, 1.5); }
  };
  Power net;
  const Tensor x = tensor({0.0, 1.0}, {.requires_grad = true});
  const Anomaly found = found_in([&] {
    const Tensors first = grad(sum(net(x)), {x}, {.create_graph = true});
    sum(first[0]).backward();
  });
  EXPECT_TRUE(found.in_backward);
  EXPECT_EQ(found.place, "Power");
}

TEST(DetectAnomaly, MayLookAtGradientsOnly) {
  const Tensor x = tensor({0.0}, {.requires_grad = true});
  const DetectAnomaly anomaly({.check_forward = false, .throws = false});
  const Tensor y = log(x);
  EXPECT_FALSE(anomaly.found().has_value());
  y.backward();
  ASSERT_TRUE(anomaly.found().has_value());
  EXPECT_EQ(anomaly.found()->op, "log");
  EXPECT_TRUE(anomaly.found()->in_backward);
}

TEST(DetectAnomaly, InfinitiesThatMasksPlaceAreNone) {
  const Tensor x = ones({2, 3}), mask = tensor({1, 0, 0, 1, 0, 0}, {2, 3}).to(DType::boolean);
  EXPECT_EQ(found_in([&] { static_cast<void>(softmax(masked_fill(x, mask, -kInf), 1)); }).op, "none");
  EXPECT_EQ(found_in([&] { static_cast<void>(softmax(where(mask, -kInf, x), 1)); }).op, "none");
  EXPECT_EQ(found_in([&] { static_cast<void>(masked_fill(x, mask, kNan)); }).op, "masked_fill");
  const Tensor all = ones({2, 3}, {.dtype = DType::boolean});
  EXPECT_EQ(found_in([&] { static_cast<void>(softmax(masked_fill(x, all, -kInf), 1)); }).op, "softmax")
      << "0 / 0 in a row without keys";
}

TEST(DetectAnomaly, FindsNothingInMaskedAttentionUnderAutocast) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool floating : {false, true}) {
      nn::TransformerEncoder net(nn::make<nn::TransformerEncoderLayer>(
                                     8, 2, nn::TransformerEncoderLayerOptions{.dim_feedforward = 16}),
                                 2);
      const Tensor later = triu(ones({5, 5}), 1).to(DType::boolean);
      const Tensor padding = tensor({0, 0, 0, 0, 1, 0, 0, 1, 1, 1}, {2, 5}).to(DType::boolean);
      const auto mask = [&](const Tensor& bools) {
        return floating ? masked_fill(zeros(bools.shape()), bools, -kInf) : bools;
      };
      const Tensor x = randn({5, 2, 8});
      const Anomaly found = found_in([&] {
        Tensor loss;
        {
          const amp::Autocast region(Device::cpu(), dtype);
          const Tensor y = net(x, {.src_mask = mask(later), .src_key_padding_mask = mask(padding)});
          loss = mean(mul(y, y));
        }
        loss.backward();
      });
      EXPECT_EQ(found.op, "none") << found.text();
    }
  }
}

TEST(DetectAnomaly, FindsNothingWhereAQueryHasNoKeys) {
  nn::MultiheadAttention attention(4, 2);
  const Tensor x = randn({3, 2, 4}, {.requires_grad = true});
  for (const bool weights : {false, true}) {
    const Anomaly found = found_in([&] {
      const nn::AttentionOutput y = attention(
          x, x, x, {.key_padding_mask = ones({2, 3}, {.dtype = DType::boolean}), .need_weights = weights});
      sum(y.output).backward();
    });
    EXPECT_EQ(found.op, "none") << found.text();
  }
}

TEST(DetectAnomaly, SeesTheCastsOfAutocast) {
  nn::Linear fc(2, 2);
  const Anomaly found = found_in([&] {
    const amp::Autocast region(Device::cpu(), DType::f16);
    static_cast<void>(fc(full({1, 2}, 1e5)));
  });
  EXPECT_EQ(found.op, "to_dtype");
  EXPECT_EQ(found.dtype, DType::f16);
  EXPECT_EQ(found.place, "Linear");
}

// An op of a user's own, under autocast: infinite inside, finite outside.
Outputs inner_forward(const ForwardArgs<NoAttrs>& args) {
  const Tensor product = matmul(args.in(0), args.in(0));
  return minimum(exp(mul(product, 100.0)), ones({}, {.dtype = product.dtype()}));
}
Gradients inner_vjp(const VjpArgs<NoAttrs>& args) { return {div(args.grad(), zeros_like(args.grad()))}; }
std::vector<Sample<NoAttrs>> no_samples() { return {}; }
constexpr Op<NoAttrs> inner_op{
    .info = {.name = "test_inner", .category = Category::passthrough, .runs_under_autocast = true},
    .samples = no_samples,
    .forward = inner_forward,
    .vjp = inner_vjp,
    .saves = kSaveNothing};

TEST(DetectAnomaly, TakesAnOpOfAUsersOwnAsOne) {
  const Tensor x = ones({2, 2}, {.requires_grad = true});
  const Anomaly found = found_in([&] {
    Tensor loss;
    {
      const amp::Autocast region(Device::cpu(), DType::f16);
      loss = sum(bind(inner_op, {x})[0]);
    }
    loss.backward();
  });
  EXPECT_EQ(found.op, "test_inner") << "1 / 0 in its gradient, and no op inside of it";
  EXPECT_TRUE(found.in_backward);
}

TEST(DetectAnomaly, LooksWithoutRecordingToo) {
  const NoGrad no_grad;
  EXPECT_EQ(found_in([] { static_cast<void>(log(zeros({1}, {.requires_grad = true}))); }).op, "log");
}

TEST(DetectAnomaly, RemembersTheFirstUntilItIsReset) {
  DetectAnomaly anomaly(kRemember);
  static_cast<void>(log(zeros({1})));
  static_cast<void>(sqrt(full({1}, -1.0)));
  EXPECT_EQ(anomaly.found()->op, "log");
  anomaly.reset();
  EXPECT_FALSE(anomaly.found().has_value());
  static_cast<void>(sqrt(full({1}, -1.0)));
  EXPECT_EQ(anomaly.found()->op, "sqrt");
}

TEST(DetectAnomaly, ScopesNestAndEndWithTheirScope) {
  Rooted net;
  const Tensor x = zeros({1}, {.requires_grad = true});
  const auto run = [&] { sum(net(x)).backward(); };
  {
    const DetectAnomaly outer(kRemember);
    {
      const DetectAnomaly inner(kRemember);
      run();
      ASSERT_TRUE(inner.found().has_value());
      EXPECT_EQ(inner.found()->place, "Root 'root'");
    }
    ASSERT_TRUE(outer.found().has_value()) << "it was told as well";
    EXPECT_EQ(outer.found()->place, "Root 'root'");
  }
  EXPECT_EQ(op_observer(), nullptr);
  EXPECT_EQ(BackwardObserver::current(), nullptr);
  EXPECT_EQ(nn::detail::call_observer(), nullptr);
  run();
}

TEST(DetectAnomaly, KeepsThePlaceWhenAModuleThrows) {
  struct Refusing final : nn::Layer {
    nn::Child<Root> root{*this, "root", nn::make<Root>()};
    Tensor forward(const Tensor& x) override {
      try {
        static_cast<void>(root(Tensor()));
      } catch (const Error&) {
      }
      return log(x);
    }
  };
  Refusing net;
  EXPECT_EQ(found_in([&] { static_cast<void>(net(zeros({1}))); }).place, "Refusing");
}

TEST(DetectAnomaly, IsOfItsThread) {
  const DetectAnomaly anomaly(kRemember);
  Rooted net;
  const Tensor x = zeros({1}, {.requires_grad = true});
  Tensor loss;
  Anomaly elsewhere;
  std::thread([&] {
    static_cast<void>(log(zeros({1})));
    const DetectAnomaly its_own({.check_forward = false, .throws = false});
    loss = sum(net(x));
  }).join();
  EXPECT_FALSE(anomaly.found().has_value());
  loss.backward();
  EXPECT_EQ(anomaly.found()->place, "Root 'root'") << "nodes carry it from thread to thread";
}

TEST(DetectAnomaly, ChangesNoResult) {
  const auto run = [] {
    const Tensor x = tensor({0.5, 2.0}, {.requires_grad = true});
    sum(exp(x) * x).backward();
    return x.grad();
  };
  const Tensor plain = run();
  const DetectAnomaly anomaly;
  EXPECT_TRUE(all(eq(run(), plain)).item<bool>());
}

TEST(DetectAnomaly, ReadsOnceAnOp) {
  const Tensor x = ones({8});
  const DetectAnomaly anomaly;
  const std::uint64_t before = host_reads();
  static_cast<void>(exp(neg(x)));
  EXPECT_EQ(host_reads() - before, 2U);
}

TEST(DetectAnomaly, IsRefusedWhileAStepIsRecorded) {
  if (!cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Tensor x = ones({4}, {.device = Device::cuda()});
  amp::CapturedStep step(
      Device::cuda(),
      [&] {
        const DetectAnomaly anomaly;
        return sum(exp(x));
      },
      1);
  static_cast<void>(step());
  EXPECT_THROW(static_cast<void>(step()), StateError);
}

TEST(DetectAnomaly, WorksOnADevice) {
  if (!cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  Rooted net;
  const Tensor x = tensor({4.0, 0.0}).to(Device::cuda()).requires_grad_();
  const Anomaly found = found_in([&] { sum(net(x)).backward(); });
  EXPECT_EQ(found.op, "sqrt");
  EXPECT_EQ(found.place, "Root 'root'");
  EXPECT_EQ(found.count, 1);
}

}  // namespace
}  // namespace mezzo::autograd
