// Division by a product and a shift against division.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "mezzo/kernels/math/quotient.h"

namespace mezzo::kernels {
namespace {

constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;

/// n / d next to multiples of d, where a quotient is wrong first.
void expect_quotients(std::int64_t d, std::int64_t near) {
  const FastDivisor divide(d);
  const PlainDivisor plain(d);
  const std::int64_t multiple = near / d * d;
  for (const std::int64_t n : {near, multiple, multiple - 1, multiple + d - 1, kMost, std::int64_t{0}}) {
    if (n < 0 || n > kMost) continue;
    ASSERT_EQ(divide(static_cast<std::int32_t>(n)), n / d) << n << " / " << d;
    ASSERT_EQ(plain(n), n / d);
  }
}

TEST(Divisor, EveryNumberBelowTwoThousand) {
  std::mt19937_64 random(1);
  for (std::int64_t d = 1; d < 2000; ++d) {
    for (int i = 0; i < 50; ++i) expect_quotients(d, static_cast<std::int64_t>(random() >> (33 + i % 31)));
  }
}

TEST(Divisor, NumbersOfEverySize) {
  std::mt19937_64 random(2);
  for (int digits = 1; digits <= 31; ++digits) {
    for (const std::int64_t d : {(std::int64_t{1} << digits) - 1, std::int64_t{1} << (digits - 1),
                                 (std::int64_t{1} << (digits - 1)) + 1}) {
      if (d > kMost) continue;
      for (int i = 0; i < 2000; ++i) expect_quotients(d, static_cast<std::int64_t>(random() >> 33));
    }
    for (int i = 0; i < 2000; ++i) {
      const auto d = static_cast<std::int64_t>(random() >> (64 - digits));
      expect_quotients(d == 0 ? 1 : d, static_cast<std::int64_t>(random() >> 33));
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
