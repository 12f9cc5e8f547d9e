// softmax and log_softmax against their formulas in double, with their first and second derivatives, the
// layouts, dtypes and special values they promise to take, and the messages they refuse with.
#include "mezzo/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/tests/ops/loss_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

/// f(row) for every row of row-major `values` along `dim`, in place.
void each_row(Doubles& values, const Shape& shape, std::size_t dim, const std::function<void(Doubles&)>& f) {
  const Dims strides = layout::contiguous_strides(shape);
  const auto n = static_cast<std::size_t>(shape[dim]);
  const auto step = static_cast<std::size_t>(strides[dim]);
  for (std::size_t first = 0; first < values.size(); ++first) {
    if (first / step % n != 0) continue;
    Doubles row(n);
    for (std::size_t i = 0; i < n; ++i) row[i] = values[first + i * step];
    f(row);
    for (std::size_t i = 0; i < n; ++i) values[first + i * step] = row[i];
  }
}

/// The formula, in double.
Doubles expected(const Tensor& x, std::size_t dim, bool log) {
  Doubles values = list(x);
  each_row(values, x.shape(), dim, [log](Doubles& row) {
    double max = -kInf, sum = 0;
    for (const double v : row) max = std::max(max, v);
    for (const double v : row) sum += std::exp(v - max);
    for (double& v : row) v = log ? v - max - std::log(sum) : std::exp(v - max) / sum;
  });
  return values;
}

TEST(Softmax, MatchesTheFormulaAlongEveryDim) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double eps = info(dtype).eps;
    const Tensor x = random({3, 19, 5}, dtype);
    for (std::int64_t dim = -3; dim < 3; ++dim) {
      const auto axis = static_cast<std::size_t>(dim < 0 ? dim + 3 : dim);
      expect_near(softmax(x, dim), expected(x, axis, false), 12 * eps, 0);
      expect_near(log_softmax(x, dim), expected(x, axis, true), 4 * eps, 4 * eps);
    }
  }
}

TEST(Softmax, MatchesTheFormulaForEveryShortAndSomeLongRows) {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1023, 1025, 4097, 20000}) {
    const Tensor x = random({3, n}, DType::f32, -6, 6);
    expect_near(softmax(x, 1), expected(x, 1, false), 2e-6, 0);
    expect_near(log_softmax(x, 1), expected(x, 1, true), 5e-7, 1e-6);
  }
}

TEST(Softmax, SumsAMillionTermsWithoutDrift) {
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<float> values(kCount, -0.1F);
  values[0] = 0;
  const Tensor y = softmax(make<float>(values), 0);
  const double sum = 1 + static_cast<double>(kCount - 1) * std::exp(static_cast<double>(-0.1F));
  EXPECT_NEAR(y.data<float>()[0] * sum, 1, 64 * 0x1p-24);
  EXPECT_NEAR(y.data<float>()[kCount - 1] * sum, std::exp(-0.1), 64 * 0x1p-24);
}

TEST(Softmax, OfEqualElementsIsExactlyTheirShare) {
  const Tensor y = softmax(make<float>({7.5F, 7.5F, 7.5F}), 0);
  for (const float share : y.data<float>()) EXPECT_EQ(share, 1.0F / 3.0F);
}

TEST(Softmax, GivesTheSameBitsForEveryLayout) {
  for (const Shape& shape : {Shape{4, 33}, Shape{33, 64}, Shape{2, 21, 40}, Shape{70, 1030}}) {
    const Tensor x = random(shape, DType::f32);
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const auto d = static_cast<std::int64_t>(dim);
      EXPECT_TRUE(same_bits(softmax(x, d), softmax(strided_copy(x), d))) << to_string(shape) << " dim " << d;
      EXPECT_TRUE(same_bits(log_softmax(x, d), log_softmax(strided_copy(x), d))) << to_string(shape);
      const Tensor grad = random(shape, DType::f32, -1, 1);
      const Tensor y = softmax(x, d);
      EXPECT_TRUE(
          same_bits(softmax_backward(grad, y, d), softmax_backward(strided_copy(grad), strided_copy(y), d)));
      EXPECT_TRUE(
          same_bits(log_softmax_backward(grad, y, d), log_softmax_backward(grad, strided_copy(y), d)));
    }
  }
}

TEST(Softmax, GivesTheSameBitsOnEveryInstructionSetAndThreadCount) {
  using kernels::cpu::Isa;
  const Tensor x = random({2570, 83}, DType::f32);
  const Tensor grad = random({2570, 83}, DType::f32, -1, 1);
  const Tensor y = softmax(x, 1), log_y = log_softmax(x, 1);
  const Tensor dx = softmax_backward(grad, y, 1), log_dx = log_softmax_backward(grad, log_y, 1);
  const auto expect_same = [&](const char* what) {
    EXPECT_TRUE(same_bits(softmax(x, 1), y)) << what;
    EXPECT_TRUE(same_bits(log_softmax(x, 1), log_y)) << what;
    EXPECT_TRUE(same_bits(softmax_backward(grad, y, 1), dx)) << what;
    EXPECT_TRUE(same_bits(log_softmax_backward(grad, log_y, 1), log_dx)) << what;
  };
  for (const Isa isa : {Isa::base, Isa::v3}) {
    if (isa > kernels::cpu::best_isa()) continue;
    const kernels::cpu::IsaGuard guard(isa);
    expect_same("instruction set");
  }
  for (const int threads : {1, 2, 5}) {
    const test::ThreadGuard guard(threads);
    expect_same("threads");
  }
}

TEST(Softmax, StaysFiniteAtLogitsOfTenThousand) {
  const Tensor x = make<float>({2, 3}, {1e4F, -1e4F, 1e4F, 1e4F, 9999.0F, -1e4F});
  expect_near(softmax(x, 1), expected(x, 1, false), 1e-6, 0);
  expect_near(log_softmax(x, 1), expected(x, 1, true), 1e-6, 0);
}

TEST(Softmax, SpecialValuesFollowPyTorch) {
  const Tensor x = make<double>({5, 2}, {0, -kInf, -kInf, -kInf, 0, kInf, kNan, 0, kInf, -kInf});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    expect_near(softmax(to(x, dtype), 1), {1, 0, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan}, 0, 0);
    const Doubles log_y = list(log_softmax(to(x, dtype), 1));
    EXPECT_EQ(log_y[0], 0);
    EXPECT_EQ(log_y[1], -kInf);
    for (std::size_t i = 2; i < log_y.size(); ++i) EXPECT_TRUE(std::isnan(log_y[i])) << i;
  }
}

TEST(Softmax, TakesEmptyAndZeroDimTensors) {
  EXPECT_EQ(softmax(zeros({0, 4}), 1).shape(), (Shape{0, 4}));
  EXPECT_EQ(log_softmax(zeros({4, 0}), 1).shape(), (Shape{4, 0}));
  EXPECT_EQ(softmax(number(3.0F), -1).item(), 1);
  EXPECT_EQ(log_softmax(number(3.0F), 0).item(), 0);
  EXPECT_EQ(softmax_backward(number(2.0F), number(1.0F), 0).item(), 0);
}

TEST(Softmax, RoundsSixteenBitResultsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Shape& shape : {Shape{5, 37}, Shape{2, 5000}}) {
      const Tensor x = random(shape, dtype);
      const Tensor wide = to(x, DType::f32);
      const Tensor grad = random(shape, dtype, -1, 1);
      for (const std::int64_t dim : {0, 1}) {
        EXPECT_TRUE(same_bits(softmax(x, dim), to(softmax(wide, dim), dtype)));
        EXPECT_TRUE(same_bits(log_softmax(x, dim), to(log_softmax(wide, dim), dtype)));
        EXPECT_TRUE(same_bits(softmax(x, dim, DType::f32), softmax(wide, dim)));
        const Tensor y = softmax(x, dim);
        EXPECT_TRUE(same_bits(softmax_backward(grad, y, dim),
                              to(softmax_backward(to(grad, DType::f32), to(y, DType::f32), dim), dtype)));
      }
    }
  }
}

TEST(Softmax, ComputesInTheDtypeAskedFor) {
  const Tensor x = random({3, 5}, DType::f32);
  EXPECT_TRUE(same_bits(softmax(x, 1, DType::f64), softmax(to(x, DType::f64), 1)));
  EXPECT_TRUE(same_bits(log_softmax(to(x, DType::f64), 1, DType::f32), log_softmax(x, 1)));
}

TEST(Softmax, DerivativesMatchDifferences) {
  for (const std::int64_t dim : {0, 1, -1}) {
    const Tensors x{leaf({3, 4, 2}, spread(24, -2, 2))};
    expect_derivatives(
        "softmax", [dim](const Tensors& in) { return softmax(in[0], dim); }, x);
    expect_derivatives(
        "log_softmax", [dim](const Tensors& in) { return log_softmax(in[0], dim); }, x);
  }
  const Tensors both{leaf({3, 5}, spread(15, -2, 2)), leaf({3, 5}, spread(15, -1, 1, 2))};
  expect_derivatives(
      "softmax_backward", [](const Tensors& in) { return softmax_backward(in[0], in[1], 1); }, both);
  expect_derivatives(
      "log_softmax_backward", [](const Tensors& in) { return log_softmax_backward(in[0], in[1], 1); }, both);
}

TEST(Softmax, GradientOfAShiftedMaskedRowIsZeroWhereTheMaskIs) {
  const Tensor x = make<double>({1, 3}, {0.5, -kInf, 1.5}).requires_grad_();
  const Tensor w = make<double>({1, 3}, {1, 2, 3});
  const Tensor y = softmax(x, 1);
  const Doubles g = list(grad({&y, 1}, {&x, 1}, {&w, 1})[0]);
  const double p = 1 / (1 + std::exp(1.0));
  EXPECT_NEAR(g[0], -2 * p * (1 - p), 1e-15);
  EXPECT_EQ(g[1], 0);
  EXPECT_NEAR(g[2], 2 * p * (1 - p), 1e-15);
}

TEST(Softmax, UnderAutocastEqualsCastThenRunBitForBit) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensors x{random({4, 21}, DType::f64)};
    expect_autocast_equals_casts([](const Tensors& in) { return softmax(in[0], 1); }, x, dtype);
    expect_autocast_equals_casts([](const Tensors& in) { return log_softmax(in[0], 0); }, x, dtype);
  }
}

TEST(Softmax, GradientOfAnF32ParameterBehindACastIsNotRoundedToSixteenBits) {
  const Tensor x = random({3, 5}, DType::f32).requires_grad_();
  const Tensor w = random({3, 5}, DType::f16, -1, 1, 1);
  for (const bool log : {false, true}) {
    const Tensor low = to(x, DType::f16);
    const Tensor y = log ? log_softmax(low, 1) : softmax(low, 1);
    const Tensor got = grad({&y, 1}, Tensors{x}, {&w, 1})[0];
    const Tensor g = to(w, DType::f32), out = to(y.detach(), DType::f32);
    EXPECT_TRUE(same_bits(got, log ? log_softmax_backward(g, out, 1) : softmax_backward(g, out, 1)));
  }
}

TEST(Softmax, UnderAutocastRespectsAGivenDtype) {
  const amp::Autocast autocast(Device::cpu(), DType::f16);
  EXPECT_EQ(softmax(random({2, 3}, DType::f16), 1, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(softmax(random({2, 3}, DType::f64), 1).dtype(), DType::f64);
}

TEST(Softmax, TakesIntegersAndBoolWhereADtypeIsGiven) {
  const Tensor counts = mezzo::tensor({3, 1, 2}, {.dtype = DType::i32}), real = counts.to(DType::f64);
  const Tensor flags = mezzo::tensor({1, 0, 1}, {.dtype = DType::boolean});
  EXPECT_TRUE(same_bits(softmax(counts, 0, DType::f64), softmax(real, 0)));
  EXPECT_TRUE(same_bits(log_softmax(counts, 0, DType::bf16), log_softmax(real, 0, DType::bf16)));
  EXPECT_TRUE(same_bits(softmin(counts, 0, DType::f64), softmin(real, 0)));
  EXPECT_TRUE(same_bits(softmax(flags, 0, DType::f32), softmax(flags.to(DType::f32), 0)));
}

TEST(Softmax, RefusesWhatItCannotTake) {
  EXPECT_EQ(message_of<IndexError>([] {
              (void)softmax(zeros({2, 3}), 2);
            }),
            "softmax: expected a dim in [-2, 1], got 2; the tensor has 2 dims");
  EXPECT_EQ(message_of<DTypeError>([] { (void)log_softmax(zeros({2}, {.dtype = DType::i64}), 0); }),
            "log_softmax: expected a floating tensor, got i64; convert it with to(DType::f32)");
  EXPECT_EQ(message_of<DTypeError>([] { (void)softmax(zeros({2}), 0, DType::i32); }),
            "softmax: expected a floating dtype, got i32; use f32 or another");
  EXPECT_EQ(message_of<ShapeError>([] { (void)softmax_backward(zeros({2}), zeros({3}), 0); }),
            "softmax_backward: expected grad and output of one shape, got [2] and [3]; pass the gradient of "
            "that output");
}

}  // namespace
}  // namespace mezzo
