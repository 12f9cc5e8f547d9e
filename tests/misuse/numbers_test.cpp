// Decided cases of numbers that have no answer: integer division by zero, the smallest integer by -1, indices
// that no dim holds, scales beyond f32, and JSON that nests too deep.
#include <gtest/gtest.h>

#include <limits>

#include "mezzo/tests/support/message_of.h"
#include "misuse/misuse.h"

namespace mezzo::misuse {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

using test::message_of;

TEST(Numbers, AnIntegerDividedByZeroIsZero) {
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8}) {
    const Tensor x = tensor({7, 0, 1}).to(dtype), zero = zeros({3}, {.dtype = dtype});
    for (const RoundingMode mode : {RoundingMode::trunc, RoundingMode::floor}) {
      EXPECT_EQ(div(x, zero, mode).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 0}))
          << to_string(dtype);
      EXPECT_EQ(div(x, 0, mode).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 0}))
          << to_string(dtype);
    }
    EXPECT_TRUE(isinf(div(x, zero)).to_vector<std::int64_t>()[0]) << "a true quotient is f32";
    EXPECT_EQ(remainder(x, zero).to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 0, 1}))
        << to_string(dtype);
  }
}

TEST(Numbers, TheSmallestIntegerDividedByMinusOneWraps) {
  const Tensor smallest = tensor({std::numeric_limits<std::int64_t>::min()}),
               minus = tensor({std::int64_t{-1}});
  for (const RoundingMode mode : {RoundingMode::trunc, RoundingMode::floor})
    EXPECT_EQ(div(smallest, minus, mode).item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(remainder(smallest, minus).item<std::int64_t>(), 0);
}

TEST(Numbers, AreRefusedOnOneLine) {
  EXPECT_EQ(message_of<Error>([] {
              static_cast<void>(one_hot(tensor({kMax})));
            }).find("one_hot: expected indices below 2^60"),
            0U);
  EXPECT_EQ(message_of<Error>([] { amp::GradScaler({.init_scale = 1e300}); }),
            "GradScaler: expected a positive, finite init_scale, got 1e+300; use 65536");
  const std::string deep =
      message_of<Error>([] { static_cast<void>(io::parse_json(std::string(129, '['))); });
  EXPECT_NE(deep.find("at most 128 levels"), std::string::npos) << deep;
  EXPECT_EQ(message_of<Error>([] { static_cast<void>(randperm(kMax)); }).find("randperm: expected"), 0U);
  EXPECT_EQ(message_of<Error>([] { static_cast<void>(chunk(ones({0}), kMax)); }),
            "chunk: expected at most 1048576 chunks of a dim without elements, got 9223372036854775807; ask "
            "for fewer");
}

/// Any number divides no channels; as a count of groups it must still be one that can be multiplied.
TEST(Numbers, GroupsOfNoChannelsAreCounted) {
  const Tensor x = ones({2, 0, 3}), weight = ones({0, 2, 1});
  EXPECT_EQ(message_of<Error>([&] {
              static_cast<void>(conv_transpose1d(x, weight, {}, {.groups = kMax}));
            }).find("conv_transpose1d: expected groups whose channels can be counted, got"),
            0U);
  EXPECT_EQ(message_of<Error>([&] {
              static_cast<void>(group_norm(x, kMax));
            }).find("group_norm: expected fewer than 2^60"),
            0U);
  EXPECT_EQ(message_of<Error>([] {
              static_cast<void>(nn::init::fans({2, 3, 147, kMax}));
            }).find("init: expected fewer than 2^60"),
            0U);
  EXPECT_EQ(message_of<Error>([] {
              static_cast<void>(nn::init::fans({2, 3, -1}));
            }).find("init: expected sizes of at least 0"),
            0U);
}

TEST(Numbers, AMessageIsOneLineWhateverItNames) {
  const ValueError error("op\n1", "a\tb", "\x1b[0m", "fix\r");
  EXPECT_STREQ(error.what(), "op\\n1: expected a\\x09b, got \\x1b[0m; fix\\x0d");
  EXPECT_EQ(error.op(), "op\\n1");
}

}  // namespace
}  // namespace mezzo::misuse
