// Functions of every day beyond what the sweep sees, with PyTorch's values: ranges, stacks, Kronecker's
// product, statistics in pairs, sums without NaN, Gumbel's softmax, running extrema, places in sorted
// sequences, bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

// --- ranges

TEST(Linspace, HasPyTorchsBits) {
  EXPECT_EQ(list(linspace(-0.3, 1.7, 7)),
            (Doubles{-0.30000001192092896, 0.03333333134651184, 0.36666667461395264, 0.7000000476837158,
                     1.0333333015441895, 1.3666666746139526, 1.7000000476837158}));
  EXPECT_EQ(list(linspace(5.5, -3.25, 8)), (Doubles{5.5, 4.25, 3, 1.75, 0.5, -0.75, -2, -3.25}));
  EXPECT_EQ(list(linspace(0, 1, 7, {.dtype = DType::f16})),
            (Doubles{0, 0.1666259765625, 0.333251953125, 0.5, 0.66650390625, 0.83349609375, 1}));
  EXPECT_EQ(list(linspace(0, 10, 4, {.dtype = DType::i64})), (Doubles{0, 3, 6, 10}));
  EXPECT_EQ(list(linspace(0.5, 9.9, 5, {.dtype = DType::i32})), (Doubles{0, 2, 4, 6, 9}));
}

TEST(Linspace, MeetsBothEndsAndTakesFewSteps) {
  for (const std::int64_t steps : {2, 3, 1000, 70001}) {
    const Doubles values = list(linspace(0.1, 0.7, steps, {.dtype = DType::f64}));
    EXPECT_EQ(values.front(), 0.1);
    EXPECT_EQ(values.back(), 0.7);
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  }
  EXPECT_EQ(list(linspace(3, 5, 1)), Doubles{3});
  EXPECT_EQ(linspace(3, 5, 0).shape(), (Shape{0}));
  EXPECT_EQ(linspace(3, 5, 2).dtype(), DType::f32);
  EXPECT_TRUE(linspace(3, 5, 2, {.requires_grad = true}).requires_grad());
  EXPECT_EQ(message_of<ValueError>([] { return linspace(0, 1, -1); }),
            "linspace: expected at least 0 steps, got -1; count the numbers");
}

TEST(Logspace, IsAPowerOfLinspace) {
  expect_near(logspace(-1, 2, 4), {0.1, 1, 10, 100}, 1e-7);
  EXPECT_EQ(list(logspace(0, 5, 6, 2, {.dtype = DType::i64})), (Doubles{1, 2, 4, 8, 16, 32}));
  expect_near(logspace(0.1, 0.9, 3, 3, {.dtype = DType::f64}),
              {1.1161231740339044, 1.7320508075688772, 2.6878753795222865}, 1e-15);
  EXPECT_EQ(list(logspace(0, 1, 3, 0)), (Doubles{1, 0, 0}));
  EXPECT_THROW((void)logspace(0, 1, -2), ValueError);
}

// --- arrangements

TEST(Diag, GoesBothWaysAndBack) {
  const Tensor v = make<double>({1, 2});
  EXPECT_EQ(list(diag(v, 1)), (Doubles{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(list(v.diag(-1)), (Doubles{0, 0, 0, 1, 0, 0, 0, 2, 0}));
  const Tensor m = counted({2, 3});
  EXPECT_EQ(list(diag(m, 1)), (Doubles{1, 5}));
  EXPECT_TRUE(diag(m).impl().is_view);
  EXPECT_EQ(diag(m, 9).shape(), (Shape{0}));
  EXPECT_EQ(list(diag(zeros({0}), 2)), (Doubles{0, 0, 0, 0}));
  expect_derivatives("diag", [](const Tensors& x) { return square(diag(x[0], -1)); }, {leaf({1, 2, -3})});
  EXPECT_EQ(message_of<ShapeError>([] { return diag(zeros({})); }),
            "diag: expected a vector or a matrix, got []; use diagonal");
  EXPECT_THROW((void)diag(v, std::int64_t{1} << 40), ShapeError);
  EXPECT_THROW((void)diag(v, INT64_MIN), ShapeError);
}

TEST(Stacks, TreatVectorsAsPyTorchDoes) {
  const Tensor a = make<double>({1, 2}), b = make<double>({3});
  EXPECT_EQ(list(hstack({a, b})), (Doubles{1, 2, 3}));
  EXPECT_EQ(list(hstack({number(1.0), b})), (Doubles{1, 3}));
  EXPECT_EQ(list(hstack({make<double>({2, 1}, {1, 2}), make<double>({2, 2}, {3, 4, 5, 6})})),
            (Doubles{1, 3, 4, 2, 5, 6}));
  const Tensor rows = vstack({a, counted({2, 2})});
  EXPECT_EQ(rows.shape(), (Shape{3, 2}));
  EXPECT_EQ(list(rows), (Doubles{1, 2, 0, 1, 2, 3}));
  EXPECT_EQ(vstack({number(1.0), number(2.0)}).shape(), (Shape{2, 1}));
  EXPECT_THROW((void)hstack({}), ShapeError);
  EXPECT_THROW((void)vstack({a, b}), ShapeError);
}

TEST(Tile, PutsOnesInFrontOfItsReps) {
  EXPECT_EQ(list(tile(counted({1, 2}), {2})), (Doubles{0, 1, 0, 1}));
  EXPECT_EQ(tile(counted({1, 2}), {2, 1, 2}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(list(counted({2}).tile({})), (Doubles{0, 1}));
  EXPECT_EQ(list(tile(number(3.0), {2})), (Doubles{3, 3}));
  EXPECT_THROW((void)tile(counted({2}), {-1}), ValueError);
}

TEST(Argwhere, IsNonzero) {
  EXPECT_EQ(list(argwhere(make<double>({2, 2}, {0, 3, kNan, 0}))), (Doubles{0, 1, 1, 0}));
}

TEST(Kron, MultipliesDimByDim) {
  EXPECT_EQ(list(kron(make<double>({2, 2}, {1, 2, 3, 4}), make<double>({1, 10}))),
            (Doubles{1, 10, 2, 20, 3, 30, 4, 40}));
  EXPECT_EQ(kron(zeros({0, 2}), ones({2, 2})).shape(), (Shape{0, 4}));
  EXPECT_EQ(list(kron(number(2.0), make<double>({1, 3}))), (Doubles{2, 6}));
  EXPECT_EQ(kron(make<std::uint8_t>({1}), make<float>({2})).dtype(), DType::f32);
  expect_derivatives("kron", [](const Tensors& x) { return kron(x[0], x[1]); },
                     {leaf({2, 1}, {1, 2}), leaf({1, 2, 2}, {3, -1, 0.5, 2})});
  EXPECT_EQ(message_of<ShapeError>([] {
              return kron(zeros({1, 1, 1, 1, 1}), zeros({}));
            }),
            "kron: expected at most 4 dims, got 5; flatten dims that go together");
}

// --- statistics

TEST(Pairs, AreTheirTwoFunctions) {
  const Tensor x = make<double>({2, 3}, {1, 2, 4, -1, 0, 7});
  const auto [variance, mean_of_var] = var_mean(x, 1);
  expect_near(variance, {7.0 / 3, 19}, 1e-15);
  expect_near(mean_of_var, {7.0 / 3, 2}, 1e-15);
  const auto [deviation, mean_of_std] = std_mean(x, 1, {.value = 0}, true);
  expect_near(deviation, {std::sqrt(14.0 / 9), std::sqrt(38.0 / 3)}, 1e-15);
  EXPECT_EQ(mean_of_std.shape(), (Shape{2, 1}));
  const auto [least, largest] = aminmax(x);
  EXPECT_EQ(least.item(), -1);
  EXPECT_EQ(largest.item(), 7);
  EXPECT_EQ(list(aminmax(x, 0).min), (Doubles{-1, 0, 4}));
  EXPECT_EQ(aminmax(x, -1, true).max.shape(), (Shape{2, 1}));
  EXPECT_TRUE(std::isnan(aminmax(make<double>({1, kNan})).min.item()));
  EXPECT_THROW((void)aminmax(zeros({0})), ShapeError);
}

TEST(NanSums, LeaveNanOut) {
  const Tensor x = leaf({2, 3}, {1, kNan, 2, kNan, kNan, kNan});
  expect_near(nansum(x, 1), {3, 0}, 0);
  expect_near(nanmean(x, 1), {1.5, kNan}, 0);
  nansum(x).backward();
  EXPECT_EQ(list(x.grad()), (Doubles{1, 0, 1, 0, 0, 0}));
  x.set_grad({});
  nanmean(x, 1)[0].backward();
  EXPECT_EQ(list(x.grad()), (Doubles{0.5, 0, 0.5, 0, 0, 0}));
  EXPECT_EQ(nansum(make<std::uint8_t>({1, 2})).dtype(), DType::i64);
  EXPECT_EQ(nanmean(make<std::uint8_t>({1, 2}), {}, false, DType::f64).item(), 1.5);
  EXPECT_EQ(nanmean(ones({70000}, DType::f16)).item(), 1);  // neither sum nor count fits into f16
  EXPECT_EQ(message_of<DTypeError>([] { return nanmean(make<std::uint8_t>({1})); }),
            "nanmean: expected a floating tensor, or a floating dtype for the result, got u8; pass dtype = "
            "DType::f32");
}

TEST(GumbelSoftmax, IsSoftmaxOfLogitsAndTheirNoise) {
  Generator a(3), b(3);
  const Tensor logits = leaf({2, 3}, {1, 2, -1, 0.5, 0, 3});
  const Tensor soft = gumbel_softmax(logits, 0.7, false, 1, a);
  const Tensor clocks = exponential_(zeros({2, 3}, DType::f64), 1, b);
  expect_near(soft, list(softmax((logits - log(clocks)) / 0.7, 1)), 1e-14);

  Generator c(3);
  const Tensor hard = gumbel_softmax(logits, 0.7, true, 1, c);
  EXPECT_EQ(list(hard.sum(1)), (Doubles{1, 1}));
  EXPECT_EQ(list(argmax(hard, 1)), list(argmax(soft, 1)));
  const Tensor w = make<double>({2, 3}, {1, -2, 3, 0.5, 2, 1});
  EXPECT_EQ(list(grad((hard * w).sum(), {logits})[0]), list(grad((soft * w).sum(), {logits})[0]));
}

TEST(GumbelSoftmax, DrawsByItsLogits) {
  Generator generator(5);
  const Tensor logits = expand(log(make<float>({0.2F, 0.5F, 0.3F})), {20000, 3});
  const Tensor share = mean(gumbel_softmax(logits, 1, true, -1, generator), 0);
  expect_near(share, {0.2, 0.5, 0.3}, 0, 0.015);  // four deviations
  EXPECT_EQ(gumbel_softmax(ones({3}, DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(list(gumbel_softmax(number(2.0), 1, true, 0)), Doubles{1});
  EXPECT_EQ(message_of<ValueError>([] { return gumbel_softmax(ones({2}), 0); }),
            "gumbel_softmax: expected tau above 0, got 0; 1 is usual");
  EXPECT_THROW((void)gumbel_softmax(make<std::uint8_t>({1})), DTypeError);
}

// --- running extrema

TEST(Cummax, TakesTheLastOfEqualsAndKeepsNan) {
  const Tensor x = make<double>({2, 5}, {1, 3, 3, kNan, 5, 2, 1, 2, 0, -1});
  const auto [largest, at] = cummax(x, 1);
  expect_near(largest, {1, 3, 3, kNan, kNan, 2, 2, 2, 2, 2}, 0);
  EXPECT_EQ(list(at), (Doubles{0, 1, 2, 3, 3, 0, 0, 2, 2, 2}));
  const auto [least, below] = x.cummin(-1);
  expect_near(least, {1, 1, 1, kNan, kNan, 2, 1, 1, 0, -1}, 0);
  EXPECT_EQ(list(below), (Doubles{0, 0, 0, 3, 3, 0, 1, 1, 3, 4}));
  EXPECT_EQ(list(cummax(make<double>({0, -0.0, kNan, kNan, 1}), 0).indices), (Doubles{0, 1, 2, 3, 3}));
  EXPECT_TRUE(std::signbit(list(cummax(make<double>({0, -0.0}), 0).values)[1]));
  EXPECT_EQ(list(cummin(make<double>({kInf, kInf, -kInf}), 0).indices), (Doubles{0, 1, 2}));
}

TEST(Cummax, OfAnyDTypeKeepsIt) {
  const auto [trues, at] = cummax(bools({3}, {1, 0, 1}), 0);
  EXPECT_EQ(trues.dtype(), DType::boolean);
  EXPECT_EQ(list(at), (Doubles{0, 0, 2}));
  const std::int64_t big = INT64_MAX;
  EXPECT_EQ(cummin(make<std::int64_t>({big, big - 1, big}), 0).values.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{big, big - 1, big - 1}));
  EXPECT_EQ(cummax(make<std::int64_t>({INT64_MIN, INT64_MIN}), 0).values.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{INT64_MIN, INT64_MIN}));
  EXPECT_EQ(cummax(ones({2}, DType::bf16), 0).values.dtype(), DType::bf16);
  EXPECT_EQ(list(cummax(number(3.0), 0).indices), Doubles{0});
  EXPECT_EQ(cummax(zeros({0, 3}), 0).indices.shape(), (Shape{0, 3}));
  EXPECT_EQ(cummax(zeros({2, 0}), 1).values.shape(), (Shape{2, 0}));
  EXPECT_THROW((void)cummax(zeros({2}), 1), IndexError);
}

TEST(Cummax, OfLongStridedRowsIsTheLoop) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Tensor x = strided_copy(to(random({9000, 3}, DType::f64, -50, 50), dtype));
    for (const bool least : {false, true}) {
      const auto [values, at] = least ? cummin(x, 0) : cummax(x, 0);
      const Doubles elements = list(x), got = list(values), places = list(at);
      for (std::size_t column = 0; column < 3; ++column) {
        std::size_t best = 0;
        for (std::size_t i = 0; i < 9000; ++i) {
          const double now = elements[3 * i + column], before = elements[3 * best + column];
          if (least ? now <= before : now >= before) best = i;
          ASSERT_EQ(places[3 * i + column], static_cast<double>(best)) << i;
          ASSERT_EQ(got[3 * i + column], elements[3 * best + column]) << i;
        }
      }
    }
  }
}

TEST(Cummax, GradientGoesToTheIndex) {
  const Tensor x = leaf({1, 3, 3, 2, 4});
  const Tensor y = cummax(x, 0).values;
  y.backward(make<double>({1, 10, 100, 1000, 10000}));
  EXPECT_EQ(list(x.grad()), (Doubles{1, 10, 1100, 0, 10000}));
}

// --- places in sorted sequences

TEST(Searchsorted, AgreesWithPyTorch) {
  const Tensor rows = make<std::int64_t>({2, 5}, {1, 3, 5, 7, 9, 2, 4, 6, 8, 10});
  const Tensor values = make<std::int64_t>({2, 3}, {3, 6, 9, 3, 6, 9});
  EXPECT_EQ(list(searchsorted(rows, values)), (Doubles{1, 3, 4, 1, 2, 4}));
  EXPECT_EQ(list(searchsorted(rows, values, true)), (Doubles{2, 3, 5, 1, 3, 4}));
  EXPECT_EQ(list(searchsorted(strided_copy(rows), strided_copy(values))), (Doubles{1, 3, 4, 1, 2, 4}));
  const Tensor x = make<double>({3, kNan, 0, 9, 10}), boundaries = make<double>({1, 3, 3, 9});
  EXPECT_EQ(list(bucketize(x, boundaries)), (Doubles{1, 4, 0, 3, 4}));
  EXPECT_EQ(list(bucketize(x, boundaries, true)), (Doubles{3, 4, 0, 4, 4}));
  EXPECT_EQ(bucketize(x, boundaries).dtype(), DType::i64);
  EXPECT_EQ(bucketize(reshape(x, {5, 1}), boundaries).shape(), (Shape{5, 1}));
}

TEST(Searchsorted, TakesNumbersMixedDTypesAndNothing) {
  const Tensor numbers = make<std::int64_t>({1, 2, 3});
  EXPECT_EQ(searchsorted(numbers, 2.5).item(), 2);
  EXPECT_EQ(searchsorted(numbers, 2, true).item(), 2);
  EXPECT_EQ(bucketize(2, numbers).item(), 1);
  EXPECT_EQ(searchsorted(numbers, 2.5).shape(), Shape{});
  const std::int64_t big = (std::int64_t{1} << 40) + 1;  // beyond f32
  EXPECT_EQ(list(searchsorted(make<std::int64_t>({big - 1, big}), make<float>({0x1p40F}), true)), Doubles{1});
  EXPECT_EQ(list(searchsorted(zeros({2, 0}), ones({2, 3}))), (Doubles{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(searchsorted(zeros({3}), zeros({0, 4})).shape(), (Shape{0, 4}));
  EXPECT_FALSE(searchsorted(zeros({3}), zeros({2}, {.requires_grad = true})).requires_grad());
}

TEST(Searchsorted, IsStdLowerBoundOnManyValues) {
  Doubles sorted = list(random({1000}, DType::f64, -5, 5));
  std::sort(sorted.begin(), sorted.end());
  const Tensor values = cat({random({70000}, DType::f64, -6, 6), make<double>(sorted)});
  const Doubles lower = list(searchsorted(make<double>(sorted), values));
  const Doubles upper = list(searchsorted(make<double>(sorted), values, true));
  const Doubles sought = list(values);
  for (std::size_t i = 0; i < sought.size(); ++i) {
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), sought[i]);
    const auto last = std::upper_bound(sorted.begin(), sorted.end(), sought[i]);
    ASSERT_EQ(lower[i], static_cast<double>(first - sorted.begin())) << i;
    ASSERT_EQ(upper[i], static_cast<double>(last - sorted.begin())) << i;
  }
}

TEST(Searchsorted, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(
      message_of<ShapeError>([] {
        return searchsorted(zeros({2, 3}), zeros({3, 3}));
      }),
      "searchsorted: expected a sequence of one dim, or of the values' dims but for the last, got [2, 3] "
      "for values [3, 3]; give each row of values a sequence");
  EXPECT_THROW((void)searchsorted(zeros({}), zeros({2})), ShapeError);
  EXPECT_THROW((void)searchsorted(zeros({2, 3}), 1.0), ShapeError);
  EXPECT_EQ(message_of<ShapeError>([] {
              return bucketize(zeros({3}), zeros({2, 3}));
            }),
            "bucketize: expected boundaries of one dim, got [2, 3]; use searchsorted");
}

// --- bits

TEST(Bits, OfEveryPairOfDTypesHaveThePromotedOne) {
  for (const DType a : kComputeDTypes) {
    for (const DType b : kComputeDTypes) {
      const Tensor x = to(make<std::int64_t>({0, 1, 1, 0}), a), y = to(make<std::int64_t>({0, 1, 0, 1}), b);
      if (is_floating(a) || is_floating(b)) {
        EXPECT_THROW((void)(x & y), DTypeError);
        continue;
      }
      EXPECT_EQ((x & y).dtype(), promote(a, b));
      EXPECT_EQ(list(x & y), (Doubles{0, 1, 0, 0}));
      EXPECT_EQ(list(x | y), (Doubles{0, 1, 1, 1}));
      EXPECT_EQ(list(x ^ y), (Doubles{0, 0, 1, 1}));
      EXPECT_EQ((x ^ y).dtype(), promote(a, b));
    }
  }
}

TEST(Bits, AreThoseOfC) {
  const std::vector<std::int64_t> a{-1, 12345678901234567, INT64_MIN, 6}, b{255, -987654321, INT64_MAX, 3};
  const Tensor x = make(a), y = make(b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ((x & y).to_vector<std::int64_t>()[i], a[i] & b[i]);
    EXPECT_EQ((x | y).to_vector<std::int64_t>()[i], a[i] | b[i]);
    EXPECT_EQ((x ^ y).to_vector<std::int64_t>()[i], a[i] ^ b[i]);
    EXPECT_EQ((~x).to_vector<std::int64_t>()[i], ~a[i]);
  }
  EXPECT_EQ(list(~make<std::uint8_t>({1, 255})), (Doubles{254, 0}));
  EXPECT_EQ(list(~bools({2}, {1, 0})), (Doubles{0, 1}));
  EXPECT_EQ((~bools({2}, {1, 0})).dtype(), DType::boolean);
  EXPECT_EQ(list(strided_copy(make<std::int64_t>({2, 2}, {1, 2, 3, 4})) & make<std::int64_t>({2})),
            (Doubles{0, 2, 2, 0}));
}

TEST(Bits, TakeNumbersAsAddDoes) {
  const Tensor bytes = make<std::uint8_t>({1, 6});
  EXPECT_EQ(list(bytes & 3), (Doubles{1, 2}));
  EXPECT_EQ(list(8 | bytes), (Doubles{9, 14}));
  EXPECT_EQ(list(bytes ^ true), (Doubles{0, 7}));
  EXPECT_EQ((bytes & 300).dtype(), DType::u8);
  EXPECT_EQ(list(bytes & 300), (Doubles{0, 4}));  // 300 is 44 in u8
  EXPECT_EQ((bools({1}, {1}) & 3).dtype(), DType::i64);
  EXPECT_EQ((bools({1}, {1}) ^ true).dtype(), DType::boolean);
  EXPECT_EQ(message_of<DTypeError>([&] { return bytes & 2.5; }),
            "bitwise_and: expected bools or integers, got f32; convert with to(DType::i64)");
  EXPECT_EQ(message_of<DTypeError>([] { return ~zeros({1}); }),
            "bitwise_not: expected bools or integers, got f32; convert with to(DType::i64)");
  EXPECT_THROW((void)(Tensor() | 1), ValueError);
}

TEST(Bits, AreWrittenInPlaceAndAtPlaces) {
  const Tensor x = make<std::int64_t>({12, 10, 7});
  const Tensor same = x;
  x &= 14;
  x |= make<std::int64_t>({1, 0, 0});
  x ^= true;
  EXPECT_EQ(list(same), (Doubles{12, 11, 7}));
  Tensor grid = make<std::int64_t>({2, 2}, {1, 2, 3, 4});
  grid[gt(grid, 2)] &= 1;
  grid[0] |= make<std::int64_t>({8, 8});
  grid[{1, 0}] ^= 5;
  EXPECT_EQ(list(grid), (Doubles{9, 10, 4, 0}));
  TensorItem row = grid[0];
  row &= 8;
  EXPECT_EQ(list(grid), (Doubles{8, 8, 4, 0}));
  EXPECT_EQ(
      message_of<DTypeError>([] { return bools({1}, {1}) &= 3; }),
      "bitwise_and_: expected a result that bool can hold, got i64; use the op that returns a new tensor");
}

}  // namespace
}  // namespace mezzo
