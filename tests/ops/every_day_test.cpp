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
