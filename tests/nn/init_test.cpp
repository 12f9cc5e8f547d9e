// Initialisers: moments against closed forms, bounds, and quantiles against erfc. Seeds are fixed; tolerances
// are five standard errors of the estimate, so that a wrong distribution fails and the right one passes for
// nearly any seed.
#include "mezzo/nn/init.h"

#include <algorithm>
#include <cmath>

#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

constexpr double kErrors = 5;

struct Moments {
  double mean = 0;
  double variance = 0;
  double smallest = 0;
  double largest = 0;
};

Moments moments(const Tensor& x) {
  const auto all = x.to_vector<double>();
  const auto n = static_cast<double>(all.size());
  Moments result;
  for (const double value : all) result.mean += value / n;
  for (const double value : all) result.variance += (value - result.mean) * (value - result.mean) / n;
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  result.smallest = *low;
  result.largest = *high;
  return result;
}

/// Checks mean 0 and the variance. The standard error of the mean of n numbers is sqrt(variance / n), that of
/// their variance is variance sqrt((kurtosis - 1) / n).
void expect_variance(const Tensor& x, double variance, double kurtosis) {
  const auto n = static_cast<double>(x.numel());
  const Moments found = moments(x);
  EXPECT_NEAR(found.mean, 0, kErrors * std::sqrt(variance / n));
  EXPECT_NEAR(found.variance, variance, kErrors * variance * std::sqrt((kurtosis - 1) / n));
}

/// Uniform on [-bound, bound]: variance bound^2 / 3, kurtosis 9/5; the ends are nearly reached.
void expect_uniform(const Tensor& x, double bound) {
  expect_variance(x, bound * bound / 3, 1.8);
  const Moments found = moments(x);
  const double gap = bound * 2 * 30 / static_cast<double>(x.numel());  // missed with probability e^-30
  EXPECT_GE(found.smallest, -bound * (1 + 0x1p-23));
  EXPECT_LE(found.smallest, -bound + gap);
  EXPECT_LE(found.largest, bound * (1 + 0x1p-23));
  EXPECT_GE(found.largest, bound - gap);
}

void expect_normal(const Tensor& x, double std) {
  expect_variance(x, std * std, 3);
  const Moments found = moments(x);
  EXPECT_GT(found.largest, 3.5 * std) << "of 60000 numbers 14 are expected to lie above";
}

constexpr std::int64_t kOut = 300, kIn = 200;  // 60000 elements
Tensor weight() { return empty({kOut, kIn}); }

TEST(Init, FansCountInputsAndOutputsWithTheWindow) {
  EXPECT_EQ(init::fans({8, 3}).in, 3);
  EXPECT_EQ(init::fans({8, 3}).out, 8);
  EXPECT_EQ(init::fans({8, 3, 5, 7}).in, 3 * 35);
  EXPECT_EQ(init::fans({8, 3, 5, 7}).out, 8 * 35);
  EXPECT_TRUE(contains(message_of<ShapeError>([] { (void)init::fans({8}); }), "[8]"));
  EXPECT_THROW(init::kaiming_uniform_(zeros({8})), ShapeError);
}

TEST(Init, GainsAreThoseOfTheirFunctions) {
  using enum init::Nonlinearity;
  EXPECT_EQ(init::calculate_gain(linear), 1);
  EXPECT_EQ(init::calculate_gain(sigmoid), 1);
  EXPECT_DOUBLE_EQ(init::calculate_gain(init::Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::calculate_gain(relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(init::calculate_gain(leaky_relu, 0.2), std::sqrt(2 / 1.04));
  EXPECT_DOUBLE_EQ(init::calculate_gain(leaky_relu), std::sqrt(2 / 1.0001));
  EXPECT_EQ(init::calculate_gain(selu), 0.75);
}

TEST(Init, Constants) {
  const Tensor x = counting({3}).requires_grad_();
  EXPECT_EQ(values(init::constant_(x, 2.5)), (std::vector<float>{2.5F, 2.5F, 2.5F}));
  EXPECT_EQ(values(init::zeros_(x)), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(values(init::ones_(x)), (std::vector<float>{1, 1, 1}));
  EXPECT_TRUE(x.is_leaf());
}

TEST(Init, PlainUniformAndNormal) {
  Generator generator(1);
  expect_uniform(init::uniform_(weight(), -2, 2, generator), 2);
  expect_normal(init::normal_(weight(), 0, 3, generator), 3);
}

TEST(Init, XavierHasTheMeanOfBothFans) {
  Generator generator(2);
  expect_uniform(init::xavier_uniform_(weight(), 1, generator), std::sqrt(6.0 / 500));
  expect_uniform(init::xavier_uniform_(weight(), 2, generator), 2 * std::sqrt(6.0 / 500));
  expect_normal(init::xavier_normal_(weight(), 1, generator), std::sqrt(2.0 / 500));
}

TEST(Init, KaimingHasOneFan) {
  Generator generator(3);
  using init::FanMode, init::Nonlinearity;
  expect_uniform(init::kaiming_uniform_(weight(), {}, generator), std::sqrt(6.0 / kIn));
  expect_uniform(init::kaiming_uniform_(weight(), {.mode = FanMode::fan_out}, generator),
                 std::sqrt(6.0 / kOut));
  expect_uniform(init::kaiming_uniform_(weight(), {.a = std::sqrt(5.0)}, generator),
                 1 / std::sqrt(1.0 * kIn));
  expect_normal(init::kaiming_normal_(weight(), {.nonlinearity = Nonlinearity::tanh}, generator),
                5.0 / 3 / std::sqrt(1.0 * kIn));
  expect_normal(init::kaiming_normal_(
                    weight(), {.mode = FanMode::fan_out, .nonlinearity = Nonlinearity::relu}, generator),
                std::sqrt(2.0 / kOut));
}

TEST(Init, OfNothingIsNothing) {
  EXPECT_EQ(init::kaiming_uniform_(empty({0, 4}), {.mode = init::FanMode::fan_out}).numel(), 0);
  EXPECT_EQ(init::xavier_normal_(empty({0, 0})).numel(), 0);
  EXPECT_EQ(init::trunc_normal_(empty({0})).numel(), 0);
}

/// Density and distribution of a standard normal number.
double density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * 3.14159265358979323846); }
double below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

TEST(Init, TruncatedNormalHasItsMeanAndVariance) {
  const init::TruncNormalOptions cases[] = {{},
                                            {.std = 0.02},
                                            {.mean = 1, .std = 2, .low = -1, .high = 1.5},
                                            {.low = 2, .high = 5},
                                            {.mean = 3, .std = 0.5, .low = -9, .high = 1}};
  Generator generator(4);
  for (const auto& options : cases) {
    const Tensor x = init::trunc_normal_(empty({60000}, {.dtype = DType::f64}), options, generator);
    const double a = (options.low - options.mean) / options.std,
                 b = (options.high - options.mean) / options.std;
    const double mass = a > 0 ? below(-a) - below(-b) : below(b) - below(a);
    const double shift = (density(a) - density(b)) / mass;
    const double mean = options.mean + options.std * shift;
    const double variance =
        options.std * options.std * (1 + (a * density(a) - b * density(b)) / mass - shift * shift);
    const auto n = static_cast<double>(x.numel());
    const Moments found = moments(x);
    EXPECT_NEAR(found.mean, mean, kErrors * std::sqrt(variance / n));
    // The kurtosis of a normal number cut to an interval is below that of the exponential distribution, 9.
    EXPECT_NEAR(found.variance, variance, kErrors * variance * std::sqrt(8 / n));
    EXPECT_GE(found.smallest, options.low);
    EXPECT_LE(found.largest, options.high);
  }
}

TEST(Init, TruncatedNormalInvertsTheDistribution) {
  // The first interval takes the quantile's centre and tail, the second its far tail.
  for (const auto& [low, high] : {std::pair{-6.0, 0.5}, std::pair{-30.0, -8.0}}) {
    Generator generator(5), oracle(5);
    const Tensor x =
        init::trunc_normal_(empty({20000}, {.dtype = DType::f64}), {.low = low, .high = high}, generator);
    const auto draws = rand({20000}, {.dtype = DType::f64}, oracle).to_vector<double>();
    const auto found = x.to_vector<double>();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double p = below(low) + draws[i] * (below(high) - below(low));
      // An error of z by 1e-15 |z| changes p by the density times that; erfc and the sum have their few ulp.
      const double error = 1e-15 * std::max(std::abs(found[i]), 1.0);
      EXPECT_NEAR(below(found[i]), p, 2 * density(found[i]) * error + 16 * 0x1p-53 * p) << found[i];
    }
  }
}

TEST(Init, TruncatedNormalReachesFarIntoTheTails) {
  const Tensor x = empty({1000}, {.dtype = DType::f64});
  for (const double sign : {-1.0, 1.0}) {
    const double near = sign * 20, far = sign * 21;
    const Moments found =
        moments(init::trunc_normal_(x, {.low = std::min(near, far), .high = std::max(near, far)}));
    EXPECT_NEAR(found.mean, sign * (20 + 1 / 20.0), 0.01) << "about exponential with rate 20 beyond 20";
    EXPECT_GT(found.variance, 0);
  }
  EXPECT_EQ(moments(init::trunc_normal_(x, {.low = 50, .high = 51})).largest, 50) << "no such number in f64";
}

TEST(Init, TruncatedNormalRoundsOnceAndRefusesNonsense) {
  Generator first(6), second(6);
  const Tensor half = init::trunc_normal_(empty({99}, {.dtype = DType::f16}), {}, first);
  const Tensor wide = init::trunc_normal_(empty({99}, {.dtype = DType::f64}), {}, second);
  EXPECT_EQ(values(half), values(wide.to(DType::f16)));
  EXPECT_THROW(init::trunc_normal_(half, {.std = 0}), ValueError);
  EXPECT_THROW(init::trunc_normal_(half, {.low = 1, .high = 1}), ValueError);
  EXPECT_THROW(init::trunc_normal_(zeros({3}, {.dtype = DType::i64})), DTypeError);
}

TEST(Init, IsNotRecordedAndRepeatsWithItsSeed) {
  const Tensor x = weight().requires_grad_();
  Generator first(9), second(9);
  const auto once = values(init::kaiming_normal_(x, {}, first));
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(values(init::kaiming_normal_(x, {}, second)), once);
  EXPECT_NE(values(init::kaiming_normal_(x, {}, second)), once);
}

}  // namespace

}  // namespace mezzo::nn
