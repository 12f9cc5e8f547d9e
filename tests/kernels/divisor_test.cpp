// Division by a product and a shift against division.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "mezzo/kernels/cuda/strided.h"
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

/// The offset of an element by 64-bit division.
std::int64_t plain_offset(const Shape& shape, const Dims& strides, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0; index /= shape[d]) offset += index % shape[d] * strides[d];
  return offset;
}

// Kernels walk with FastDivisor below 2^31 elements, and with 64-bit division from there on.
TEST(Space, OffsetsAreThoseOfPlainDivision) {
  std::mt19937_64 random(3);
  const std::int64_t k15 = 1 << 15;
  for (const Shape& shape :
       {Shape{3, 5, 7}, Shape{1, 1000, 3}, Shape{2, 3, 4, 5, 6, 7, 8, 9}, Shape{2 * k15 - 1, k15},
        Shape{2 * k15, k15}, Shape{2, k15, 2 * k15 - 1}, Shape{4 * k15, 3, 4 * k15}}) {
    Dims strides;
    for (std::size_t d = 0; d < shape.size(); ++d)
      strides.push_back(1 + static_cast<std::int64_t>(random() % 97));
    const cuda::Space<1> space(shape, {strides});
    for (int i = 0; i < 1000; ++i) {
      const std::int64_t index =
          i == 0 ? space.total() - 1 : static_cast<std::int64_t>(random() >> 1) % space.total();
      ASSERT_EQ(space.offset(index), plain_offset(shape, strides, index))
          << to_string(shape) << " at " << index;
    }
  }
  EXPECT_EQ(cuda::Space<1>({0, 4}, {Dims{4, 1}}).total(), 0);
}

}  // namespace
}  // namespace mezzo::kernels
