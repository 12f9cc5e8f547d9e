// mse_loss, l1_loss and the binary cross-entropies against closed forms, with their first and second
// derivatives, extreme arguments, 16-bit inputs, and the messages they refuse with. The classification losses
// are in classification_loss_test.cpp.
#include "mezzo/ops/loss.h"

#include <gtest/gtest.h>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

constexpr std::array kReductions{Reduction::none, Reduction::mean, Reduction::sum};

/// Losses of single elements, reduced.
Doubles reduced(const Doubles& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return {reduction == Reduction::sum ? sum : sum / static_cast<double>(losses.size())};
}

Doubles map(const Doubles& x, const Doubles& t, double (*f)(double, double)) {
  Doubles out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], t[i % t.size()]));
  return out;
}

TEST(RegressionLoss, MatchesItsFormulaUnderEveryReduction) {
  const Tensor x = random({7, 300}, DType::f32), t = random({7, 300}, DType::f32, -4, 4, 1);
  for (const Reduction reduction : kReductions) {
    const Doubles squares = map(list(x), list(t), [](double a, double b) { return (a - b) * (a - b); });
    const Doubles distances = map(list(x), list(t), [](double a, double b) { return std::abs(a - b); });
    expect_near(mse_loss(x, t, reduction), reduced(squares, reduction), 4e-7);
    expect_near(l1_loss(x, t, reduction), reduced(distances, reduction), 3e-7);
  }
}

TEST(RegressionLoss, BroadcastsItsOperands) {
  const Tensor x = random({2, 3}, DType::f64), t = random({3}, DType::f64, -4, 4, 1);
  const Doubles squares = map(list(x), list(t), [](double a, double b) { return (a - b) * (a - b); });
  expect_near(mse_loss(x, t), reduced(squares, Reduction::mean), 1e-15);
  expect_near(mse_loss(x, t, Reduction::none), squares, 1e-15);
  EXPECT_EQ(l1_loss(number(3.0F), number(1.0F)).item(), 2);
}

TEST(RegressionLoss, OfNothingIsNanInTheMeanAndZeroInTheSum) {
  const Tensor nothing = zeros({0, 2});
  expect_near(mse_loss(nothing, nothing), {kNan}, 0);
  expect_near(l1_loss(nothing, nothing), {kNan}, 0);
  expect_near(mse_loss(nothing, nothing, Reduction::sum), {0}, 0);
  EXPECT_EQ(mse_loss(nothing, nothing, Reduction::none).shape(), (Shape{0, 2}));
}

TEST(RegressionLoss, DerivativesMatchDifferences) {
  for (const Reduction reduction : kReductions) {
    const Tensors same{leaf({2, 3}, spread(6, -2, 2)), leaf({2, 3}, spread(6, 3, 5, 1))};
    const Tensors broadcast{leaf({2, 3}, spread(6, 3, 5)), leaf({3}, spread(3, -2, 2, 1))};
    for (const Tensors& inputs : {same, broadcast}) {
      expect_derivatives(
          "mse_loss", [&](const Tensors& in) { return mse_loss(in[0], in[1], reduction); }, inputs);
      expect_derivatives(
          "l1_loss", [&](const Tensors& in) { return l1_loss(in[0], in[1], reduction); }, inputs, false);
    }
  }
}

TEST(RegressionLoss, L1HasNoGradientWhereBothAreEqualAndNoCurvatureAnywhere) {
  const Tensor x = leaf({1, 2, 3}), t = leaf({1, 0.5, 4});
  const Tensor loss = l1_loss(x, t, Reduction::sum);
  const Tensors g = grad({&loss, 1}, Tensors{x, t}, {}, {.create_graph = true});
  EXPECT_EQ(list(g[0]), (Doubles{0, 1, -1}));
  EXPECT_EQ(list(g[1]), (Doubles{0, -1, 1}));
  const Tensor w = make<double>({1, 1, 1});
  const Tensors second = grad({&g[0], 1}, Tensors{x}, {&w, 1}, {.allow_unused = true});
  const Doubles curvature = second[0].defined() ? list(second[0]) : Doubles(3, 0);
  EXPECT_EQ(curvature, (Doubles{0, 0, 0}));
}

TEST(RegressionLoss, RoundsSixteenBitResultsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random({5, 77}, dtype), t = random({5, 77}, dtype, -4, 4, 1);
    const Tensor wide_x = to(x, DType::f32), wide_t = to(t, DType::f32);
    for (const Reduction reduction : kReductions) {
      EXPECT_TRUE(same_bits(mse_loss(x, t, reduction), to(mse_loss(wide_x, wide_t, reduction), dtype)));
      EXPECT_TRUE(same_bits(l1_loss(x, t, reduction), to(l1_loss(wide_x, wide_t, reduction), dtype)));
    }
  }
}

TEST(RegressionLoss, UnderAutocastEqualsCastThenRunBitForBit) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Reduction reduction : kReductions) {
      const Tensors same{random({5, 7}, DType::f64), random({5, 7}, DType::f64, -4, 4, 1)};
      const Tensors broadcast{random({5, 7}, DType::f64), random({7}, DType::f64, -4, 4, 1)};
      for (const Tensors& inputs : {same, broadcast}) {
        const auto mse = [&](const Tensors& in) { return mse_loss(in[0], in[1], reduction); };
        const auto l1 = [&](const Tensors& in) { return l1_loss(in[0], in[1], reduction); };
        expect_autocast_equals_casts(mse, inputs, dtype);
        expect_autocast_equals_casts(l1, inputs, dtype);
      }
    }
  }
}

TEST(RegressionLoss, GradientOfAnF32ParameterBehindACastIsNotRoundedToSixteenBits) {
  const Tensor x = random({3, 5}, DType::f32).requires_grad_();
  const Tensor t = random({3, 5}, DType::f16, -4, 4, 1);
  const Tensor low = to(x, DType::f16);
  const Tensor loss = [&] {
    const amp::Autocast autocast(Device::cpu(), DType::f16);
    return mse_loss(low, t, Reduction::mean);
  }();
  const Tensor got = grad(loss, {x})[0];
  const Doubles values = list(low), targets = list(t);
  ASSERT_EQ(got.dtype(), DType::f32);
  Doubles want;
  for (std::size_t i = 0; i < values.size(); ++i) want.push_back(2 * (values[i] - targets[i]) / 15);
  expect_near(got, want, 3e-7);
}

TEST(RegressionLoss, GradientOfABroadcastSixteenBitTargetIsRoundedOnceAfterTheSum) {
  const Tensor x = random({9, 5}, DType::f32), t = random({5}, DType::f16, -4, 4, 1).requires_grad_();
  const Tensor gradient = grad(mse_loss(x, t, Reduction::sum), {t})[0];
  const Doubles values = list(x), targets = list(t);
  Doubles want(5, 0);
  for (std::size_t i = 0; i < values.size(); ++i) want[i % 5] -= 2 * (values[i] - targets[i % 5]);
  EXPECT_TRUE(same_bits(gradient, to(make<double>(want), DType::f16)));
}

TEST(RegressionLoss, MakesNoTemporaryOfTheInputsSize) {
  const Device cpu = Device::cpu();
  for (const auto loss_of : {mse_loss, l1_loss}) {
    const Tensor x = random({300, 1000}, DType::f16).requires_grad_(), t = random({300, 1000}, DType::f16);
    const std::int64_t bytes = x.numel() * size_of(DType::f16);
    const std::int64_t before = memory_stats(cpu).current;
    reset_peak_memory_stats(cpu);
    const Tensor loss = [&] {
      const amp::Autocast autocast(cpu, DType::f16);
      return loss_of(x, t, Reduction::mean);
    }();
    EXPECT_LT(memory_stats(cpu).peak - before, bytes / 4);
    const Tensor gradient = grad(loss, {x})[0];
    EXPECT_LT(memory_stats(cpu).peak - before, bytes + bytes / 4);
  }
}

TEST(RegressionLoss, RefusesWhatItCannotTake) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)mse_loss(zeros({2, 3}), zeros({2}));
            }),
            "mse_loss: expected shapes that broadcast, got [2, 3] and [2]; sizes must be equal or 1 from the "
            "last dim on: 3 != 2");
  EXPECT_EQ(message_of<DTypeError>([] { (void)l1_loss(zeros({2}), zeros({2}, {.dtype = DType::i64})); }),
            "l1_loss: expected a floating tensor, got i64; convert it with to(DType::f32)");
  EXPECT_EQ(
      message_of<ShapeError>([] {
        (void)call_op("mse_loss_backward", {zeros({3}), zeros({2}), zeros({2})},
                      Value::Map{{"reduction", "sum"}});
      }),
      "mse_loss_backward: expected a grad of the loss's shape [], got [3]; pass the gradient of that loss");
}

// --- binary_cross_entropy

double bce(double x, double t) { return -(t * std::log(x) + (1 - t) * std::log1p(-x)); }

TEST(BinaryCrossEntropy, MatchesItsFormulaUnderEveryReduction) {
  const Tensor x = random({6, 9}, DType::f32, 0.02, 0.98), t = random({6, 9}, DType::f32, 0, 1, 1);
  const Tensor weight = random({9}, DType::f32, 0.5, 2, 2);
  Doubles losses = map(list(x), list(t), bce);
  for (const Reduction reduction : kReductions)
    expect_near(binary_cross_entropy(x, t, {}, reduction), reduced(losses, reduction), 1e-6);
  const Doubles weights = list(weight);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] *= weights[i % 9];
  for (const Reduction reduction : kReductions)
    expect_near(binary_cross_entropy(x, t, weight, reduction), reduced(losses, reduction), 1e-6);
}

TEST(BinaryCrossEntropy, BoundsTheLogarithmsAtMinusHundred) {
  const Tensor x = make<float>({0, 1, 0, 1}), t = make<float>({0, 1, 1, 0});
  expect_near(binary_cross_entropy(x, t, {}, Reduction::none), {0, 0, 100, 100}, 0);
}

TEST(BinaryCrossEntropy, GradientIsBoundedAsInPyTorch) {
  const Tensor x = leaf({0, 1, 0.25}), t = make<double>({1, 0, 1});
  const Tensor loss = binary_cross_entropy(x, t, {}, Reduction::sum);
  expect_near(grad(loss, {x})[0], {-1e12, 1e12, -4}, 1e-12);
}

TEST(BinaryCrossEntropy, DerivativesMatchDifferences) {
  for (const Reduction reduction : kReductions) {
    const Tensors inputs{leaf({2, 3}, spread(6, 0.1, 0.9)), leaf({2, 3}, spread(6, 0, 1, 1)),
                         leaf({3}, spread(3, 0.5, 2, 2))};
    expect_derivatives(
        "binary_cross_entropy",
        [&](const Tensors& in) { return binary_cross_entropy(in[0], in[1], in[2], reduction); }, inputs);
    expect_derivatives("binary_cross_entropy without weight",
                       [&](const Tensors& in) { return binary_cross_entropy(in[0], in[1], {}, reduction); },
                       {inputs[0], inputs[1]});
  }
}

TEST(BinaryCrossEntropy, LetsNanThroughAndRefusesOtherNumbersOutsideTheUnitInterval) {
  const Tensor t = make<float>({0, 1});
  expect_near(binary_cross_entropy(make<float>({NAN, 0.5F}), t), {kNan}, 0);
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)binary_cross_entropy(make<float>({-0.5F, 1.5F}), t);
            }),
            "binary_cross_entropy: expected probabilities in [0, 1], got 2 of 2 outside; pass logits to "
            "binary_cross_entropy_with_logits, or sigmoid(x)");
}

TEST(BinaryCrossEntropy, IsRefusedUnderAutocastWithTheAlternativeNamed) {
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  const std::string message =
      message_of<StateError>([] { (void)binary_cross_entropy(zeros({2}), zeros({2})); });
  EXPECT_NE(message.find("binary_cross_entropy_with_logits"), std::string::npos) << message;
}

TEST(BinaryCrossEntropy, RefusesTargetsAndWeightsThatDoNotFit) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)binary_cross_entropy(zeros({2, 3}), zeros({3}));
            }),
            "binary_cross_entropy: expected a target of the input's shape [2, 3], got [3]; reshape or expand "
            "one of them");
  EXPECT_EQ(
      message_of<ShapeError>([] { (void)binary_cross_entropy(zeros({3}), zeros({3}), zeros({2})); }),
      "binary_cross_entropy: expected a shape that broadcasts to [3], got [2]; sizes must be equal or 1 "
      "from the last dim on");
  EXPECT_EQ(message_of<DTypeError>([] {
              (void)binary_cross_entropy(zeros({3}), zeros({3}), zeros({3}, {.dtype = DType::i64}));
            }),
            "binary_cross_entropy: expected a floating tensor, got i64; convert it with to(DType::f32)");
}

// --- binary_cross_entropy_with_logits

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double logit_bce(double x, double t) { return (1 - t) * softplus(x) + t * softplus(-x); }

TEST(BinaryCrossEntropyWithLogits, MatchesItsFormulaUnderEveryReduction) {
  const Tensor x = random({6, 9}, DType::f32, -8, 8), t = random({6, 9}, DType::f32, 0, 1, 1);
  const Tensor weight = random({6, 1}, DType::f32, 0.5, 2, 2),
               pos_weight = random({9}, DType::f32, 0.5, 3, 3);
  const Doubles plain = map(list(x), list(t), logit_bce);
  Doubles weighted;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double a = list(x)[i], b = list(t)[i];
    weighted.push_back(list(weight)[i / 9] *
                       ((1 - b) * softplus(a) + list(pos_weight)[i % 9] * b * softplus(-a)));
  }
  for (const Reduction reduction : kReductions) {
    expect_near(binary_cross_entropy_with_logits(x, t, {}, {}, reduction), reduced(plain, reduction), 1e-6);
    expect_near(binary_cross_entropy_with_logits(x, t, weight, pos_weight, reduction),
                reduced(weighted, reduction), 1e-6);
  }
}

TEST(BinaryCrossEntropyWithLogits, KeepsItsDigitsAtExtremeLogits) {
  const Doubles x{1e4, -1e4, 1e4, -1e4, 40, -40, 20, 90};
  const Doubles t{0, 1, 1, 0, 1, 0, 1, 0};
  const std::vector<float> x32(x.begin(), x.end()), t32(t.begin(), t.end());
  const Tensor input = make<float>(x32).requires_grad_();
  const Tensor losses = binary_cross_entropy_with_logits(input, make<float>(t32), {}, {}, Reduction::none);
  expect_near(losses, map(x, t, logit_bce), 1e-6, 1e-44);
  const Tensor ones = make<float>(std::vector<float>(x.size(), 1.0F));
  const auto slope = [](double a, double b) { return (1 - b) / (1 + std::exp(-a)) - b / (1 + std::exp(a)); };
  expect_near(grad({&losses, 1}, Tensors{input}, {&ones, 1})[0], map(x, t, slope), 1e-6, 1e-44);
}

TEST(BinaryCrossEntropyWithLogits, DerivativesMatchDifferences) {
  const Tensors inputs{leaf({2, 3}, spread(6, -3, 3)), leaf({2, 3}, spread(6, 0, 1, 1)),
                       leaf({2, 1}, spread(2, 0.5, 2, 2)), leaf({3}, spread(3, 0.5, 2, 3))};
  for (const Reduction reduction : kReductions) {
    expect_derivatives(
        "with all weights",
        [&](const Tensors& in) {
          return binary_cross_entropy_with_logits(in[0], in[1], in[2], in[3], reduction);
        },
        inputs);
    expect_derivatives(
        "without weights",
        [&](const Tensors& in) { return binary_cross_entropy_with_logits(in[0], in[1], {}, {}, reduction); },
        {inputs[0], inputs[1]});
  }
}

TEST(BinaryCrossEntropyWithLogits, HasItsTrueDerivativesAtZero) {
  const Tensor x = leaf({0.0, 0.0}), t = make<double>({1, 0.25});
  const Tensor loss = binary_cross_entropy_with_logits(x, t, {}, {}, Reduction::sum);
  const Tensor first = grad(loss, {x}, {.create_graph = true})[0];
  expect_near(first, {-0.5, 0.25}, 1e-15);
  const Tensor w = make<double>({1, 1});
  expect_near(grad({&first, 1}, Tensors{x}, {&w, 1})[0], {0.25, 0.25}, 1e-15);
}

TEST(BinaryCrossEntropyWithLogits, UnderAutocastEqualsCastThenRunBitForBit) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensors inputs{random({5, 7}, DType::f64), random({5, 7}, DType::f64, 0, 1, 1),
                         random({7}, DType::f64, 0.5, 2, 2)};
    for (const Reduction reduction : kReductions) {
      expect_autocast_equals_casts(
          [&](const Tensors& in) {
            return binary_cross_entropy_with_logits(in[0], in[1], {}, in[2], reduction);
          },
          inputs, dtype);
    }
  }
}

TEST(BinaryCrossEntropyWithLogits, RoundsSixteenBitResultsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random({5, 77}, dtype), t = random({5, 77}, dtype, 0, 1, 1);
    const Tensor wide = binary_cross_entropy_with_logits(to(x, DType::f32), to(t, DType::f32));
    EXPECT_TRUE(same_bits(binary_cross_entropy_with_logits(x, t), to(wide, dtype)));
  }
}

TEST(BinaryCrossEntropyWithLogits, RefusesTargetsOfAnotherShape) {
  EXPECT_EQ(
      message_of<ShapeError>([] {
        (void)binary_cross_entropy_with_logits(zeros({2, 1}), zeros({2}));
      }),
      "binary_cross_entropy_with_logits: expected a target of the input's shape [2, 1], got [2]; reshape "
      "or expand one of them");
}

}  // namespace
}  // namespace mezzo
