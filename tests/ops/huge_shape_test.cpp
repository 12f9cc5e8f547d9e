// Shapes whose product does not fit: refused by every function that takes one or makes one of sound inputs.
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

constexpr std::int64_t k40 = std::int64_t{1} << 40, k59 = std::int64_t{1} << 59;

TEST(HugeShape, IsRefusedWhereAShapeIsGiven) {
  const Tensor none = zeros({0}), one = ones({1});
  for (const Shape& shape : {Shape{k40, k40}, Shape{k40, k40, 0}, Shape{INT64_MAX, 2}, Shape{k59, 2}}) {
    SCOPED_TRACE(to_string(shape));
    EXPECT_THROW((void)empty(shape), ShapeError);
    EXPECT_THROW((void)zeros(shape), ShapeError);
    EXPECT_THROW((void)full(shape, 1), ShapeError);
    EXPECT_THROW((void)rand(shape), ShapeError);
    EXPECT_THROW((void)reshape(none, shape), ShapeError);
    EXPECT_THROW((void)view(none, shape), ShapeError);
    EXPECT_THROW((void)expand(one, shape), ShapeError);
    EXPECT_THROW((void)repeat(one, shape), ShapeError);
    EXPECT_THROW((void)sum_to(one, shape), ShapeError);
    EXPECT_THROW((void)from_data(std::span<const float>(), shape), ShapeError);  // 2^80 is 0 modulo 2^64
  }
  EXPECT_THROW((void)arange(INT64_MIN, INT64_MAX), ShapeError);
  EXPECT_THROW((void)eye(k40, k40), ShapeError);
}

TEST(HugeShape, IsRefusedWhereSoundInputsMakeIt) {
  const Tensor column = expand(ones({1, 1}), {k40, 1}), row = expand(ones({1, 1}), {1, k40});
  const Tensor half = expand(ones({1}), {k59});
  EXPECT_EQ(half.numel(), k59);
  EXPECT_THROW((void)(column + row), ShapeError);
  EXPECT_THROW((void)matmul(column, row), ShapeError);
  EXPECT_THROW((void)outer(half, half), ShapeError);
  const std::vector<Tensor> many(32, half);  // 2^64 elements: 0 modulo 2^64
  EXPECT_THROW((void)cat(many, 0), ShapeError);
  EXPECT_THROW((void)stack({half, half}, 0), ShapeError);
}

TEST(HugeShape, WithoutElementsIsFineWhileItsOtherSizesFit) {
  const Tensor x = zeros({k40, 0, 1 << 10});
  EXPECT_EQ(x.numel(), 0);
  EXPECT_EQ(sum(x, {0, 2}).shape(), (Shape{0}));
  EXPECT_EQ((x + 1).shape(), x.shape());
  EXPECT_EQ(softmax(x, 2).shape(), x.shape());
}

}  // namespace
}  // namespace mezzo
