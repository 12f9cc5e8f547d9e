// The vector loops of rounded quotients against the functors on single elements: operands of all sizes,
// quotients next to integers, and what no vector is computed for: zeros, inf, NaN, quotients of many digits.
#include "mezzo/kernels/pointwise/cpu_quotient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/pointwise/pointwise.h"

namespace mezzo::kernels {
namespace {

template <class T>
View view_of(std::vector<T>& values) {
  return {values.data(), dtype_of<T>, {static_cast<std::int64_t>(values.size())}, {1}};
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b != b;
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// F's loop against F.
template <class F, class T>
void expect_as_the_functor(std::vector<T> a, std::vector<T> b) {
  std::vector<T> got(a.size());
  for (int level = 0; level <= static_cast<int>(cpu::best_isa()); ++level) {
    const cpu::IsaGuard guard(static_cast<cpu::Isa>(level));
    cpu::pointwise<T>(F{}, view_of(got), std::array{view_of(a), view_of(b)});
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_TRUE(same(got[i], F{}(a[i], b[i])))
          << a[i] << " / " << b[i] << " = " << F{}(a[i], b[i]) << ", got " << got[i];
    std::vector<T> in_place = a;
    cpu::pointwise<T>(F{}, view_of(in_place), std::array{view_of(in_place), view_of(b)});
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(same(in_place[i], got[i])) << i;
    for (const T divisor : {b[0], b[1], T(3), T(-7), T(0)}) {
      const Scalar number = std::is_integral_v<T> ? Scalar(static_cast<std::int64_t>(divisor))
                                                  : Scalar(static_cast<double>(divisor));
      cpu::pointwise<T>(scalar::WithRight<F>{number}, view_of(got), std::array{view_of(a)});
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_TRUE(same(got[i], F{}(a[i], divisor))) << a[i] << " / " << divisor << ", got " << got[i];
    }
  }
}

template <class T>
void expect_as_the_functors(const std::vector<T>& a, const std::vector<T>& b) {
  expect_as_the_functor<scalar::DivFloorFn>(a, b);
  expect_as_the_functor<scalar::DivTruncFn>(a, b);
  expect_as_the_functor<scalar::RemainderFn>(a, b);
  expect_as_the_functor<scalar::FmodFn>(a, b);
}

float random_float(std::mt19937_64& random, int lowest, int highest) {
  std::uniform_int_distribution<int> exponent(lowest, highest);
  std::uniform_real_distribution<float> digits(1, 2);
  const float value = std::ldexp(digits(random), exponent(random));
  return random() % 2 == 0 ? value : -value;
}

TEST(Quotient, FloatsNextToIntegersAreRoundedDownExactly) {
  std::mt19937_64 random(1);
  for (const int digits : {1, 4, 12, 20, 23, 24, 26, 27, 28, 30}) {
    std::vector<float> a, b;
    while (a.size() < 5000) {
      const float divisor = random_float(random, -6, 6);
      const auto whole = static_cast<double>(random() % (std::uint64_t{1} << digits));
      const auto product = static_cast<float>(whole * divisor);
      for (const float near :
           {std::nextafter(product, -INFINITY), product, std::nextafter(product, INFINITY)}) {
        a.push_back(random() % 2 == 0 ? near : -near);
        b.push_back(divisor);
      }
    }
    expect_as_the_functors(a, b);
  }
}

TEST(Quotient, FloatsOfEverySizeHaveTheBitsOfTheFunctor) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {
      0.0F, -0.0F, kInf, -kInf, kNan, 0x1p-149F, -0x1p-149F, 0x1.fffffep127F, -0x1.fffffep127F, 1.0F};
  std::mt19937_64 random(2);
  // Blocks with and without such operands, and all pairs of them.
  for (const int every : {0, 3, 200}) {
    for (const auto& [low, high] : {std::pair{-3, 3}, {-149, 127}, {-149, -120}, {100, 127}}) {
      std::vector<float> a, b;
      for (int i = 0; i < 20011; ++i) {
        a.push_back(random_float(random, low, high));
        b.push_back(random_float(random, low, high));
        if (every > 0 && i % every == 0) {
          a.back() = special[random() % 10];
          b.back() = random() % 2 == 0 ? special[random() % 10] : b.back();
        }
      }
      expect_as_the_functors(a, b);
    }
  }
}

TEST(Quotient, IntegersOfEverySizeHaveTheBitsOfTheFunctors) {
  using Limits = std::numeric_limits<std::int64_t>;
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  const std::int64_t special[] = {
      0, 1, -1, 2, kHalf - 1, -kHalf + 1, kHalf, -kHalf, Limits::max(), Limits::min()};
  std::mt19937_64 random(3);
  for (const int every : {0, 3, 200}) {
    for (const int bits : {4, 12, 31, 33, 64}) {
      std::vector<std::int64_t> a, b;
      const auto draw = [&](int digits) {
        const auto value = static_cast<std::int64_t>(random() >> (64 - digits));
        return random() % 2 == 0 ? value : -value;
      };
      for (int i = 0; i < 20011; ++i) {
        a.push_back(draw(bits));
        b.push_back(draw(1 + static_cast<int>(random() % static_cast<unsigned>(bits - 1))));
        if (b.back() == 0) b.back() = 1;
        if (every > 0 && i % every == 0) {
          a.back() = special[random() % 10];
          b.back() = special[random() % 10];
        }
      }
      expect_as_the_functors(a, b);
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
