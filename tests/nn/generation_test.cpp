// KeyValueCache: attention with it is attention over the whole sequence. Sampling: filters against their
// definition, frequencies, seeds, greedy choice, and what is refused.
#include "mezzo/nn/generation.h"

#include <limits>

#include "mezzo/nn/positions.h"
#include "mezzo/tests/nn/digests.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor plain(const Shape& shape, double k) { return made(shape, k).detach(); }

TEST(KeyValueCache, AttendsAsOverTheWholeSequence) {
  RotaryEmbedding rotary(4);
  const Tensor q = plain({2, 4, 7, 4}, 1), k = plain({2, 2, 7, 4}, 2), v = plain({2, 2, 7, 3}, 3);
  const Tensor whole =
      scaled_dot_product_attention(rotary(q), rotary(k), v, {.is_causal = true, .enable_gqa = true});
  // A prompt of 3 steps, a piece of 2, then one at a time.
  KeyValueCache cache(2, 2, 8, 4, {.value_size = 3, .dtype = DType::f64});
  for (const std::int64_t steps : {3, 2, 1, 1}) {
    const std::int64_t at = cache.length();
    const auto part = [&](const Tensor& x) { return narrow(x, 2, at, steps); };
    const auto [keys, values] = cache.append(rotary(part(k), at), part(v));
    EXPECT_EQ(keys.shape(), Shape({2, 2, at + steps, 4}));
    const Tensor out = scaled_dot_product_attention(
        rotary(part(q), at), keys, values, {.attn_mask = cache.causal_mask(steps), .enable_gqa = true});
    EXPECT_TRUE(allclose(out, part(whole), 0, 1e-15));
  }
  EXPECT_EQ(cache.length(), 7);
  EXPECT_EQ(cache.max_length(), 8);
}

TEST(KeyValueCache, GivesViewsOfOneMemory) {
  KeyValueCache cache(1, 1, 4, 2);
  const KeyValues first = cache.append(counting({1, 1, 2, 2}), counting({1, 1, 2, 2}, 11));
  const void* const memory = first.keys.data<float>().data();
  const KeyValues second = cache.append(counting({1, 1, 1, 2}, 5), counting({1, 1, 1, 2}, 15));
  EXPECT_EQ(second.keys.data<float>().data(), memory);
  EXPECT_EQ(values(second.keys), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(second.values), (Floats{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(values(first.keys), (Floats{1, 2, 3, 4}));
  cache.truncate(1);
  EXPECT_EQ(values(cache.get().keys), (Floats{1, 2}));
  EXPECT_EQ(values(cache.append(counting({1, 1, 1, 2}, 7), counting({1, 1, 1, 2})).keys),
            (Floats{1, 2, 7, 8}));
  cache.truncate(0);
  EXPECT_EQ(cache.get().keys.shape(), Shape({1, 1, 0, 2}));
  EXPECT_EQ(cache.append(zeros({1, 1, 0, 2}), zeros({1, 1, 0, 2})).keys.shape(), Shape({1, 1, 0, 2}));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    KeyValueCache low(1, 1, 4, 2, {.dtype = dtype});
    EXPECT_EQ(low.append(ones({1, 1, 1, 2}, dtype), ones({1, 1, 1, 2}, dtype)).values.dtype(), dtype);
  }
}

TEST(KeyValueCache, MasksLaterKeys) {
  KeyValueCache cache(1, 1, 4, 2);
  static_cast<void>(cache.append(zeros({1, 1, 3, 2}), zeros({1, 1, 3, 2})));
  EXPECT_EQ(cache.causal_mask(2).dtype(), DType::boolean);
  EXPECT_EQ(values(cache.causal_mask(2).to(DType::f32)), (Floats{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(cache.causal_mask(0).shape(), Shape({0, 3}));
}

TEST(KeyValueCache, RefusesWhatDoesNotFit) {
  KeyValueCache cache(2, 1, 4, 3);
  const Tensor x = zeros({2, 1, 2, 3});
  const auto shape_message = [&](const Tensor& k, const Tensor& v) {
    return message_of<ShapeError>([&] { (void)cache.append(k, v); });
  };
  EXPECT_TRUE(contains(shape_message(zeros({2, 2, 2, 3}), x),
                       "KeyValueCache: expected keys [2, 1, L, 3], got [2, 2, 2, 3]"));
  EXPECT_TRUE(contains(shape_message(x, zeros({2, 1, 2})), "expected values [2, 1, L, 3]"));
  EXPECT_TRUE(contains(shape_message(x, zeros({2, 1, 1, 3})), "as many values as keys"));
  EXPECT_TRUE(contains(message_of<DTypeError>([&] { (void)cache.append(x.to(DType::f16), x); }),
                       "keys in the cache's f32, got f16"));
  EXPECT_THROW((void)cache.append(Tensor(), x), ValueError);
  EXPECT_TRUE(contains(message_of<ValueError>([&] {
                         (void)cache.append(zeros({2, 1, 5, 3}), zeros({2, 1, 5, 3}));
                       }),
                       "at most 4 more steps, got 5"));
  const Tensor recorded = x * ones({1}).requires_grad_();
  EXPECT_TRUE(contains(message_of<AutogradError>([&] { (void)cache.append(recorded, x); }), "NoGrad"));
  EXPECT_EQ(cache.length(), 0);  // what was refused changed nothing
  {
    const NoGrad no_grad;
    EXPECT_EQ(cache.append(recorded, x).keys.size(2), 2);
  }
  EXPECT_THROW(cache.truncate(3), ValueError);
  EXPECT_THROW(cache.truncate(-1), ValueError);
  EXPECT_THROW((void)cache.causal_mask(3), ValueError);
  EXPECT_THROW(KeyValueCache(-1, 1, 4, 3), ValueError);
  EXPECT_THROW(KeyValueCache(1, 1, 4, 3, {.dtype = DType::i64}), DTypeError);
  EXPECT_THROW(KeyValueCache(std::int64_t{1} << 40, std::int64_t{1} << 40, 4, 3), ShapeError);
}

// --- sampling

TEST(SampleLogits, TakesTheLargestAtTemperature0) {
  const Tensor logits = tensor({2, 3}, {1, 3, 3, -kInf, -5, -kInf});
  EXPECT_EQ(sample_logits(logits, {.temperature = 0}).to_vector<std::int64_t>(), (Integers{1, 1}));
  EXPECT_EQ(sample_logits(logits, {.top_k = 1}).to_vector<std::int64_t>(), (Integers{1, 1}));
  EXPECT_EQ(sample_logits(logits, {.top_p = 0}).to_vector<std::int64_t>(), (Integers{1, 1}));
  EXPECT_EQ(sample_logits(tensor({3}, {1, 4, 3}), {.temperature = 1e-300}).item<std::int64_t>(), 1);
  EXPECT_EQ(sample_logits(zeros({0, 3})).shape(), Shape({0}));
  EXPECT_EQ(sample_logits(zeros({2, 1, 3})).shape(), Shape({2, 1}));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    EXPECT_EQ(sample_logits(logits.to(dtype), {.temperature = 0}).dtype(), DType::i64);
}

/// How often each of five tokens comes in 20000 draws.
Floats frequencies(const SampleOptions& options) {
  Generator generator(7);
  constexpr std::int64_t kDraws = 20000;
  const Tensor logits = log(tensor({5}, {0.1F, 0.4F, 0.2F, 0.25F, 0.05F}));
  const Tensor drawn = sample_logits(expand(logits, {kDraws, 5}), options, generator);
  return values(bincount(drawn, {}, 5).to(DType::f32) / static_cast<double>(kDraws));
}
void expect_frequencies(const SampleOptions& options, const Floats& want) {
  const Floats got = frequencies(options);
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i] == 0)
      EXPECT_EQ(got[i], 0) << i;
    else
      EXPECT_NEAR(got[i], want[i], 0.016) << i;  // 4.5 standard deviations at most
  }
}

TEST(SampleLogits, DrawsByProbabilities) {
  expect_frequencies({}, {0.1F, 0.4F, 0.2F, 0.25F, 0.05F});
  // softmax(2 log p) = p^2 / sum of p^2, which is 0.275
  expect_frequencies({.temperature = 0.5}, {0.0364F, 0.5818F, 0.1455F, 0.2273F, 0.0091F});
  expect_frequencies({.top_k = 2}, {0, 0.4F / 0.65F, 0, 0.25F / 0.65F, 0});
  expect_frequencies({.top_p = 0.6}, {0, 0.4F / 0.65F, 0, 0.25F / 0.65F, 0});
  // Of the four largest, which have 0.95, those with 0.8 of it.
  expect_frequencies({.top_k = 4, .top_p = 0.8}, {0, 0.4F / 0.85F, 0.2F / 0.85F, 0.25F / 0.85F, 0});
}

TEST(SampleLogits, RepeatsWithItsSeed) {
  const Tensor logits = plain({50, 20}, 1);
  Generator one(3), same(3), other(4);
  const Integers drawn = sample_logits(logits, {}, one).to_vector<std::int64_t>();
  EXPECT_EQ(drawn, sample_logits(logits, {}, same).to_vector<std::int64_t>());
  EXPECT_NE(drawn, sample_logits(logits, {}, other).to_vector<std::int64_t>());
  EXPECT_NE(drawn, sample_logits(logits, {}, one).to_vector<std::int64_t>());
}

TEST(LogitFilters, KeepWhatTheirDefinitionsSay) {
  const Tensor logits = tensor({2, 4}, {1, 3, 2, 3, 0, 0, 0, 0});
  EXPECT_EQ(values(top_k_logits(logits, 2)), (Floats{-kInf, 3, -kInf, 3, 0, 0, -kInf, -kInf}));
  EXPECT_EQ(values(top_k_logits(logits, 3)), (Floats{-kInf, 3, 2, 3, 0, 0, 0, -kInf}));
  EXPECT_EQ(values(top_k_logits(logits, 9)), values(logits));
  const Tensor shares = log(tensor({4}, {0.125F, 0.5F, 0.25F, 0.125F}));
  const auto kept = [&](double p) { return values(isfinite(top_p_logits(shares, p)).to(DType::f32)); };
  EXPECT_EQ(kept(0), (Floats{0, 1, 0, 0}));
  EXPECT_EQ(kept(0.49), (Floats{0, 1, 0, 0}));
  EXPECT_EQ(kept(0.51), (Floats{0, 1, 1, 0}));
  EXPECT_EQ(kept(0.76), (Floats{1, 1, 1, 0}));
  EXPECT_EQ(kept(0.99), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(values(top_p_logits(shares, 1)), values(shares));
  EXPECT_EQ(top_p_logits(shares.to(DType::bf16), 0.5).dtype(), DType::bf16);
  // Gradients reach what is kept.
  const Tensor x = tensor({3}, {1, 3, 2});
  x.requires_grad_();
  EXPECT_EQ(values(grad(sum(exp(top_k_logits(x, 1))), {x})[0]), (Floats{0, std::exp(3.0F), 0}));
}

TEST(SampleLogits, RefusesBadInput) {
  const Tensor logits = zeros({2, 3});
  const auto message = [&](const SampleOptions& options) {
    return message_of<ValueError>([&] { (void)sample_logits(logits, options); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(
      contains(message({.temperature = -1}), "sample_logits: expected a finite temperature of at least 0"));
  EXPECT_TRUE(contains(message({.temperature = nan}), "a finite temperature"));
  EXPECT_TRUE(contains(message({.top_k = -1}), "a top_k of at least 0, got -1"));
  EXPECT_TRUE(contains(message({.top_p = 1.5}), "a p in [0, 1], got 1.5"));
  EXPECT_TRUE(contains(message({.top_p = nan}), "a p in [0, 1]"));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
    for (const double temperature : {0.0, 1.0}) {
      const Tensor x = tensor({2, 2}, {0, 1, bad, 2});
      EXPECT_TRUE(
          contains(message_of<ValueError>([&] { (void)sample_logits(x, {.temperature = temperature}); }),
                   "logits without NaN and inf"));
    }
  }
  EXPECT_THROW((void)sample_logits(full({2}, -kInf)), ValueError);
  EXPECT_THROW((void)sample_logits(zeros({})), ShapeError);
  EXPECT_THROW((void)sample_logits(zeros({2, 0})), ShapeError);
  EXPECT_THROW((void)sample_logits(logits.to(DType::i64)), DTypeError);
  EXPECT_THROW((void)sample_logits(Tensor()), ValueError);
  EXPECT_THROW((void)top_k_logits(logits, 0), ValueError);
  EXPECT_THROW((void)top_p_logits(logits, -0.5), ValueError);
}

}  // namespace
}  // namespace mezzo::nn
