// Traces: the numbers of a small model by hand, with the cache of weights on and off, nested and disabled
// regions, ops that read 16-bit input, backward, and the printed table.
#include "mezzo/amp/trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/norm_surgery.h"
#include "mezzo/amp/summary.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/anomaly.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();
constexpr std::int64_t kBytes = 6;  // of an element's cast from f32 to f16, or back

TraceRow row_of(const TraceReport& report, std::string_view op, bool in_backward = false) {
  TraceRow none;
  for (const TraceRow& row : report.rows) {
    if (row.op == op && row.in_backward == in_backward) return row;
  }
  return none;
}

using DTypes = std::vector<DType>;
constexpr DType kF16 = DType::f16, kF32 = DType::f32;

/// y = relu(x w1^T + b1) w2^T + b2 of 2 samples, and its loss.
struct Mlp {
  Tensor x = ones({2, 4}), target = zeros({2, 2});
  Tensor w1 = full({3, 4}, 0.1, {.requires_grad = true}), b1 = zeros({3}, {.requires_grad = true});
  Tensor w2 = full({2, 3}, 0.1, {.requires_grad = true}), b2 = zeros({2}, {.requires_grad = true});
  static constexpr std::int64_t kInputs = 8, kWeights = 12 + 3 + 6 + 2;
  [[nodiscard]] Tensor forward() const { return linear(relu(linear(x, w1, b1)), w2, b2); }
  [[nodiscard]] Tensor loss() const { return mse_loss(forward(), target); }
};

TEST(Trace, CountsCallsDtypesAndCastsOfASmallModel) {
  const Mlp net;
  const Trace recorded = trace();
  {
    const Autocast region(kCpu, kF16);
    static_cast<void>(net.loss());
  }
  const TraceReport report = recorded.report();
  ASSERT_EQ(report.rows.size(), 3U) << "casts of autocast have no rows of their own\n" << report;
  EXPECT_EQ(report.rows[0].op, "linear") << "by policy";
  EXPECT_EQ(report.rows[1].op, "mse_loss");
  EXPECT_EQ(report.rows[2].op, "relu");

  const TraceRow products = row_of(report, "linear");
  EXPECT_EQ(products.policy, Category::lower_precision);
  EXPECT_EQ(products.calls, 2);
  ASSERT_EQ(products.dtypes.size(), 1U);
  EXPECT_EQ(products.dtypes[0].inputs, (DTypes{kF16, kF16, kF16}));
  EXPECT_EQ(products.dtypes[0].outputs, DTypes{kF16});
  EXPECT_EQ(products.dtypes[0].calls, 2);
  EXPECT_EQ(products.casts.casts, 5) << "x and four parameters; relu's result is f16 already";
  EXPECT_EQ(products.casts.bytes, kBytes * (Mlp::kInputs + Mlp::kWeights));
  EXPECT_EQ(products.casts.weights, 4);
  EXPECT_EQ(products.casts.spared, 0);

  const TraceRow loss = row_of(report, "mse_loss");
  EXPECT_EQ(loss.policy, Category::fp32);
  EXPECT_EQ(loss.dtypes[0].inputs, (DTypes{kF16, kF32}));
  EXPECT_EQ(loss.dtypes[0].outputs, DTypes{kF32});
  EXPECT_EQ(loss.casts.casts, 0) << "its kernel widens what it reads";
  EXPECT_EQ(row_of(report, "relu").policy, Category::passthrough);
  EXPECT_EQ(report.calls(), 4);
  EXPECT_EQ(report.casts().bytes, kBytes * (Mlp::kInputs + Mlp::kWeights));
}

TEST(Trace, TellsWhatTheCacheOfWeightsSpares) {
  for (const bool cache : {true, false}) {
    const Mlp net;
    const Trace recorded;
    {
      const Autocast region(kCpu, kF16, {.cache_enabled = cache});
      for (int i = 0; i < 3; ++i) static_cast<void>(net.forward());
    }
    const CastCounts counts = recorded.report().casts();
    EXPECT_EQ(counts.casts, cache ? 4 + 3 : 3 * 5);
    EXPECT_EQ(counts.bytes, kBytes * (3 * Mlp::kInputs + (cache ? 1 : 3) * Mlp::kWeights));
    EXPECT_EQ(counts.weights, cache ? 4 : 0);
    EXPECT_EQ(counts.spared, cache ? 2 * 4 : 0);
    EXPECT_EQ(counts.spared_bytes, cache ? kBytes * 2 * Mlp::kWeights : 0);
  }
}

TEST(Trace, DoesNotSeeWhatAnOptimizerMakes) {
  const Tensor low = ones({4}, {.dtype = DType::bf16, .requires_grad = true});
  const Mlp net;
  optim::SGD optimizer(
      {{optim::unnamed({net.w1, net.b1}), {}}, {optim::unnamed({low}), {.master_weights = true}}});
  low.set_grad(ones_like(low));
  {
    const Autocast region(kCpu, kF16);
    net.loss().backward();
  }
  const Trace recorded = trace();
  optimizer.step();  // makes f16 copies of two parameters, and a master
  EXPECT_EQ(recorded.report().calls(), 0) << recorded.report();
}

TEST(Trace, KeepsBackwardApart) {
  const Mlp net;
  Tensor loss;
  {
    const Autocast region(kCpu, kF16);
    loss = net.loss();
  }
  const Trace recorded;
  loss.backward();
  const TraceReport report = recorded.report();
  ASSERT_FALSE(report.rows.empty());
  for (const TraceRow& row : report.rows) {
    EXPECT_TRUE(row.in_backward) << row.op;
    EXPECT_FALSE(row.policy.has_value()) << row.op << ": autocast is off there";
  }
  const TraceRow loss_backward = row_of(report, "mse_loss_backward", true);
  EXPECT_EQ(loss_backward.calls, 1) << report;
  const TraceRow casts = row_of(report, "to_dtype", true);
  EXPECT_EQ(casts.casts.casts, casts.calls) << "casts of the engine and of gradient functions";
}

TEST(Trace, ReadsRegionsAsTheyAreAtEachCall) {
  const Mlp net;
  const Trace recorded;
  {
    const Autocast region(kCpu, kF16);
    static_cast<void>(net.forward());
    {
      const Autocast disabled(kCpu, {}, {.enabled = false});
      static_cast<void>(net.forward());
    }
    {
      const Autocast inner(kCpu, DType::bf16);
      static_cast<void>(net.forward());
    }
  }
  std::int64_t calls = 0;
  for (const TraceRow& row : recorded.report().rows) {
    if (row.op != "linear") continue;
    calls += row.calls;
    if (row.policy) {
      EXPECT_EQ(row.calls, 4);
      ASSERT_EQ(row.dtypes.size(), 2U) << "f16 and bf16";
      EXPECT_EQ(row.dtypes[1].outputs, DTypes{DType::bf16});
      EXPECT_EQ(row.casts.casts, 10);
    } else {
      EXPECT_EQ(row.dtypes[0].inputs, (DTypes{kF32, kF32, kF32}));
      EXPECT_EQ(row.casts.casts, 0);
    }
  }
  EXPECT_EQ(calls, 6);
}

TEST(Trace, CountsCastsOfEveryPolicyWhereTheyAreMade) {
  const Tensor half = ones({3}, {.dtype = kF16}), full_width = ones({3});
  const Trace recorded;
  {
    const Autocast region(kCpu, kF16);
    static_cast<void>(dot(half, full_width));  // promotes
    static_cast<void>(softmax(half, 0));       // widens what it reads
    static_cast<void>(half.to(kF32));          // the program's own cast
  }
  const TraceReport report = recorded.report();
  const TraceRow joined = row_of(report, "dot");
  EXPECT_EQ(joined.policy, Category::promote);
  EXPECT_EQ(joined.casts.casts, 1);
  EXPECT_EQ(joined.casts.bytes, 3 * kBytes);
  EXPECT_EQ(joined.dtypes[0].inputs, (DTypes{kF32, kF32}));
  const TraceRow widened = row_of(report, "softmax");
  EXPECT_EQ(widened.casts.casts, 0);
  EXPECT_EQ(widened.dtypes[0].inputs, DTypes{kF16});
  EXPECT_EQ(widened.dtypes[0].outputs, DTypes{kF32});
  const TraceRow own = row_of(report, "to_dtype");
  EXPECT_EQ(own.calls, 1);
  EXPECT_EQ(own.casts.casts, 1);
  EXPECT_EQ(own.casts.bytes, 3 * kBytes);
}

TEST(Trace, CountsCastsOfALowPrecisionNorm) {
  nn::LayerNorm original(4);
  LPLayerNorm norm(original);
  const Trace recorded;
  {
    const Autocast region(kCpu, kF16);
    static_cast<void>(norm(ones({2, 4})));
  }
  const TraceRow row = row_of(recorded.report(), "layer_norm");
  EXPECT_EQ(row.casts.casts, 3);
  EXPECT_EQ(row.casts.bytes, kBytes * (8 + 4 + 4));
  EXPECT_EQ(row.casts.weights, 2);
  EXPECT_FALSE(row.policy.has_value()) << "it runs in a disabled region";
}

TEST(Trace, PrintsATableAndAValue) {
  const Mlp net;
  const Trace recorded;
  {
    const Autocast region(kCpu, kF16);
    for (int i = 0; i < 2; ++i) static_cast<void>(net.forward());
  }
  std::ostringstream text;
  text << recorded.report();
  EXPECT_EQ(text.str(),
            "====================================================================================\n"
            "Op      In       Policy           Calls  Dtypes      Casts  Bytes cast  Casts spared\n"
            "====================================================================================\n"
            "linear  forward  lower_precision      4  f16 -> f16      6       234 B             4\n"
            "relu    forward  passthrough          2  f16 -> f16     --          --            --\n"
            "====================================================================================\n"
            "Calls: 6\n"
            "Casts: 6, 234 B read and written\n"
            "Casts of weights that were kept: 4; spared by them: 4, 138 B\n"
            "====================================================================================")
      << "6 (2 * 8 + 23), and 6 * 23";
  const Value value = recorded.report().to_value();
  EXPECT_EQ(value.at("casts").as_int(), 6);
  EXPECT_EQ(value.at("rows").at(0).at("op").as_string(), "linear");
  EXPECT_EQ(value.at("rows").at(0).at("spared").as_int(), 4);
  EXPECT_EQ(value.at("rows").at(0).at("dtypes").at(0).at("inputs").at(1).as_string(), "f16");
}

TEST(Trace, IsOfItsScopeAndThread) {
  const Tensor x = ones({2});
  Trace recorded;
  std::thread([&] { static_cast<void>(exp(x)); }).join();
  EXPECT_TRUE(recorded.report().rows.empty());
  static_cast<void>(exp(x));
  EXPECT_EQ(recorded.report().calls(), 1);
  recorded.reset();
  EXPECT_EQ(recorded.report().calls(), 0);
  { const Trace other; }
  EXPECT_NE(op_observer(), nullptr) << "the inner one is gone, this one stays";
}

TEST(Trace, WorksTogetherWithOtherObservers) {
  const Mlp net;
  nn::Linear fc(4, 3);
  const Trace outer;
  {
    const Trace inner;
    const auto anomaly = autograd::detect_anomaly();
    const Autocast region(kCpu, kF16);
    static_cast<void>(net.forward());
    EXPECT_EQ(inner.report().calls(), 3);
    EXPECT_EQ(inner.report().casts().casts, 5);
  }
  EXPECT_EQ(outer.report().calls(), 3);
  EXPECT_EQ(outer.report().casts().casts, 5);
  static_cast<void>(amp::summary(fc, Shape{2, 4}, {.dtype = kF16}));
  EXPECT_EQ(row_of(outer.report(), "linear").calls, 3) << "and a summary's run";
}

TEST(Trace, ChangesNoResult) {
  const auto run = [] {
    const Mlp net;
    Tensor loss;
    {
      const Autocast region(kCpu, kF16);
      loss = net.loss();
    }
    loss.backward();
    return net.w1.grad();
  };
  const Tensor plain = run();
  const Trace recorded;
  EXPECT_TRUE(all(eq(run(), plain)).item<bool>());
}

}  // namespace
}  // namespace mezzo::amp
