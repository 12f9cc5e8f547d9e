// Reductions as ops: shapes, dtypes and values against plain loops, derivatives against differences, the
// conventions at ties and zeros, and what is refused. Every layout and the loops' bits are in
// tests/kernels/reduce_test.cpp.
#include "mezzo/ops/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;
using Doubles = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What f makes of the elements of each output, for x of 3 dims.
Doubles by_loop(const Tensor& x, const std::vector<int>& dims,
                const std::function<double(const Doubles&)>& f) {
  const Doubles values = list(x);
  const std::int64_t sizes[3] = {x.size(0), x.size(1), x.size(2)};
  std::int64_t strides[3] = {0, 0, 0}, outputs = 1;
  for (int d = 2; d >= 0; --d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    strides[d] = outputs;
    outputs *= sizes[d];
  }
  std::vector<Doubles> groups(static_cast<std::size_t>(outputs));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t at = i / (sizes[1] * sizes[2]) * strides[0] + i / sizes[2] % sizes[1] * strides[1] +
                            i % sizes[2] * strides[2];
    groups[static_cast<std::size_t>(at)].push_back(values[static_cast<std::size_t>(i)]);
  }
  Doubles result;
  for (const Doubles& group : groups) result.push_back(f(group));
  return result;
}

double total(const Doubles& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}
double variance(const Doubles& x, double correction) {
  const double mean = total(x) / static_cast<double>(x.size());
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return squares / (static_cast<double>(x.size()) - correction);
}
double p_norm(const Doubles& x, double p) {
  double sum = 0, most = 0, least = kInf;
  for (const double value : x) {
    sum += p == 0 ? (value != 0 ? 1 : 0) : std::pow(std::abs(value), p);
    most = std::max(most, std::abs(value));
    least = std::min(least, std::abs(value));
  }
  return p == kInf ? most : p == -kInf ? least : p == 0 ? sum : std::pow(sum, 1 / p);
}

void expect_near(const Tensor& got, const Doubles& want, double tolerance) {
  const Doubles values = list(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
}

Tensor sample(DType dtype = DType::f64) { return make<double>({3, 4, 5}, spread(60, -2, 2)).to(dtype); }

Tensors gradients(const Tensor& y, const Tensor& x, const Doubles& weights) {
  const Tensor w = make<double>(y.shape(), weights);
  return grad({&y, 1}, {&x, 1}, {&w, 1});
}

TEST(Reduction, ValuesMatchALoopForEverySetOfDims) {
  const std::vector<std::vector<int>> sets{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const Tensor& x : {sample(), strided_copy(sample())}) {
    for (const std::vector<int>& set : sets) {
      Dims dims;
      for (const int d : set) dims.push_back(d - 3);  // counted from the end
      const auto loop = [&](const std::function<double(const Doubles&)>& f) { return by_loop(x, set, f); };
      expect_near(sum(x, dims), loop(total), 1e-14);
      expect_near(mean(x, dims),
                  loop([](const Doubles& g) { return total(g) / static_cast<double>(g.size()); }), 1e-14);
      EXPECT_EQ(list(amax(x, dims)),
                loop([](const Doubles& g) { return *std::max_element(g.begin(), g.end()); }));
      EXPECT_EQ(list(amin(x, dims)),
                loop([](const Doubles& g) { return *std::min_element(g.begin(), g.end()); }));
      expect_near(var(x, dims), loop([](const Doubles& g) { return variance(g, 1); }), 1e-13);
      expect_near(var(x, dims, false), loop([](const Doubles& g) { return variance(g, 0); }), 1e-13);
      expect_near(mezzo::std(x, dims), loop([](const Doubles& g) { return std::sqrt(variance(g, 1)); }),
                  1e-13);
      for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0, kInf, -kInf})
        expect_near(norm(x, p, dims), loop([p](const Doubles& g) { return p_norm(g, p); }), 1e-13);
    }
  }
}

TEST(Reduction, ShapesFollowDimAndKeepdim) {
  const Tensor x = sample();
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(sum(x, -1).shape(), (Shape{3, 4}));
  EXPECT_EQ(sum(x, {2, 0}).shape(), (Shape{4}));
  EXPECT_EQ(mean(x, {0, -1}, true).shape(), (Shape{1, 4, 1}));
  EXPECT_EQ(max(x, 1).values.shape(), (Shape{3, 5}));
  EXPECT_EQ(max(x, 1, true).indices.shape(), (Shape{3, 1, 5}));
  EXPECT_EQ(argmax(x).shape(), Shape{});
  EXPECT_EQ(argmax(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(norm(x, 2, 0).shape(), (Shape{4, 5}));
  const Tensor one = number(3.0);
  EXPECT_EQ(list(sum(one, 0)), Doubles{3});
  EXPECT_EQ(list(max(one, -1).indices), Doubles{0});
}

TEST(Reduction, ResultDtypes) {
  const Tensor ints = make<std::int32_t>({3, -4, 5}), truths = bools({3}, {1, 0, 1});
  EXPECT_EQ(sum(ints).dtype(), DType::i64);
  EXPECT_EQ(sum(ints).item<std::int64_t>(), 4);
  EXPECT_EQ(sum(truths).dtype(), DType::i64);
  EXPECT_EQ(sum(truths).item<std::int64_t>(), 2);
  EXPECT_EQ(sum(ints, {}, false, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(mean(ints, {}, false, DType::f64).item(), 4.0 / 3);
  EXPECT_EQ(amax(ints).dtype(), DType::i32);
  EXPECT_EQ(max(truths).dtype(), DType::boolean);
  EXPECT_EQ(argmin(ints).dtype(), DType::i64);
  EXPECT_EQ(argmin(ints).item<std::int64_t>(), 1);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = sample(dtype);
    for (const Tensor& y : {sum(x), mean(x), amax(x), max(x, 0).values, var(x), mezzo::std(x), norm(x)})
      EXPECT_EQ(y.dtype(), dtype);
  }
  EXPECT_EQ(norm(sample(DType::f16), 2, {}, false, DType::f32).dtype(), DType::f32);
}

TEST(Reduction, SixteenBitResultsAreRoundedOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = sample(dtype), wide = x.to(DType::f64);
    const auto rounded = [&](const Tensor& y) { return list(y.to(dtype)); };
    EXPECT_EQ(list(sum(x, 1)), rounded(sum(wide, 1)));
    EXPECT_EQ(list(mean(x, {0, 2})), rounded(mean(wide, {0, 2})));
    EXPECT_EQ(list(var(x, 0)), rounded(var(wide, 0)));
    EXPECT_EQ(list(norm(x, 2, -1)), rounded(norm(wide, 2, -1)));
    EXPECT_EQ(list(sum(x, 1, false, DType::f32)), list(sum(x.to(DType::f32), 1)));
  }
}

TEST(Reduction, NormsAndVariancesDoNotOverflowWithin) {
  const Tensor x = make<float>({3e30F, -4e30F});
  EXPECT_FLOAT_EQ(norm(x).item<float>(), 5e30F);
  EXPECT_FLOAT_EQ(norm(make<float>({3e-30F, -4e-30F})).item<float>(), 5e-30F);
  EXPECT_EQ(mezzo::std(make<float>({0x1p100F, 0x3p100F}), {}, false).item<float>(), 0x1p100F);
  const Tensor many = full({70000}, 1, {.dtype = DType::f16});
  EXPECT_EQ(mean(many).item(), 1);
  EXPECT_EQ(sum(many).item(), kInf);  // more than f16 holds
}

TEST(Reduction, CorrectionIsTakenOffTheCount) {
  const Tensor x = make<double>({3}, {1, 2, 6});  // squared deviations add up to 14
  EXPECT_EQ(list(var(x, {}, Correction{0})), Doubles{14.0 / 3});
  EXPECT_EQ(list(mezzo::std(x, {0}, Correction{2})), Doubles{std::sqrt(14.0)});
  EXPECT_EQ(var(x, {0}, Correction{1}, true).shape(), Shape{1});
  EXPECT_THROW((void)var(x, {}, Correction{INT64_MIN}), ValueError);
  EXPECT_EQ(list(var(x, {0}, Correction{1})), list(var(x)));
  for (const std::int64_t all : {3, 5}) EXPECT_EQ(list(var(x, {}, Correction{all})), Doubles{kInf});
}

TEST(Reduction, PairsHaveALargerAndASmaller) {
  const Tensor a = make<double>({2}, {1, 5}), b = make<double>({2}, {3, 4});
  EXPECT_EQ(list(max(a, b)), (Doubles{3, 5}));
  EXPECT_EQ(list(min(a, b)), (Doubles{1, 4}));
}

TEST(Reduction, AnyAndAllCountNanAndIgnoreZero) {
  const Tensor x = make<double>({3, 2}, {0, 0, 0, kNan, 1, -2});
  EXPECT_EQ(list(any(x, 1)), (Doubles{0, 1, 1}));
  EXPECT_EQ(list(all(x, 1)), (Doubles{0, 0, 1}));
  EXPECT_EQ(any(x).dtype(), DType::boolean);
  EXPECT_TRUE(any(x).item<bool>());
  EXPECT_FALSE(all(x, {}, true).item<bool>());
  EXPECT_TRUE(any(make<double>({1e-300})).item<bool>());
  EXPECT_FALSE(any(zeros({0})).item<bool>());
  EXPECT_TRUE(all(zeros({0})).item<bool>());
}

TEST(Reduction, NothingToReduceGivesTheNeutralValueOrIsRefused) {
  const Tensor x = zeros({0, 3});
  EXPECT_EQ(sum(x).item(), 0);
  EXPECT_EQ(list(sum(x, 0)), (Doubles{0, 0, 0}));
  EXPECT_EQ(sum(x, 1).shape(), Shape{0});
  EXPECT_TRUE(std::isnan(mean(x).item()));
  EXPECT_TRUE(std::isnan(var(x).item()));
  EXPECT_TRUE(std::isnan(var(make<double>({2.0})).item()));
  EXPECT_EQ(var(make<double>({2.0}), {}, false).item(), 0);
  EXPECT_EQ(norm(x).item(), 0);
  EXPECT_THROW(static_cast<void>(amax(x)), ShapeError);
  EXPECT_THROW(static_cast<void>(amin(x, 0)), ShapeError);
  EXPECT_THROW(static_cast<void>(max(x)), ShapeError);
  EXPECT_THROW(static_cast<void>(min(x, 0)), ShapeError);
  EXPECT_THROW(static_cast<void>(argmax(x)), ShapeError);
  EXPECT_THROW(static_cast<void>(norm(x, kInf)), ShapeError);
  EXPECT_EQ(amax(x, 1).shape(), Shape{0});
}

TEST(Reduction, NanWinsAndEqualValuesGiveTheFirstIndex) {
  const Tensor x = make<double>({2, 4}, {1, 3, 3, 0, 2, kNan, 5, kNan});
  EXPECT_EQ(list(argmax(x, 1)), (Doubles{1, 1}));
  EXPECT_EQ(list(argmin(x, 1)), (Doubles{3, 1}));
  EXPECT_EQ(argmax(x).item(), 5);
  EXPECT_TRUE(std::isnan(max(x).item()));
  EXPECT_TRUE(std::isnan(list(amin(x, 1))[1]));
  EXPECT_TRUE(std::isnan(list(min(x, -1).values)[1]));
  EXPECT_TRUE(std::isnan(norm(x, kInf).item()));
}

TEST(Reduction, BadArgumentsAreRefusedByName) {
  const Tensor x = sample(), ints = make<std::int32_t>({1, 2});
  EXPECT_EQ(message_of<IndexError>([&] { static_cast<void>(sum(x, 3)); }),
            "sum: expected a dim in [-3, 2], got 3; the tensor has 3 dims");
  EXPECT_THROW(static_cast<void>(mean(x, {0, -3})), IndexError);
  EXPECT_THROW(static_cast<void>(argmin(x, -4)), IndexError);
  EXPECT_EQ(message_of<DTypeError>([&] { static_cast<void>(mean(ints)); }),
            "mean: expected a floating tensor, or a floating dtype for the result, got i32; pass dtype = "
            "DType::f32");
  EXPECT_THROW(static_cast<void>(var(ints)), DTypeError);
  EXPECT_THROW(static_cast<void>(norm(ints)), DTypeError);
  EXPECT_THROW(static_cast<void>(norm(x, 2, {}, false, DType::i64)), DTypeError);
  EXPECT_THROW(static_cast<void>(norm(x, kNan)), ValueError);
  EXPECT_THROW(static_cast<void>(sum_to(x, {2, 5})), ShapeError);
}

TEST(SumTo, UndoesBroadcasting) {
  const Tensor x = sample();
  EXPECT_TRUE(sum_to(x, x.shape()).is_same(x));
  EXPECT_EQ(list(sum_to(x, {4, 1})), list(sum(x, {0, 2})));
  EXPECT_EQ(list(sum_to(x, {})), list(sum(x)));
  EXPECT_EQ(list(sum_to(x, {3, 1, 1})), list(sum(x, {1, 2})));
  EXPECT_EQ(sum_to(sample(DType::f16), {5}).dtype(), DType::f16);
  expect_derivatives("sum_to",
                     [](const Tensors& in) {
                       return sum_to(in[0] * in[0], {4, 1});
                     },
                     {leaf({2, 4, 3}, spread(24, -1, 1))});
}

TEST(ReductionGradients, MatchDifferencesForEveryOp) {
  const std::vector<ReducedDims> sets{{}, 1, {0, 2}, {-1}};
  for (const bool keepdim : {false, true}) {
    for (const ReducedDims& dims : sets) {
      const auto check = [&](const std::string& name, const Function& f, bool second = true) {
        expect_derivatives(name + " over " + to_string(dims), f, {leaf({2, 3, 4}, spread(24, -2, 2))},
                           second);
      };
      check("sum", [&](const Tensors& in) { return sum(in[0] * in[0], dims, keepdim); });
      check("mean", [&](const Tensors& in) { return mean(in[0] * in[0], dims, keepdim); });
      check("amax", [&](const Tensors& in) { return amax(in[0] * in[0], dims, keepdim); });
      check("amin", [&](const Tensors& in) { return amin(in[0] * in[0], dims, keepdim); });
      check("var", [&](const Tensors& in) { return var(in[0], dims, true, keepdim); });
      check("std", [&](const Tensors& in) { return mezzo::std(in[0], dims, false, keepdim); });
      for (const double p : {0.7, 1.0, 1.5, 2.0, 3.0, kInf, -kInf, -1.0}) {
        check("norm " + std::to_string(p),
              [&](const Tensors& in) { return norm(in[0] * in[0] * in[0] - 0.5, p, dims, keepdim); });
      }
    }
    for (const std::int64_t dim : {0, 1, -1}) {
      expect_derivatives("max", [&](const Tensors& in) { return max(in[0] * in[0], dim, keepdim).values; },
                         {leaf({2, 3, 4}, spread(24, -2, 2))});
      expect_derivatives("min", [&](const Tensors& in) { return min(in[0] * in[0], dim, keepdim).values; },
                         {leaf({2, 3, 4}, spread(24, -2, 2))});
    }
  }
}

TEST(ReductionGradients, EqualExtremaShareOrTheFirstTakesAll) {
  const Tensor x = leaf({2, 3}, {5, 1, 5, 2, 2, 2});
  EXPECT_EQ(list(gradients(amax(x, 1), x, {1, 6})[0]), (Doubles{0.5, 0, 0.5, 2, 2, 2}));
  EXPECT_EQ(list(gradients(amin(x), x, {3})[0]), (Doubles{0, 3, 0, 0, 0, 0}));
  EXPECT_EQ(list(gradients(max(x), x, {4})[0]), (Doubles{2, 0, 2, 0, 0, 0}));
  EXPECT_EQ(list(gradients(max(x, 1).values, x, {1, 6})[0]), (Doubles{1, 0, 0, 6, 0, 0}));
  EXPECT_EQ(list(gradients(norm(x, kInf), x, {4})[0]), (Doubles{2, 0, 2, 0, 0, 0}));
  const Tensor y = leaf({-3, 3, 1});
  EXPECT_EQ(list(gradients(norm(y, kInf), y, {1})[0]), (Doubles{-0.5, 0.5, 0}));
}

TEST(ReductionGradients, AreZeroAtTheZerosOfNormAndDeviation) {
  const Tensor zero = leaf({0, 0});
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf, -kInf})
    EXPECT_EQ(list(gradients(norm(zero, p), zero, {1})[0]), (Doubles{0, 0})) << p;
  const Tensor x = leaf({3, 0, -4});
  EXPECT_EQ(list(gradients(norm(x, 1), x, {2})[0]), (Doubles{2, 0, -2}));
  EXPECT_EQ(list(gradients(norm(x, 0), x, {2})[0]), (Doubles{0, 0, 0}));
  expect_near(gradients(norm(x, 3), x, {1})[0], {9 / std::pow(91, 2.0 / 3), 0, -16 / std::pow(91, 2.0 / 3)},
              1e-14);
  const Tensor same = leaf({2, 2, 2});
  EXPECT_EQ(list(gradients(mezzo::std(same), same, {1})[0]), (Doubles{0, 0, 0}));
}

TEST(ReductionGradients, ReturnInTheDtypeOfTheInput) {
  const Tensor x = sample(DType::f16).requires_grad_();
  for (const Tensor& y : {sum(x), mean(x), amax(x), var(x), mezzo::std(x), norm(x), norm(x, 3),
                          sum(x, {}, false, DType::f32), mean(x, {}, false, DType::f64)}) {
    const Tensor gradient = grad(y, {x})[0];
    EXPECT_EQ(gradient.dtype(), DType::f16);
    EXPECT_EQ(gradient.shape(), x.shape());
  }
  // 1 / n would be subnormal in f16, where the gradient is scaled up afterwards.
  const Tensor wide = full({100000}, 1, {.requires_grad = true});
  const Tensor share = grad(mean(wide.to(DType::f16)), {wide})[0];
  EXPECT_FLOAT_EQ(share.to_vector<float>()[0], 1e-5F);
}

}  // namespace
}  // namespace mezzo
