// Running sums and products beyond what goldens and sweep see: zeros, infinities, integers, long rows, empty
// tensors, and what is refused. Distances likewise.
#include "mezzo/ops/cumulative.h"

#include <gtest/gtest.h>

#include "mezzo/ops/distance.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

TEST(Cumulative, ProductsHaveGradientsAtZeros) {
  for (const Doubles& values : {Doubles{2, 0, 3, -1}, Doubles{0, 2, 0, 3}, Doubles{0, 0, 0}}) {
    const Tensors inputs{leaf(values)};
    expect_derivatives(
        "prod", [](const Tensors& x) { return prod(x[0]); }, inputs);
    expect_derivatives(
        "cumprod", [](const Tensors& x) { return cumprod(x[0], 0); }, inputs);
  }
}

TEST(Cumulative, GradientOfAProductWhosePartsLeaveTheRangeOfF32) {
  const Tensor x = make<float>({1e30F, 1e30F, 1e-30F, 1e-30F}).requires_grad_();
  prod(x).backward();
  expect_near(x.grad(), {1e-30, 1e-30, 1e30, 1e30}, 1e-6);
}

TEST(Cumulative, InfinitiesPassAsInALoop) {
  expect_near(cumsum(make<float>({1, 2, static_cast<float>(kInf), 4}), 0), {1, 3, kInf, kInf}, 0);
  expect_near(cumprod(make<float>({2, static_cast<float>(kInf), -1, 0}), 0), {2, kInf, -kInf, kNan}, 0);
}

TEST(Cumulative, IntegersBecomeI64AndWrap) {
  const Tensor bytes = make<std::uint8_t>({200, 100, 3});
  EXPECT_EQ(cumsum(bytes, 0).dtype(), DType::i64);
  EXPECT_EQ(list(cumsum(bytes, 0)), (Doubles{200, 300, 303}));
  EXPECT_EQ(list(cumprod(bytes, 0)), (Doubles{200, 20000, 60000}));
  EXPECT_EQ(list(prod(bools({2, 2}, {1, 1, 1, 0}), 1)), (Doubles{1, 0}));
  const std::int64_t large = std::int64_t{1} << 62;
  EXPECT_EQ(prod(make<std::int64_t>({large, 4})).to_vector<std::int64_t>()[0], 0);
  EXPECT_EQ(trace(make<std::uint8_t>({2, 2}, {200, 1, 1, 100})).to_vector<std::int64_t>()[0], 300);
}

TEST(Cumulative, SumsOf16BitInputAreRoundedOnceEach) {
  const Tensor ones_16 = ones({4096}, {.dtype = DType::bf16});
  EXPECT_EQ(list(cumsum(ones_16, 0)).back(), 4096);
  EXPECT_EQ(list(cumsum(ones_16, 0, DType::f32))[4094], 4095);
}

/// Rows longer than a block, alone, side by side in memory and one after the other, both ways.
TEST(Cumulative, LongRowsGoOnWhereTheLastPieceEnded) {
  Generator generator(3);
  const auto reference = [](const Doubles& scale, const Doubles& add, bool reverse) {
    Doubles result(scale.size());
    double h = 0.5;
    for (std::size_t k = 0; k < scale.size(); ++k) {
      const std::size_t i = reverse ? scale.size() - 1 - k : k;
      result[i] = h = scale[i] * h + add[i];
    }
    return result;
  };
  for (const std::int64_t n : {2048, 2049, 5000}) {
    for (const Shape& shape : {Shape{n}, Shape{3, n}, Shape{n, 2}, Shape{n, 37}}) {
      const std::int64_t dim = shape.size() == 2 && shape[1] == n ? 1 : 0;
      const Tensor scale = uniform(0.9, 1.05, shape, {.dtype = DType::bf16}, generator);
      const Tensor add = uniform(-1, 1, shape, {}, generator);
      for (const bool reverse : {false, true}) {
        const Tensor h = linear_recurrence(scale, add, dim, 0.5, reverse);
        for (std::int64_t row = 0; row < h.numel() / n; ++row) {
          const auto line = [&](const Tensor& x) { return list(x.dim() == 1 ? x : select(x, 1 - dim, row)); };
          const Doubles expected = reference(line(scale), line(add), reverse), got = line(h);
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i], static_cast<float>(expected[i]))
                << to_string(shape) << ", row " << row << ", " << i;
        }
      }
    }
  }
}

TEST(Cumulative, NothingToAddUp) {
  EXPECT_EQ(cumsum(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(list(prod(zeros({0}))), Doubles{1});
  EXPECT_EQ(list(prod(zeros({2, 0}), 1, true)), (Doubles{1, 1}));
  const Tensor x = zeros({0}).requires_grad_();
  prod(x).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0}));
  EXPECT_EQ(list(logsumexp(zeros({2, 0}), 1)), (Doubles{-kInf, -kInf}));
  EXPECT_EQ(list(trace(zeros({0, 3}))), Doubles{0});
  EXPECT_EQ(pdist(zeros({1, 3})).shape(), (Shape{0}));
}

TEST(Cumulative, LogsumexpOfInfinitiesAndIntegers) {
  expect_near(logsumexp(make<float>({2, 2}, {1, static_cast<float>(kInf), -1000, -1000}), 1),
              {kInf, -1000 + std::log(2.0)}, 1e-6);
  EXPECT_EQ(logsumexp(make<std::int64_t>({1, 2}), 0).dtype(), DType::f32);
}

// x = torch.tensor([[1.5, -2, .25, 3], [1000, 1001, -1000, 1000.5]], dtype=torch.float64, requires_grad=True)
// y = torch.logcumsumexp(x, 1); (y * torch.tensor([1., -2, 0, 3])).sum().backward(); print(y, x.grad)
TEST(Logcumsumexp, IsPyTorchs) {
  const Tensor x = leaf({2, 4}, {1.5, -2, 0.25, 3, 1000, 1001, -1000, 1000.5});
  const Tensor y = logcumsumexp(x, 1);
  expect_near(y,
              {1.5, 1.5297504182726205, 1.7751302622476353, 3.257580508495379, 1000.0, 1001.3132616875182,
               1001.3132616875182, 1001.6802696706417},
              1e-15);
  (y * make<double>({1, -2, 0, 3})).sum().backward();
  // Exponents near 1000 are rounded to 1e-13.
  expect_near(x.grad(),
              {-0.42399065183947093, -0.043000791703393756, 0.14823325185043026, 2.3187581916924356,
               1.021088326937611, 0.057324015907177284, 0.0, 0.9215876571555973},
              1e-12, 1e-12);
  EXPECT_TRUE(same_bits(logcumsumexp(transpose(x, 0, 1), 0), transpose(y, 0, 1)));
  EXPECT_TRUE(same_bits(logcumsumexp(x, -1), y));
}

TEST(Logcumsumexp, InfinitiesAreNumbers) {
  const Tensor x = leaf({-kInf, 1, -kInf, 2, kInf, 3});
  const Tensor y = logcumsumexp(x, 0);
  expect_near(y, {-kInf, 1, 1, 1 + std::log1p(std::exp(1)), kInf, kInf}, 1e-15);
  y.sum().backward();
  const double share = 1 / (1 + std::exp(1));  // of 1 beside 2; torch has NaN for the first -infinity
  expect_near(x.grad(), {0, 2 + share, 0, 1 - share, kNan, 0}, 1e-15);
  expect_near(logcumsumexp(make<double>({0, kNan, 1}), 0), {0, kNan, kNan}, 0);
  const Tensor far = leaf({-kInf, -5000, 5000, -5000});
  logcumsumexp(far, 0).sum().backward();
  expect_near(far.grad(), {0, 1, 2, 0}, 1e-15);
}

TEST(Logcumsumexp, DerivativesOfBothOrders) {
  expect_derivatives("logcumsumexp", [](const Tensors& x) { return logcumsumexp(x[0], 1); },
                     {leaf({2, 5}, spread(10, -3, 3))});
}

TEST(Logcumsumexp, RoundsOnceAndKeepsTheDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = random({3, 3000}, dtype), wide = logcumsumexp(to(x, DType::f64), 1);
    const Tensor y = logcumsumexp(x, 1);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(same_bits(y, to(to(wide, DType::f32), dtype)));  // 16 bits are stored from f32
  }
  const Tensor y = [] {
    const amp::Autocast autocast(Device::cpu(), DType::bf16);
    return logcumsumexp(zeros({3}, {.dtype = DType::bf16}), 0);
  }();
  EXPECT_EQ(y.dtype(), DType::bf16) << "autocast leaves it alone";
}

TEST(Logcumsumexp, EdgesAndRefusals) {
  EXPECT_EQ(logcumsumexp(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(logcumsumexp(full({}, 2.5), 0).item(), 2.5);
  EXPECT_THROW(static_cast<void>(logcumsumexp(zeros({3}), 1)), IndexError);
  EXPECT_THROW(static_cast<void>(logcumsumexp(indices({1, 2}), 0)), DTypeError);
}

TEST(Cumulative, DistancesOfEqualRowsHaveNoGradient) {
  const Tensor x = leaf({2, 2}, {1, 2, 1, 2});
  (sum(cdist(x, x)) + sum(pdist(x))).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{0, 0, 0, 0}));
}

TEST(Cumulative, Refusals) {
  const Tensor x = zeros({3, 2}), y = zeros({4, 3});
  EXPECT_THROW(static_cast<void>(linear_recurrence({}, {}, 0)), ValueError);
  EXPECT_THROW(static_cast<void>(linear_recurrence(x, y, 0)), ShapeError);
  EXPECT_THROW(static_cast<void>(cumsum(x, 2)), IndexError);
  EXPECT_THROW(static_cast<void>(trace(zeros({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(cdist(x, y)), ShapeError);
  EXPECT_THROW(static_cast<void>(cdist(x, x, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(pdist(zeros({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(pdist(zeros({32769, 0}))), ValueError);
  EXPECT_THROW(static_cast<void>(renorm(zeros({3}), 2, 0, 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(renorm(x, 0, 0, 1)), ValueError);
  EXPECT_THROW(static_cast<void>(renorm(x, 2, 0, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(indices({1, 2}).dist(indices({1, 3}))), DTypeError);
}

}  // namespace
}  // namespace mezzo
