// scaled_dot_product_attention against PyTorch's digits, against its formula in double and against the plain
// composition of ops: around the edges of tiles, with masks, causal, with dropout, strided and without
// elements; special values, memory, and the messages it refuses with.
#include <gtest/gtest.h>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/attention_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;
using namespace test::attention;

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {}) {
  return scaled_dot_product_attention(q, k, v, options);
}

/// out[l] by the formula, for one head.
Doubles formula(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal) {
  const Doubles a = list(q), b = list(k), c = list(v);
  const auto queries = static_cast<std::size_t>(q.size(0)), keys = static_cast<std::size_t>(k.size(0)),
             size = static_cast<std::size_t>(q.size(1)), value_size = static_cast<std::size_t>(v.size(1));
  Doubles out(queries * value_size);
  for (std::size_t l = 0; l < queries; ++l) {
    Doubles weights(keys);
    double sum = 0;
    for (std::size_t s = 0; s < keys && (!causal || s <= l); ++s) {
      double score = 0;
      for (std::size_t e = 0; e < size; ++e) score += a[l * size + e] * b[s * size + e];
      weights[s] = std::exp(scale * score);
      sum += weights[s];
    }
    for (std::size_t s = 0; s < keys; ++s) {
      for (std::size_t e = 0; e < value_size; ++e)
        out[l * value_size + e] += weights[s] / sum * c[s * value_size + e];
    }
  }
  return out;
}

// --- values

TEST(Attention, GivesPyTorchsDigits) {
  const Tensor q = make<double>({2, 2}, {1, 0.5, -0.5, 2}),
               k = make<double>({3, 2}, {0.5, -1, 1.5, 0.25, -1, 2}),
               v = make<double>({3, 2}, {1, 2, -3, 4, 0.5, -0.25}), g = make<double>({2, 2}, {1, -2, 0.5, 3});
  const auto expect = [&](const AttentionOptions& options, const std::vector<Doubles>& want) {
    const Tensors leaves{q.detach().requires_grad_(), k.detach().requires_grad_(),
                         v.detach().requires_grad_()};
    const Tensor out = attend(leaves[0], leaves[1], leaves[2], options);
    expect_near(out, want[0], 1e-13, 1e-14);
    const Tensors gradients = grad({&out, 1}, leaves, {&g, 1});
    for (std::size_t i = 0; i < 3; ++i) expect_near(gradients[i], want[i + 1], 1e-13, 1e-14);
  };
  expect({}, {{-1.54515528961002, 2.78762940800835, 0.387372330243207, -0.0900811925830734},
              {-3.34974550575759, 1.24273491703804, 0.679836414336256, -0.549381161398953},
              {0.546327744261788, 0.357966569858094, -1.80366213172736, -0.34085991159737, 1.25733438746557,
               -0.0171066582607246},
              {0.198031706193307, -0.363644120589465, 0.628709993595735, -1.12407132292697, 0.673258300210958,
               2.48771544351644}});
  expect({.attn_mask = make<double>({2, 3}, {0.25, -1, 0.5, 1, 0, -0.5}), .scale = 0.75},
         {{-0.389052064652859, 1.70780352239912, 0.360935796992623, -0.00574984331454459},
          {-3.74115353722717, 2.25707357360673, 1.03122900952822, -0.966386921220721},
          {0.122805433424, 0.343548810424656, -1.77639047685091, -0.129376786077652, 1.65358504342691,
           -0.214172024347003},
          {0.320576739643115, -0.535612405039133, 0.319677867422316, -0.465347920800901, 0.85974539293457,
           2.00096032584003}});
  expect({.is_causal = true},
         {{1, 2, -2.21771873002783, 3.60885936501391},
          {0, 0, 0.444975419821943, 0.556219274777429},
          {0.222487709910972, -0.889950839643886, -0.222487709910971, 0.889950839643886, 0, 0},
          {1.09778515874652, -1.41328904752087, 0.402214841253478, 2.41328904752087, 0, 0}});
}

TEST(Attention, MatchesItsFormulaAroundTheEdgesOfTiles) {
  for (const auto& [queries, keys] :
       {std::pair{1, 1}, {1, 257}, {127, 255}, {128, 256}, {129, 257}, {300, 600}}) {
    for (const bool causal : {false, true}) {
      const Tensor q = random({queries, 7}, DType::f32, -2, 2), k = random({keys, 7}, DType::f32, -2, 2, 0.4),
                   v = random({keys, 5}, DType::f32, -2, 2, 0.7);
      SCOPED_TRACE(std::to_string(queries) + " x " + std::to_string(keys));
      expect_near(attend(q, k, v, {.is_causal = causal, .scale = 0.3}), formula(q, k, v, 0.3, causal), 2e-6,
                  2e-6);
    }
  }
}

TEST(Attention, AgreesWithItsCompositionInEveryWay) {
  struct Sizes {
    std::int64_t heads, queries, keys, size, value_size;
  };
  for (const Sizes& s : {Sizes{2, 1, 300, 3, 2}, Sizes{1, 300, 1, 3, 2}, Sizes{1, 140, 530, 16, 9},
                         Sizes{9, 130, 260, 3, 2}, Sizes{1, 257, 129, 33, 20}}) {
    const std::string what = to_string(Shape{s.heads, s.queries, s.keys, s.size, s.value_size});
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const double tolerance = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-5 : 0.02;
      const Tensors in{random({s.heads, s.queries, s.size}, dtype, -1, 1),
                       random({s.heads, s.keys, s.size}, dtype, -1, 1, 0.4),
                       random({s.heads, s.keys, s.value_size}, dtype, -1, 1, 0.7)};
      const Tensor added = random({s.heads, 1, s.keys}, DType::f32, -2, 2, 0.2);
      const Tensor taken = gt(random({s.queries, s.keys}, DType::f32, -1, 2, 0.2), 0.0);
      const auto run = [&](const AttentionOptions& options) {
        return evaluate([&](const Tensors& x) { return attend(x[0], x[1], x[2], options); }, in);
      };
      expect_agrees(run({}), plainly(in, {}, {}), tolerance, what);
      expect_agrees(run({.is_causal = true}), plainly(in, {}, {{"is_causal", true}}), tolerance,
                    what + " causal");
      expect_agrees(run({.scale = -0.7}), plainly(in, {}, {{"scale", -0.7}}), tolerance,
                    what + " negative scale");
      expect_agrees(run({.attn_mask = taken}), plainly(in, taken, {}), tolerance, what + " bool mask");
      if (dtype == DType::f64) continue;
      expect_agrees(run({.attn_mask = added}), plainly(in, added, {}), tolerance, what + " mask");
    }
  }
}

TEST(Attention, BroadcastsLeadingDims) {
  const Tensors in{random({2, 1, 3, 4, 5}, DType::f64, -1, 1), random({3, 1, 6, 5}, DType::f64, -1, 1, 0.4),
                   random({6, 2}, DType::f64, -1, 1, 0.7)};
  const Tensor mask = gt(random({2, 1, 1, 1, 6}, DType::f64, -1, 3), 0.0);
  const Evaluated got =
      evaluate([&](const Tensors& x) { return attend(x[0], x[1], x[2], {.attn_mask = mask}); }, in);
  EXPECT_EQ(got.out.shape(), (Shape{2, 3, 3, 4, 2}));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got.gradients[i].shape(), in[i].shape());
  expect_agrees(got, plainly(in, mask, {}), 1e-13, "broadcast");
}

TEST(Attention, ReadsTransposedHeadsWhereTheyLie) {
  const auto heads = [](double phase) { return random({2, 150, 3, 8}, DType::f32, -1, 1, phase); };
  const Tensors in{heads(0), heads(0.4), heads(0.7)};
  const auto f = [](const Tensors& x) {
    return attend(transpose(x[0], 1, 2), transpose(x[1], 1, 2), transpose(x[2], 1, 2), {.is_causal = true});
  };
  const auto dense = [](const Tensors& x) {
    const auto copy = [](const Tensor& y) { return transpose(y, 1, 2).contiguous(); };
    return attend(copy(x[0]), copy(x[1]), copy(x[2]), {.is_causal = true});
  };
  expect_agrees(evaluate(f, in), evaluate(dense, in), 2e-6, "strided");
  const std::int64_t before = memory_stats(Device::cpu()).current;
  reset_peak_memory_stats(Device::cpu());
  const Tensor out = f(in);
  const std::int64_t bytes = memory_stats(Device::cpu()).peak - before;
  EXPECT_LE(bytes, (out.numel() + out.numel() / 8) * 4 + 4096);  // the result and logsumexp
}

TEST(Attention, GivesTheResultInTheQuerysOrderOfDims) {
  const auto heads = [](double phase) { return random({2, 5, 3, 4}, DType::f32, -1, 1, phase); };
  const Tensor q = heads(0), k = heads(0.4), v = heads(0.7);
  const auto joined = [](const Tensor& out) { return transpose(out, 1, 2).is_contiguous(); };
  const auto split = [](const Tensor& x) { return transpose(x, 1, 2); };
  EXPECT_TRUE(joined(attend(split(q), split(k), split(v)))) << "[N, L, H, E] in memory";
  EXPECT_TRUE(attend(split(q).contiguous(), split(k), split(v)).is_contiguous());
  // [L, N, H, E] in memory, as MultiheadAttention has them without batch_first.
  const auto by_length = [](const Tensor& x) { return permute(x, {1, 2, 0, 3}); };
  EXPECT_TRUE(permute(attend(by_length(q), by_length(k), by_length(v)), {2, 0, 1, 3}).is_contiguous());
  // A value of another size, a query that broadcasts, and an expanded one, which has no order of its own.
  EXPECT_TRUE(joined(attend(split(q), split(k), split(heads(0.2).slice(3, 0, 2)))));
  EXPECT_TRUE(joined(attend(split(q.slice(0, 0, 1)), split(k), split(v))));
  // So do the gradients: each is joined without a copy.
  const Evaluated got =
      evaluate([&](const Tensors& x) { return attend(split(x[0]), split(x[1]), x[2].contiguous()); },
               {q, k, split(v)});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(got.gradients[i].is_contiguous()) << i;
  EXPECT_EQ(list(attend(expand(q.slice(0, 0, 1), {2, 5, 3, 4}), k, v)),
            list(attend(cat({q.slice(0, 0, 1), q.slice(0, 0, 1)}), k, v)));
}

// --- what it promises

TEST(Attention, NeedsLittleMemoryForLongSequences) {
  const auto peak_of = [](std::int64_t length, bool gradients) {
    const Tensor q = random({length, 8}, DType::f32, -1, 1);
    if (gradients) q.requires_grad_();
    const std::int64_t before = memory_stats(Device::cpu()).current;
    reset_peak_memory_stats(Device::cpu());
    const Tensor out = attend(q, q, q);
    if (gradients) sum(out).backward();
    return memory_stats(Device::cpu()).peak - before;
  };
  EXPECT_LT(peak_of(10000, false), 2 << 20);  // a matrix of weights has 400 MB
  EXPECT_LT(peak_of(4000, true), 2 << 20);    // 64 MB
}

TEST(Attention, DoesNotDependOnTheNumberOfThreads) {
  for (const std::int64_t heads : {1, 3, 10}) {
    const Tensors in{random({heads, 300, 16}, DType::f32, -1, 1),
                     random({heads, 700, 16}, DType::f32, -1, 1, 0.4),
                     random({heads, 700, 8}, DType::f32, -1, 1, 0.7)};
    const auto on = [&](int threads) {
      const ThreadGuard guard(threads);
      return evaluate([&](const Tensors& x) { return attend(x[0], x[1], x[2]); }, in);
    };
    const Evaluated one = on(1);
    for (const int threads : {2, 3}) {
      const Evaluated more = on(threads);
      EXPECT_TRUE(same_bits(one.out, more.out));
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(one.gradients[i], more.gradients[i])) << i;
    }
  }
}

TEST(Attention, GivesNothingForAQueryWithoutKeys) {
  const Tensors in{random({3, 4}, DType::f32), random({5, 4}, DType::f32, -4, 4, 0.4),
                   random({5, 2}, DType::f32, -4, 4, 0.7)};
  const Tensor taken = make<double>({3, 1}, {1, 0, 1}).to(DType::boolean);
  const Tensor added = where(taken, zeros({3, 5}), -kInf);
  for (const Tensor& mask : {taken, added}) {
    const Evaluated got =
        evaluate([&](const Tensors& x) { return attend(x[0], x[1], x[2], {.attn_mask = mask}); }, in);
    EXPECT_EQ(list(select(got.out, 0, 1)), (Doubles{0, 0}));
    EXPECT_EQ(list(select(got.gradients[0], 0, 1)), (Doubles{0, 0, 0, 0}));
    expect_agrees(got, plainly(in, mask, {}), 1e-5, "masked");
  }
}

TEST(Attention, KeepsNanWithinItsQueryAndLargeScoresFinite) {
  const Tensor q = make<float>({2, 1}, {std::numeric_limits<float>::quiet_NaN(), 1}),
               k = make<float>({2, 1}, {1, 2}), v = make<float>({2, 1}, {3, 5});
  expect_near(attend(q, k, v, {.scale = 1}), {kNan, 3 + 2 / (1 + std::exp(-1))}, 1e-6);
  // exp of these scores overflows, and their differences leave one weight.
  const Tensor large = make<float>({2, 1}, {1e18F, -1e18F});
  expect_near(attend(large, make<float>({2, 1}, {1e18F, 2e18F}), v, {.scale = 1}), {5, 3}, 0);
  expect_near(attend(large, make<float>({2, 1}, {3e30F, 1}), v, {.scale = 1}), {kNan, 5},
              0);  // a score of inf
}

TEST(Attention, TakesTensorsWithoutElements) {
  const auto shape_of = [](const Shape& q, const Shape& k, const Shape& v) {
    return attend(zeros(q), zeros(k), zeros(v)).shape();
  };
  EXPECT_EQ(shape_of({0, 2, 3}, {0, 4, 3}, {0, 4, 5}), (Shape{0, 2, 5}));
  EXPECT_EQ(shape_of({2, 0, 3}, {2, 4, 3}, {2, 4, 5}), (Shape{2, 0, 5}));
  EXPECT_EQ(shape_of({2, 3}, {4, 3}, {4, 0}), (Shape{2, 0}));
  const Tensors nothing{random({2, 3}, DType::f32), zeros({0, 3}), zeros({0, 2})};
  const Evaluated got = evaluate([](const Tensors& x) { return attend(x[0], x[1], x[2]); }, nothing);
  EXPECT_EQ(list(got.out), Doubles(4, 0));
  EXPECT_EQ(list(got.gradients[0]), Doubles(6, 0));
  // Products over nothing are 0, so all keys weigh alike.
  const Tensors sizeless{zeros({2, 0}), zeros({2, 0}), make<float>({2, 1}, {1, 3})};
  const Evaluated even = evaluate([](const Tensors& x) { return attend(x[0], x[1], x[2]); }, sizeless);
  EXPECT_EQ(list(even.out), (Doubles{2, 2}));
}

TEST(Attention, GivesLogsumexpAndItsGradient) {
  const Tensor q = make<double>({1, 1}, {2}).requires_grad_(), k = make<double>({2, 1}, {std::log(2), 0});
  const Outputs found =
      call_op(kName, {q, k, k, Tensor(), Tensor()}, Value::Map{{"logsumexp", true}, {"scale", 1.0}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NEAR(found[1].item(), std::log(5), 1e-15);
  found[1].backward({}, {});
  EXPECT_NEAR(list(q.grad())[0], 0.8 * std::log(2), 1e-15);
}

TEST(Attention, GivesTheGradientOfAMask) {
  const Tensors in{random({2, 3, 4}, DType::f64, -1, 1), random({2, 5, 4}, DType::f64, -1, 1, 0.4),
                   random({2, 5, 2}, DType::f64, -1, 1, 0.7), random({3, 5}, DType::f64, -1, 1, 0.2)};
  const auto f = [](const Tensors& x) { return attend(x[0], x[1], x[2], {.attn_mask = x[3]}); };
  const auto plain = [](const Tensors& x) {
    return matmul(softmax(matmul(x[0], transpose(x[1], -1, -2)) / 2 + x[3], -1), x[2]);
  };
  expect_agrees(evaluate(f, in), evaluate(plain, in), 1e-14, "mask");
}

TEST(Attention, RunsInTheLowPrecisionOfAutocast) {
  const Tensors in{random({4, 3}, DType::f32, -1, 1), random({5, 3}, DType::f32, -1, 1, 0.4),
                   random({5, 2}, DType::f32, -1, 1, 0.7), random({4, 5}, DType::f32, -1, 1, 0.2)};
  const auto f = [](const Tensors& x) { return attend(x[0], x[1], x[2], {.attn_mask = x[3]}); };
  Tensors low;
  for (const Tensor& x : in) low.push_back(to(x, DType::bf16));
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  const Tensor out = f(in);
  EXPECT_EQ(out.dtype(), DType::bf16);
  EXPECT_TRUE(same_bits(out, f(low)));
}

// --- dropout

TEST(Attention, DropsWhatTheWordsOfItsSeedSay) {
  const std::int64_t queries = 3, keys = 300, heads = 2;
  const double p = 0.3;
  const Tensor seed = indices({2}, {12345, 678});
  const Tensor q = zeros({heads, queries, 1}), k = zeros({heads, keys, 1});
  const Tensor v =
      eq(unsqueeze(arange(keys), 1), arange(keys)).to(DType::f32);  // so the result shows the weights
  const Value attrs = Value::Map{{"dropout_p", p}};
  const Doubles weights = list(call_op(kName, {q, k, v, Tensor(), seed}, attrs));
  const auto threshold = static_cast<std::uint64_t>(std::llround((1 - p) * 0x1p32));
  double kept = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const PhiloxBlock four = Philox{}(philox_counter(i / 4, 678), philox_key(12345));
    const bool keeps = four[static_cast<int>(i % 4)] < threshold;
    ASSERT_NEAR(weights[i], keeps ? 1 / (1 - p) / 300 : 0, 1e-8) << i;
    kept += keeps ? 1 : 0;
  }
  EXPECT_NEAR(kept / 1800, 1 - p, 0.05);  // 4.6 standard deviations
}

TEST(Attention, AgreesWithItsCompositionUnderDropout) {
  const Tensor seed = indices({2}, {-5, std::numeric_limits<std::int64_t>::max()});
  for (const bool causal : {false, true}) {
    for (const double p : {0.25, 1.0}) {
      const Tensors in{random({3, 131, 5}, DType::f32, -1, 1), random({3, 263, 5}, DType::f32, -1, 1, 0.4),
                       random({3, 263, 3}, DType::f32, -1, 1, 0.7)};
      const Value::Map attrs{{"dropout_p", p}, {"is_causal", causal}};
      const Evaluated got = evaluate(
          [&](const Tensors& x) {
            return Tensor(call_op(kName, {x[0], x[1], x[2], Tensor(), seed}, Value(attrs)));
          },
          in);
      expect_agrees(got, plainly(in, {}, attrs, seed), 1e-5, "dropout");
      if (p == 1) {
        EXPECT_EQ(list(got.out), Doubles(static_cast<std::size_t>(got.out.numel()), 0));
      }
    }
  }
}

TEST(Attention, DrawsItsDropoutFromTheGenerator) {
  const Tensor q = random({4, 8, 4}, DType::f32, -1, 1);
  const auto draw = [&](double p, std::uint64_t seed) {
    Generator generator(seed);
    const Tensor out = scaled_dot_product_attention(q, q, q, {.dropout_p = p}, generator);
    EXPECT_EQ(generator.state().offset, p > 0 ? 1U : 0U);
    return out;
  };
  EXPECT_TRUE(same_bits(draw(0.5, 1), draw(0.5, 1)));
  EXPECT_FALSE(same_bits(draw(0.5, 1), draw(0.5, 2)));
  EXPECT_TRUE(same_bits(draw(0, 1), attend(q, q, q)));
}

// --- what it refuses

TEST(Attention, RefusesWhatDoesNotBelongTogether) {
  const Tensor q = zeros({2, 3, 4}), k = zeros({2, 5, 4}), v = zeros({2, 5, 6});
  EXPECT_THROW((void)attend(zeros({4}), k, v), ShapeError);
  EXPECT_THROW((void)attend(zeros({2, 3, 3}), k, v), ShapeError);
  EXPECT_THROW((void)attend(q, k, zeros({2, 4, 6})), ShapeError);
  EXPECT_THROW((void)attend(zeros({3, 3, 4}), k, v), ShapeError);
  EXPECT_THROW((void)attend(q, k, to(v, DType::f16)), DTypeError);
  EXPECT_THROW((void)attend(to(q, DType::i64), to(k, DType::i64), to(v, DType::i64)), DTypeError);
  EXPECT_THROW((void)attend({}, k, v), ValueError);
  EXPECT_THROW((void)attend(q, k, v, {.attn_mask = zeros({4, 5})}), ShapeError);
  EXPECT_THROW((void)attend(q, k, v, {.attn_mask = zeros({1, 2, 3, 5})}), ShapeError);
  EXPECT_THROW((void)attend(q, k, v, {.attn_mask = zeros({3, 5}, {.dtype = DType::f64})}), DTypeError);
  EXPECT_THROW((void)attend(q, k, v, {.attn_mask = zeros({3, 5}, {.dtype = DType::i64})}), DTypeError);
  EXPECT_THROW((void)attend(q, k, v, {.attn_mask = zeros({3, 5}), .is_causal = true}), ValueError);
  EXPECT_THROW((void)attend(q, k, v, {.scale = kInf}), ValueError);
  EXPECT_THROW((void)attend(q, k, v, {.dropout_p = 1.5}), ValueError);
  EXPECT_THROW((void)attend(q, k, v, {.dropout_p = kNan}), ValueError);
  const auto by_name = [&](const Tensor& seed) {
    return call_op(kName, {q, k, v, Tensor(), seed}, Value::Map{{"dropout_p", 0.5}});
  };
  const auto backward = [&](const Tensor& grad, const Value::Map& attrs) {
    return call_op("scaled_dot_product_attention_backward",
                   {grad, q, k, v, Tensor(), Tensor(), Tensor(), Tensor()}, attrs);
  };
  const Tensor g = zeros({2, 3, 6});
  EXPECT_THROW((void)backward(zeros({2, 3, 4}), {}), ShapeError);
  EXPECT_THROW((void)backward(g, {{"key_dtype", "i64"}}), DTypeError);
  EXPECT_THROW((void)backward(g, {{"query", false}, {"key", false}, {"value", false}}), ValueError);
  EXPECT_THROW((void)by_name({}), ValueError);
  EXPECT_THROW((void)by_name(zeros({2})), DTypeError);
  EXPECT_THROW((void)by_name(indices({3}, {1, 2, 3})), ShapeError);
  try {
    (void)attend(q, k, v, {.attn_mask = zeros({4, 5})});
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "scaled_dot_product_attention: expected a mask that broadcasts to [2, 3, 5], got [4, 5]; "
                 "its last dims are queries and keys");
  }
}

}  // namespace
}  // namespace mezzo
