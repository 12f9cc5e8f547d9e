// Results and gradients at NaN and infinity, where PyTorch's formulas are a convention that nothing derives.
// The expected numbers are those of PyTorch 1.13.1 (CPU, f32).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/ops/activation.h"
#include "mezzo/ops/distance.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// The gradient of the sum of f at x.
Doubles slope(const std::function<Tensor(const Tensor&)>& f, const Doubles& at) {
  const Tensor x = make<float>(std::vector<float>(at.begin(), at.end())).requires_grad_();
  const Tensor y = f(x);
  const Tensor one = ones(y.shape());
  return list(grad({&y, 1}, {&x, 1}, {&one, 1})[0]);
}

void expect_same(const Doubles& got, const Doubles& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i];
    else
      EXPECT_FLOAT_EQ(static_cast<float>(got[i]), static_cast<float>(want[i])) << "at " << i;
  }
}

TEST(SpecialValues, OfAbsoluteValuesHaveNoDirectionAtNan) {
  expect_same(slope([](const Tensor& x) { return abs(x); }, {kNan, kInf, -kInf, 0}), {0, 1, -1, 0});
  const Tensor target = make<float>({1, 1, 1});
  const auto of = [&target](auto loss) {
    return slope([&](const Tensor& x) { return loss(x, target, Reduction::sum); }, {kNan, kInf, -kInf});
  };
  expect_same(of([](const Tensor& x, const Tensor& t, Reduction r) { return l1_loss(x, t, r); }), {0, 1, -1});
  // A NaN is not beyond the linear part's start, and stays.
  expect_same(of([](const Tensor& x, const Tensor& t, Reduction r) { return smooth_l1_loss(x, t, r); }),
              {kNan, 1, -1});
  expect_same(of([](const Tensor& x, const Tensor& t, Reduction r) { return huber_loss(x, t, r, 2); }),
              {kNan, 2, -2});
  // The same seen from the target.
  const Tensor x = make<float>({INFINITY, -INFINITY, 0});
  expect_same(slope([&x](const Tensor& t) { return smooth_l1_loss(x, t, Reduction::sum); }, {1, 1, 0.5}),
              {-1, 1, 0.5});
  expect_same(slope([&x](const Tensor& t) { return huber_loss(x, t, Reduction::sum, 2); }, {1, 1, 0.5}),
              {-2, 2, 0.5});
}

TEST(SpecialValues, NansShareTheGradientOfAnExtremumThatIsNan) {
  expect_same(slope([](const Tensor& x) { return max(x); }, {1, kNan, kNan}), {0, 0.5, 0.5});
  expect_same(slope([](const Tensor& x) { return min(x); }, {kNan, 1, 2}), {1, 0, 0});
  expect_same(slope([](const Tensor& x) { return amax(x); }, {1, kNan, kNan}), {kNan, kNan, kNan});
  expect_same(slope([](const Tensor& x) { return norm(x, kInf); }, {1, kNan, 2}), {0, 0, 0});
  expect_same(slope([](const Tensor& x) { return norm(x, kInf); }, {1, kInf, -kInf}), {0, 0.5, -0.5});
  expect_same(slope([](const Tensor& x) { return norm(x, 1); }, {1, kNan, 2}), {1, 0, 1});
}

TEST(SpecialValues, ActivationsBeyondTheirCurve) {
  expect_same(slope([](const Tensor& x) { return elu(x); }, {kNan, kInf, -kInf, 0}), {1, 1, 0, 1});
  expect_same(slope([](const Tensor& x) { return celu(x); }, {kNan, kInf, -kInf, 0}), {1, 1, 0, 1});
  expect_same(slope(selu, {kNan, kInf, -kInf}), {1.0507009873554805, 1.0507009873554805, 0});
  expect_same(slope(mish, {3e38, -3e38, kNan}), {1, 0, kNan});
  // The weight multiplies negative elements only.
  const Tensor x = make<float>({INFINITY, -2, 3});
  expect_same(slope([&x](const Tensor& weight) { return prelu(x, weight); }, {0.25}), {-2});
}

TEST(SpecialValues, HalfPowersAreRoots) {
  const Tensor x = make<float>({-INFINITY, -0.0F, INFINITY, -1, NAN});
  expect_same(list(pow(x, 0.5)), {kNan, -0.0, kInf, kNan, kNan});
  expect_same(list(pow(x, -0.5)), {kNan, -kInf, 0, kNan, kNan});
  EXPECT_EQ(pow(make<std::int64_t>({4}), 0.5).item(), 2);
}

TEST(SpecialValues, PointsWithoutCoordinatesAreNotApart) {
  const Tensor points = zeros({2, 0}), others = zeros({3, 0});
  for (const double p : {0.0, 1.0, 2.0, kInf}) EXPECT_EQ(list(cdist(points, others, p)), Doubles(6, 0.0));
}

TEST(SpecialValues, NormalizeTakesSeveralDims) {
  const Tensor x = make<float>({1, 2, 2}, {2, 4, 4, 8});  // of norm 10
  expect_same(list(normalize(x, 2, {1, -1})), {0.2, 0.4, 0.4, 0.8});
}

}  // namespace
}  // namespace mezzo
