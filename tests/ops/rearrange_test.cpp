// Rearrangements: what goldens and the sweep do not reach, which is refusals, borders of the argument ranges,
// empty tensors and compositions.
#include "mezzo/ops/rearrange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

Tensor counted(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(layout::numel(shape)));
  std::iota(values.begin(), values.end(), 0);
  return make<double>(shape, values);
}

TEST(Chunk, GivesFewerPiecesWhereTheyDoNotDivide) {
  const Tensors pieces = chunk(counted({5}), 4);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(list(pieces[2]), Doubles{4});
  EXPECT_EQ(chunk(counted({2, 0}), 3, -1).size(), 3U);
  EXPECT_THROW((void)chunk(counted({5}), 0), ValueError);
  EXPECT_THROW((void)chunk(counted({}), 1), IndexError);
  EXPECT_THROW((void)chunk(counted({5}), 2, 1), IndexError);
}

TEST(Movedim, KeepsTheOrderOfTheOthers) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(movedim(x, 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(movedim(x, {2, 0}, {0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(movedim(x, Dims{}, Dims{}).shape(), x.shape());
  EXPECT_EQ(list(movedim(x, 1, 0)), list(permute(x, {1, 0, 2})));
  EXPECT_THROW((void)movedim(x, {0, 1}, {0}), ShapeError);
  EXPECT_THROW((void)movedim(x, {0, -3}, {0, 1}), IndexError);
  EXPECT_THROW((void)movedim(x, {0, 1}, {2, 2}), IndexError);
  EXPECT_THROW((void)movedim(x, 3, 0), IndexError);
}

TEST(PixelShuffle, TakesAnyNumberOfDimsInFront) {
  EXPECT_EQ(pixel_shuffle(counted({4, 1, 1}), 2).shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(list(pixel_shuffle(counted({2, 1, 4, 1, 1}), 2)), list(counted({8})));
  EXPECT_EQ(pixel_shuffle(counted({0, 4, 3, 3}), 2).shape(), (Shape{0, 1, 6, 6}));
  EXPECT_THROW((void)pixel_shuffle(counted({3, 2, 2}), 2), ShapeError);
  EXPECT_THROW((void)pixel_shuffle(counted({4, 4}), 2), ShapeError);
  EXPECT_THROW((void)pixel_shuffle(counted({4, 2, 2}), 0), ValueError);
}

TEST(RepeatInterleave, RepeatsPositionsInPlace) {
  const Tensor x = counted({2, 2});
  EXPECT_EQ(list(repeat_interleave(x, 2)), (Doubles{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(list(repeat_interleave(x, 2, 0)), (Doubles{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(repeat_interleave(x, 0, -1).shape(), (Shape{2, 0}));
  EXPECT_EQ(list(repeat_interleave(counted({}), 3)), (Doubles{0, 0, 0}));
  EXPECT_EQ(repeat_interleave(counted({1, 1, 1, 1, 1, 1, 1, 2}), 3, -1).numel(), 6);
  EXPECT_THROW((void)repeat_interleave(x, -1, 0), ValueError);
  EXPECT_THROW((void)repeat_interleave(x, 2, 2), IndexError);
}

TEST(RepeatInterleave, TakesANumberForEachPosition) {
  const Tensor x = counted({2, 2}), counts = tensor({2, 0});
  EXPECT_EQ(list(repeat_interleave(x, counts, 0)), (Doubles{0, 1, 0, 1}));
  EXPECT_EQ(list(repeat_interleave(x, counts, -1)), (Doubles{0, 0, 2, 2}));
  EXPECT_EQ(list(repeat_interleave(x, tensor({2}), 0)), list(repeat_interleave(x, 2, 0)));
  EXPECT_EQ(repeat_interleave(x, tensor({0, 0}), 0).shape(), (Shape{0, 2}));
  EXPECT_THROW((void)repeat_interleave(x, counts), ShapeError);
  EXPECT_THROW((void)repeat_interleave(x, tensor({1, -1}), 0), ValueError);
  EXPECT_THROW(
      (void)repeat_interleave(x, tensor({std::int64_t{1}, std::numeric_limits<std::int64_t>::max()}), 0),
      ValueError);
  EXPECT_THROW((void)repeat_interleave(x, ones({2}), 0), DTypeError);
}

TEST(Diagonal, IsAViewAndMayBeEmpty) {
  const Tensor x = counted({2, 3});
  diagonal(x, 1).fill_(9);
  EXPECT_EQ(list(x), (Doubles{0, 9, 2, 3, 4, 9}));
  EXPECT_EQ(diagonal(x, 3).shape(), Shape{0});
  EXPECT_EQ(diagonal(x, std::numeric_limits<std::int64_t>::min()).shape(), Shape{0});
  EXPECT_EQ(diagonal(counted({0, 3})).shape(), Shape{0});
  EXPECT_THROW((void)diagonal(x, 0, 1, -1), ShapeError);
  EXPECT_THROW((void)diagonal(counted({4}), 0, 0, 1), IndexError);
}

TEST(TensorUnfold, ShowsWindowsWithoutACopy) {
  const Tensor x = counted({5});
  EXPECT_EQ(list(tensor_unfold(x, 0, 3, 1)), (Doubles{0, 1, 2, 1, 2, 3, 2, 3, 4}));
  EXPECT_TRUE(tensor_unfold(x, 0, 3, 1).impl().is_view);
  EXPECT_EQ(tensor_unfold(x, 0, 0, 2).shape(), (Shape{3, 0}));
  EXPECT_EQ(tensor_unfold(x, 0, 5, 1000).shape(), (Shape{1, 5}));
  EXPECT_EQ(tensor_unfold(select(x, 0, 3), 0, 1, 1).shape(), (Shape{1}));  // as in PyTorch
  EXPECT_EQ(tensor_unfold(select(x, 0, 3), 0, 0, 1).shape(), (Shape{0}));
  EXPECT_THROW((void)tensor_unfold(x, 0, 6, 1), ValueError);
  EXPECT_THROW((void)tensor_unfold(x, 0, 2, 0), ValueError);
}

TEST(Roll, TurnsByAnyShift) {
  const Tensor x = counted({4});
  EXPECT_EQ(list(roll(x, 5)), (Doubles{3, 0, 1, 2}));
  EXPECT_EQ(list(roll(x, std::numeric_limits<std::int64_t>::min(), {0})), list(x));
  EXPECT_EQ(roll(counted({2, 0}), 1, {1}).shape(), (Shape{2, 0}));
  EXPECT_THROW((void)roll(x, {1, 2}, {0}), ShapeError);
  EXPECT_THROW((void)roll(x, {}, {}), ShapeError);
  EXPECT_THROW((void)roll(x, 1, {1}), IndexError);
}

TEST(Flip, CopiesAndRefusesADimGivenTwice) {
  const Tensor x = counted({2, 2});
  const Tensor y = flip(x, {0});
  y.fill_(7);
  EXPECT_EQ(list(x), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(list(flip(x, {})), list(x));
  EXPECT_EQ(flip(counted({0, 3}), {0, 1}).shape(), (Shape{0, 3}));
  EXPECT_EQ(list(flip(counted({}), {0})), Doubles{0});
  EXPECT_EQ(list(flip(expand(counted({2, 1}), {2, 3}), {0, 1})), (Doubles{1, 1, 1, 0, 0, 0}));
  EXPECT_THROW((void)flip(x, {0, -2}), IndexError);
}

TEST(Triangles, DropNaNOutside) {
  const double nan = std::nan("");
  const Tensor x = make<double>({2, 2}, {nan, nan, 1, nan});
  EXPECT_EQ(list(tril(x, -1)), (Doubles{0, 0, 1, 0}));
  EXPECT_EQ(list(triu(x, 2)), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(list(triu(counted({2, 2}), std::numeric_limits<std::int64_t>::min())), list(counted({2, 2})));
  EXPECT_EQ(list(tril(counted({2, 2}), std::numeric_limits<std::int64_t>::max())), list(counted({2, 2})));
  EXPECT_EQ(tril(counted({2, 0, 3})).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(tril(ones({2, 2}, {.dtype = DType::boolean})).dtype(), DType::boolean);
  EXPECT_THROW((void)tril(counted({3})), ShapeError);
}

TEST(Pad, AddsAndCutsOff) {
  const Tensor x = counted({3});
  EXPECT_EQ(list(pad(x, {2, -1}, PadMode::constant, 7)), (Doubles{7, 7, 0, 1}));
  EXPECT_EQ(list(pad(x, {2, 2}, PadMode::reflect)), (Doubles{2, 1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(list(pad(x, {1, 4}, PadMode::replicate)), (Doubles{0, 0, 1, 2, 2, 2, 2, 2}));
  EXPECT_EQ(list(pad(x, {3, 2}, PadMode::circular)), (Doubles{0, 1, 2, 0, 1, 2, 0, 1}));
  // As PyTorch: what is cut off at one end does not come back at the other.
  EXPECT_EQ(list(pad(counted({4}), {-1, 2}, PadMode::circular)), (Doubles{1, 2, 3, 1, 2}));
  EXPECT_EQ(list(pad(x, {2, -1}, PadMode::circular)), (Doubles{0, 1, 0, 1}));
  EXPECT_EQ(list(pad(x, {})), list(x));
  EXPECT_EQ(list(pad(counted({0}), {1, 1})), (Doubles{0, 0}));
  EXPECT_EQ(pad(counted({3, 0}), {0, 0, 1, 1}, PadMode::reflect).shape(), (Shape{5, 0}));
}

TEST(Pad, RoundsGradientsOf16BitsOnce) {
  Generator generator(1);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
      const Tensor g = uniform(-1, 1, {2, 3, 12, 13}, {.dtype = DType::f32}, generator).to(dtype);
      const auto gradient = [&](DType of) {
        const Tensor x = zeros({2, 3, 5, 6}, {.dtype = of, .requires_grad = true});
        pad(x, {4, 3, 3, 4}, mode).backward(g.to(of), {});
        return x.grad();
      };
      EXPECT_EQ(list(gradient(dtype)), list(gradient(DType::f32).to(dtype)));
    }
  }
}

TEST(Pad, RefusesBordersThatDoNotFit) {
  const Tensor x = counted({3});
  EXPECT_THROW((void)pad(x, {1}), ShapeError);
  EXPECT_THROW((void)pad(x, {1, 1, 1, 1}), ShapeError);
  EXPECT_THROW((void)pad(x, {-4, 9}), ShapeError);
  EXPECT_THROW((void)pad(x, {-2, -2}), ShapeError);
  EXPECT_THROW((void)pad(x, {3, 0}, PadMode::reflect), ShapeError);
  EXPECT_THROW((void)pad(x, {0, 4}, PadMode::circular), ShapeError);
  EXPECT_THROW((void)pad(x, {3, -1}, PadMode::circular), ShapeError);
  EXPECT_THROW((void)pad(counted({0}), {1, 0}, PadMode::replicate), ShapeError);
}

}  // namespace
}  // namespace mezzo
