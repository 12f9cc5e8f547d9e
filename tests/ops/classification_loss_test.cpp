// nll_loss and cross_entropy against their formulas in double: shapes, weights, ignored targets, label
// smoothing, probabilities, extreme logits, derivatives of both orders, 16-bit inputs, and the messages they
// refuse with.
#include <gtest/gtest.h>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/tests/ops/loss_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

constexpr std::array kReductions{Reduction::none, Reduction::mean, Reduction::sum};

/// A loss written out: logits or log-probabilities of [rows][classes] and one target distribution per row.
struct Problem {
  std::size_t classes;
  Doubles x;
  Doubles q;            ///< target mass per row and class before smoothing; a row of zeros is ignored
  Doubles weight = {};  ///< empty: 1
  double smoothing = 0;
  bool of_logits = true;
  bool by_weight = true;  ///< the mean divides by the weights of the targets, else by the number of rows
};

double log_p(const Problem& p, std::size_t row, std::size_t c) {
  if (!p.of_logits) return p.x[row * p.classes + c];
  double max = -kInf, sum = 0;
  for (std::size_t k = 0; k < p.classes; ++k) max = std::max(max, p.x[row * p.classes + k]);
  for (std::size_t k = 0; k < p.classes; ++k) sum += std::exp(p.x[row * p.classes + k] - max);
  return p.x[row * p.classes + c] - max - std::log(sum);
}

Doubles solve(const Problem& p, Reduction reduction) {
  const std::size_t rows = p.x.size() / p.classes;
  Doubles losses(rows, 0);
  double divisor = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double mass = 0;
    for (std::size_t c = 0; c < p.classes; ++c) mass += p.q[r * p.classes + c];
    if (mass == 0 && p.by_weight) continue;
    for (std::size_t c = 0; c < p.classes; ++c) {
      const double weight = p.weight.empty() ? 1 : p.weight[c];
      const double q = p.q[r * p.classes + c];
      const double smooth = (1 - p.smoothing) * q + p.smoothing / static_cast<double>(p.classes);
      if (smooth != 0) losses[r] -= smooth * weight * log_p(p, r, c);
      if (p.by_weight) divisor += q * weight;
    }
    if (!p.by_weight) divisor += 1;
  }
  if (reduction == Reduction::none) return losses;
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return {reduction == Reduction::sum ? sum : sum / divisor};
}

/// One-hot rows; an index outside the classes gives a row of zeros.
Doubles one_hot(const std::vector<std::int64_t>& index, std::size_t classes) {
  Doubles q(index.size() * classes, 0);
  for (std::size_t r = 0; r < index.size(); ++r) {
    if (index[r] >= 0 && index[r] < static_cast<std::int64_t>(classes))
      q[r * classes + static_cast<std::size_t>(index[r])] = 1;
  }
  return q;
}

/// [rows][classes] as [N, C, d]: the classes go between, d rows to an N.
Tensor with_inner_dim(const Tensor& x, std::int64_t inner) {
  const std::int64_t rows = x.size(0), classes = x.size(1);
  return alias(x, {rows / inner, classes, inner}, {inner * classes, 1, classes}, 0, true);
}

const std::vector<std::int64_t> kTargets{2, 0, -100, 3, 1, 3};

TEST(NllLoss, PicksAndWeighsUnderEveryReduction) {
  const Tensor x = random({6, 4}, DType::f32, -5, 0), weight = random({4}, DType::f32, 0.5, 2, 1);
  const Tensor t = indices(kTargets);
  Problem problem{.classes = 4, .x = list(x), .q = one_hot(kTargets, 4), .weight = {}, .of_logits = false};
  for (const Reduction reduction : kReductions)
    expect_near(nll_loss(x, t, {.reduction = reduction}), solve(problem, reduction), 3e-7);
  problem.weight = list(weight);
  for (const Reduction reduction : kReductions)
    expect_near(nll_loss(x, t, weight, {.reduction = reduction}), solve(problem, reduction), 3e-7);
}

TEST(NllLoss, TakesInnerDimsAndSingleRows) {
  const Tensor x = random({6, 4}, DType::f64, -5, 0);
  const Problem problem{.classes = 4, .x = list(x), .q = one_hot(kTargets, 4), .of_logits = false};
  const Tensor inner = with_inner_dim(x, 3);
  expect_near(nll_loss(inner, indices({2, 3}, kTargets)), solve(problem, Reduction::mean), 1e-15);
  expect_near(nll_loss(inner.contiguous(), indices({2, 3}, kTargets), {.reduction = Reduction::none}),
              solve(problem, Reduction::none), 1e-15);
  EXPECT_EQ(nll_loss(make<double>({-1, -2, -3}), number<std::int64_t>(1)).item(), 2);
}

TEST(NllLoss, IgnoresTheIndexToldAndIsNanWhenNothingCounts) {
  const Tensor x = random({3, 4}, DType::f32, -5, 0);
  const Doubles values = list(x);
  const Tensor t = indices({3, 1, 3});
  expect_near(nll_loss(x, t, {.ignore_index = 3}), {-values[5]}, 0);
  expect_near(nll_loss(x, indices({3, 3, 3}), {.ignore_index = 3}), {kNan}, 0);
  expect_near(nll_loss(x, indices({3, 3, 3}), {.ignore_index = 3, .reduction = Reduction::sum}), {0}, 0);
  expect_near(nll_loss(zeros({0, 4}), indices({0}, {})), {kNan}, 0);
}

TEST(NllLoss, DerivativesMatchDifferences) {
  for (const Reduction reduction : kReductions) {
    const NllLossAttrs options{.ignore_index = 1, .reduction = reduction};
    const Tensors inputs{leaf({2, 4, 3}, spread(24, -3, 0)), leaf({4}, spread(4, 0.5, 2, 1))};
    const Tensor t = indices({2, 3}, {2, 0, 1, 3, 1, 3});
    expect_derivatives(
        "nll_loss", [&](const Tensors& in) { return nll_loss(in[0], t, in[1], options); }, inputs);
  }
}

TEST(NllLoss, ItsGradientIsDifferentiableInTheLossesGradientAndTheWeight) {
  const Tensor x = leaf({2, 4, 3}, spread(24, -3, 0)), t = indices({2, 3}, {2, 0, 1, 3, -100, 3});
  for (const Reduction reduction : kReductions) {
    const bool none = reduction == Reduction::none;
    const Tensor grad_leaf = none ? leaf({2, 3}, spread(6, -2, 2)) : leaf(Shape{}, {1.5});
    expect_derivatives("gradient of nll_loss",
                       [&](const Tensors& in) -> Tensor {
                         const Tensor loss = nll_loss(x, t, in[1], {.reduction = reduction});
                         return grad({&loss, 1}, {&x, 1}, {&in[0], 1}, {.create_graph = true})[0];
                       },
                       {grad_leaf, leaf({4}, spread(4, 0.5, 2, 1))});
  }
}

TEST(NllLoss, RefusesWhatItCannotTake) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(
      message_of<IndexError>([&] {
        (void)nll_loss(x, indices({1, 3}));
      }),
      "nll_loss: expected a class in [0, 3) or ignore_index -100, got 3 at position 1; check the labels "
      "against the number of classes");
  EXPECT_EQ(
      message_of<IndexError>([&] {
        (void)nll_loss(x, indices({-1, 0}));
      }),
      "nll_loss: expected a class in [0, 3) or ignore_index -100, got -1 at position 0; check the labels "
      "against the number of classes");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)nll_loss(x, zeros({2}, {.dtype = DType::i32})); }),
            "nll_loss: expected class indices of dtype i64, got i32; convert the target with to(DType::i64)");
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        (void)nll_loss(x, indices({0, 1, 2}));
      }),
      "nll_loss: expected a target of shape [2], got [3]; pass one class index per row: the input's shape "
      "without dim 1");
  EXPECT_EQ(message_of<ShapeError>([&] {
              (void)nll_loss(x, indices({0, 1}), zeros({2}));
            }),
            "nll_loss: expected a weight of shape [3], got [2]; pass one weight per class");
  EXPECT_EQ(
      message_of<ShapeError>([&] { (void)nll_loss(number(1.0F), indices({0})); }),
      "nll_loss: expected an input of shape [C], [N, C] or [N, C, d1, ...], got []; add a dim of classes");
  EXPECT_EQ(message_of<ShapeError>([&] {
              (void)nll_loss(zeros({2, 0}), indices({0, 0}));
            }),
            "nll_loss: expected at least one class, got [2, 0]; the classes are dim 1");
  EXPECT_EQ(message_of<DTypeError>([&] {
              (void)nll_loss(zeros({2, 3}, {.dtype = DType::i64}), indices({0, 0}));
            }),
            "nll_loss: expected a floating tensor, got i64; convert it with to(DType::f32)");
}

// --- cross_entropy

TEST(CrossEntropy, MatchesItsFormulaForIndices) {
  const Tensor x = random({6, 4}, DType::f32), weight = random({4}, DType::f32, 0.5, 2, 1);
  const Tensor t = indices(kTargets);
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    for (const bool weighted : {false, true}) {
      const Problem problem{.classes = 4,
                            .x = list(x),
                            .q = one_hot(kTargets, 4),
                            .weight = weighted ? list(weight) : Doubles{},
                            .smoothing = smoothing};
      for (const Reduction reduction : kReductions) {
        const CrossEntropyAttrs options{.reduction = reduction, .label_smoothing = smoothing};
        expect_near(cross_entropy(x, t, weighted ? weight : Tensor(), options), solve(problem, reduction),
                    1e-6, 1e-6);
      }
    }
  }
}

TEST(CrossEntropy, MatchesItsFormulaForProbabilities) {
  const Tensor x = random({5, 19}, DType::f32), p = random({5, 19}, DType::f32, 0, 1, 1);
  const Tensor weight = random({19}, DType::f32, 0.5, 2, 2);
  for (const double smoothing : {0.0, 0.15}) {
    const Problem problem{.classes = 19,
                          .x = list(x),
                          .q = list(p),
                          .weight = list(weight),
                          .smoothing = smoothing,
                          .by_weight = false};
    for (const Reduction reduction : kReductions) {
      const CrossEntropyAttrs options{.reduction = reduction, .label_smoothing = smoothing};
      expect_near(cross_entropy(x, p, weight, options), solve(problem, reduction), 1e-6);
    }
  }
}

TEST(CrossEntropy, TakesInnerDimsAndSingleRows) {
  const Tensor x = random({6, 4}, DType::f64), p = random({6, 4}, DType::f64, 0, 1, 1);
  const Problem by_index{.classes = 4, .x = list(x), .q = one_hot(kTargets, 4), .smoothing = 0.1};
  const Problem by_mass{.classes = 4, .x = list(x), .q = list(p), .smoothing = 0.1, .by_weight = false};
  for (const Tensor& inner : {with_inner_dim(x, 3), with_inner_dim(x, 3).contiguous()}) {
    for (const Reduction reduction : kReductions) {
      const CrossEntropyAttrs options{.reduction = reduction, .label_smoothing = 0.1};
      expect_near(cross_entropy(inner, indices({2, 3}, kTargets), options), solve(by_index, reduction),
                  1e-14);
      expect_near(cross_entropy(inner, with_inner_dim(p, 3), options), solve(by_mass, reduction), 1e-14);
    }
  }
  const Problem single{.classes = 3, .x = {1, 2, 4}, .q = {0, 1, 0}};
  expect_near(cross_entropy(make<double>({1, 2, 4}), number<std::int64_t>(1)), solve(single, Reduction::mean),
              1e-15);
  expect_near(cross_entropy(make<double>({1, 2, 4}), make<double>({0, 1, 0})), solve(single, Reduction::mean),
              1e-15);
}

TEST(CrossEntropy, EqualsNllOfLogSoftmaxBitForBit) {
  const Tensor x = random({50, 37}, DType::f32), weight = random({37}, DType::f32, 0.5, 2, 1);
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < 50; ++r) targets.push_back(r * 7 % 37);
  for (const Reduction reduction : kReductions) {
    EXPECT_TRUE(same_bits(cross_entropy(x, indices(targets), weight, {.reduction = reduction}),
                          nll_loss(log_softmax(x, 1), indices(targets), weight, {.reduction = reduction})));
  }
}

TEST(CrossEntropy, KeepsItsDigitsForLongRowsAndLargeLogits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random({3, 9001}, dtype, -10, 10);
    const std::vector<std::int64_t> targets{0, 9000, 4096};
    const Problem problem{.classes = 9001, .x = list(x), .q = one_hot(targets, 9001)};
    const Tensor wide = cross_entropy(to(x, DType::f32), indices(targets));
    expect_near(wide, solve(problem, Reduction::mean), 1e-6);
    EXPECT_TRUE(same_bits(cross_entropy(x, indices(targets)), to(wide, dtype)));
  }
  const Tensor x = make<float>({2, 3}, {1e4F, -1e4F, 9999.5F, -1e4F, 1e4F, 0});
  const Problem problem{.classes = 3, .x = list(x), .q = one_hot({2, 0}, 3)};
  expect_near(cross_entropy(x, indices({2, 0}), {.reduction = Reduction::none}),
              solve(problem, Reduction::none), 1e-6);
}

TEST(CrossEntropy, GradientAtLargeLogitsIsProbabilityMinusTarget) {
  const Tensor x = make<float>({1, 3}, {1e4F, 1e4F - 1, -1e4F}).requires_grad_();
  const double p = 1 / (1 + std::exp(-1.0));
  expect_near(grad(cross_entropy(x, indices({1})), {x})[0], {p, -p, 0}, 3e-7);
}

TEST(CrossEntropy, IgnoredRowsAddNothingEvenWhenTheyAreNotFinite) {
  const Tensor x = make<double>({3, 2}, {0.5, 1, kNan, kInf, -kInf, -kInf}).requires_grad_();
  const Tensor loss = cross_entropy(x, indices({1, 7, 7}), {.ignore_index = 7, .label_smoothing = 0.1});
  const Problem problem{.classes = 2, .x = {0.5, 1}, .q = {0, 1}, .smoothing = 0.1};
  expect_near(loss, solve(problem, Reduction::mean), 1e-14);
  const Doubles g = list(grad(loss, {x})[0]);
  EXPECT_NEAR(g[0], 1 / (1 + std::exp(0.5)) - 0.05, 1e-15);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(g[i], 0) << i;
}

TEST(CrossEntropy, WhenAllAreIgnoredIsNanInTheMeanWithAGradientOfZero) {
  const Tensor x = random({2, 3}, DType::f64).requires_grad_();
  const Tensor loss = cross_entropy(x, indices({-100, -100}));
  expect_near(loss, {kNan}, 0);
  expect_near(grad(loss, {x})[0], Doubles(6, 0), 0);
  expect_near(cross_entropy(x, indices({-100, -100}), {.reduction = Reduction::none}), {0, 0}, 0);
  expect_near(cross_entropy(zeros({0, 3}), indices({0}, {})), {kNan}, 0);
  expect_near(cross_entropy(zeros({0, 3}), zeros({0, 3})), {kNan}, 0);
}

TEST(CrossEntropy, MaskedClassesHaveNeitherProbabilityNorGradient) {
  const Tensor x = make<double>({1, 3}, {1, -kInf, 2}).requires_grad_();
  const Tensor loss = cross_entropy(x, indices({2}));
  EXPECT_NEAR(loss.item(), std::log1p(std::exp(-1.0)), 1e-15);
  const double p = 1 / (1 + std::exp(1.0));
  expect_near(grad(loss, {x})[0], {p, 0, -p}, 1e-15);
}

TEST(CrossEntropy, DerivativesMatchDifferencesForIndices) {
  const Tensor t = indices({2, 3}, {2, 0, 1, 3, 1, 3});
  for (const Reduction reduction : kReductions) {
    for (const double smoothing : {0.0, 0.2}) {
      const CrossEntropyAttrs options{
          .ignore_index = 1, .reduction = reduction, .label_smoothing = smoothing};
      const Tensors inputs{leaf({2, 4, 3}, spread(24, -2, 2)), leaf({4}, spread(4, 0.5, 2, 1))};
      expect_derivatives(
          "cross_entropy of indices",
          [&](const Tensors& in) { return cross_entropy(in[0], t, in[1], options); }, inputs);
      expect_derivatives("cross_entropy of indices without weight",
                         [&](const Tensors& in) { return cross_entropy(in[0], t, options); }, {inputs[0]});
    }
  }
}

TEST(CrossEntropy, DerivativesMatchDifferencesForProbabilities) {
  for (const Reduction reduction : kReductions) {
    const CrossEntropyAttrs options{.reduction = reduction, .label_smoothing = 0.2};
    expect_derivatives(
        "cross_entropy of probabilities",
        [&](const Tensors& in) { return cross_entropy(in[0], in[1], in[2], options); },
        {leaf({2, 3}, spread(6, -2, 2)), leaf({2, 3}, spread(6, 0, 1, 1)), leaf({3}, spread(3, 0.5, 2, 2))});
  }
}

TEST(CrossEntropy, UnderAutocastEqualsCastThenRunBitForBit) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Reduction reduction : kReductions) {
      const CrossEntropyAttrs options{.reduction = reduction, .label_smoothing = 0.1};
      const Tensor x = random({6, 4}, DType::f64), t = indices({0, 1, -100, 3, 3, 2});
      expect_autocast_equals_casts([&](const Tensors& in) { return cross_entropy(in[0], in[1], options); },
                                   {x, t}, dtype);
      expect_autocast_equals_casts([&](const Tensors& in) { return cross_entropy(in[0], in[1], options); },
                                   {x, random({6, 4}, DType::f64, 0, 1, 1)}, dtype);
      expect_autocast_equals_casts(
          [&](const Tensors& in) { return nll_loss(in[0], in[1], {.reduction = reduction}); }, {x, t}, dtype);
    }
  }
}

TEST(CrossEntropy, DoesNotDependOnThreadsOrLayout) {
  const Tensor x = random({4, 21, 900}, DType::f32).requires_grad_();
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < 3600; ++r) targets.push_back(r * 5 % 21);
  const Tensor t = indices({4, 900}, targets);
  const Tensor loss = cross_entropy(x, t, {.label_smoothing = 0.1});
  const Tensor gradient = grad(loss, {x})[0];
  for (const int threads : {1, 3}) {
    const test::ThreadGuard guard(threads);
    const Tensor strided = strided_copy(x.detach()).requires_grad_();
    const Tensor again = cross_entropy(strided, t, {.label_smoothing = 0.1});
    EXPECT_TRUE(same_bits(again, loss)) << threads;
    EXPECT_TRUE(same_bits(grad(again, {strided})[0], gradient)) << threads;
  }
}

TEST(CrossEntropy, NeitherWidensTheLogitsNorStoresProbabilities) {
  const Tensor x = random({500, 1000}, DType::f16).requires_grad_();
  const Tensor t = indices(std::vector<std::int64_t>(500, 3));
  const std::int64_t logits = x.numel() * size_of(DType::f16);
  const Device cpu = Device::cpu();
  const std::int64_t before = memory_stats(cpu).current;
  reset_peak_memory_stats(cpu);
  const Tensor loss = [&] {
    const amp::Autocast autocast(cpu, DType::f16);
    return cross_entropy(x, t);
  }();
  EXPECT_LT(memory_stats(cpu).peak - before, logits / 4);
  EXPECT_LT(memory_stats(cpu).current - before, 1024);
  const Tensor gradient = grad(loss, {x})[0];
  // The gradient itself, in x's dtype, and a few blocks of rows.
  EXPECT_LT(memory_stats(cpu).peak - before, logits + logits / 4);
}

TEST(CrossEntropy, RefusesWhatItCannotTake) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of<IndexError>([&] {
              (void)cross_entropy(x, indices({0, 5}), {.ignore_index = -1});
            }),
            "cross_entropy: expected a class in [0, 3) or ignore_index -1, got 5 at position 1; check the "
            "labels against the number of classes");
  EXPECT_EQ(
      message_of<ShapeError>([&] { (void)cross_entropy(x, zeros({2})); }),
      "cross_entropy: expected class probabilities of the input's shape [2, 3], got [2]; pass i64 class "
      "indices of shape [2], or one probability per class");
  EXPECT_EQ(
      message_of<DTypeError>([&] { (void)cross_entropy(x, zeros({2}, {.dtype = DType::u8})); }),
      "cross_entropy: expected class indices of dtype i64, got u8; convert the target with to(DType::i64)");
  EXPECT_EQ(
      message_of<ValueError>([&] {
        (void)cross_entropy(x, zeros({2, 3}), {.ignore_index = 1});
      }),
      "cross_entropy: expected no ignore_index with class probabilities, got 1; leave ignore_index at its "
      "default, or pass class indices");
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)cross_entropy(x, indices({0, 0}), {.label_smoothing = 1.5});
            }),
            "cross_entropy: expected a label_smoothing in [0, 1], got 1.5; 0 turns it off");
  EXPECT_EQ(message_of<DTypeError>([&] {
              (void)cross_entropy(x, indices({0, 0}), zeros({3}, {.dtype = DType::i64}));
            }),
            "cross_entropy: expected a floating tensor, got i64; convert it with to(DType::f32)");
}

}  // namespace
}  // namespace mezzo
