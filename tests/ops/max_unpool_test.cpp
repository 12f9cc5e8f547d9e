// max_unpool and conv_tbc against PyTorch, their gradients and refusals.
#include <gtest/gtest.h>

#include "mezzo/nn/pooling.h"
#include "mezzo/ops/convolution.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/pooling.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

/// torch.cos(torch.arange(n, dtype=torch.float64) * step)
Tensor cosines(const Shape& shape, double step) {
  Doubles values;
  for (std::int64_t i = 0; i < layout::numel(shape); ++i)
    values.push_back(std::cos(static_cast<double>(i) * step));
  return leaf(shape, values);
}
/// Zeros with values at some places.
Doubles at_places(std::size_t count, const std::vector<std::pair<std::size_t, double>>& places) {
  Doubles result(count, 0);
  for (const auto& [place, value] : places) result[place] = value;
  return result;
}

// x = torch.arange(24.).mul(1.3).cos().reshape(1, 1, 4, 6); y, i = F.max_pool2d(x, 2, return_indices=True);
// print(i, F.max_unpool2d(y, i, 2))
TEST(MaxUnpool, UndoesAPoolingAsPyTorch) {
  const Tensor x = cosines({1, 1, 4, 6}, 1.3);
  const auto [y, at] = max_pool2d_with_indices(x, {.kernel_size = 2});
  EXPECT_EQ(list(at), (Doubles{0, 9, 5, 19, 14, 23}));
  const Doubles v = list(x);
  expect_near(max_unpool2d(y, at, {.kernel_size = 2}),
              at_places(24, {{0, v[0]}, {9, v[9]}, {5, v[5]}, {19, v[19]}, {14, v[14]}, {23, v[23]}}), 0);
}

// y, i = F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)
// F.max_unpool2d(y, i, 3, stride=2, padding=1, output_size=(4, 6)): two windows share an element
TEST(MaxUnpool, TakesAnOutputSize) {
  const Tensor x = cosines({1, 1, 4, 6}, 1.3);
  const auto [y, at] = max_pool2d_with_indices(x, {.kernel_size = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(list(at), (Doubles{0, 9, 5, 19, 19, 10}));
  const Doubles v = list(x);
  const MaxUnpoolOptions options{.kernel_size = 3, .stride = 2, .padding = 1, .output_size = {4, 6}};
  expect_near(max_unpool2d(y, at, options),
              at_places(24, {{0, v[0]}, {9, v[9]}, {5, v[5]}, {19, v[19]}, {10, v[10]}}), 0);
  EXPECT_EQ(max_unpool2d(y, at, {.kernel_size = 3, .stride = 2, .padding = 1, .output_size = {4, 5}}).shape(),
            (Shape{1, 1, 4, 5}));
}

TEST(MaxUnpool, OfOneAndThreeDims) {
  const Tensor row = cosines({2, 6}, 1.3);
  const auto [y, at] = max_pool1d_with_indices(row, {.kernel_size = 2});
  const Tensor back = max_unpool1d(y, at, {.kernel_size = 2});
  EXPECT_EQ(back.shape(), (Shape{2, 6}));
  EXPECT_TRUE(same_bits(max_pool1d(back, 2), relu(y)));
  const Tensor cube = cosines({1, 1, 2, 2, 4}, 1.3);
  const auto [z, places] = max_pool3d_with_indices(cube, {.kernel_size = 2});
  EXPECT_EQ(list(places), (Doubles{0, 10}));
  expect_near(max_unpool3d(z, places, {.kernel_size = 2}),
              at_places(16, {{0, list(cube)[0]}, {10, list(cube)[10]}}), 0);
}

TEST(MaxUnpool, DerivativesOfBothOrders) {
  const Tensor at = indices({1, 2, 2, 2}, {0, 3, 9, 10, 5, 2, 8, 15});
  expect_derivatives("max_unpool2d",
                     [&](const Tensors& x) { return max_unpool2d(x[0] * x[0], at, {.kernel_size = 2}); },
                     {cosines({1, 2, 2, 2}, 0.9)});
}

TEST(MaxUnpool, KeepsDtypesLayoutsAndEmptyBatches) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i64}) {
    const Tensor x = to(counted({2, 3, 2, 2}), dtype);
    const Tensor at = indices({4}, {0, 2, 8, 10}).reshape({2, 2}).expand({2, 3, 2, 2});
    const Tensor y = max_unpool2d(x, at, {.kernel_size = 2});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(same_bits(narrow(y, 3, 0, 1),
                          narrow(max_unpool2d(strided_copy(x), at, {.kernel_size = 2}), 3, 0, 1)));
    const Tensor last = max_unpool2d(x.contiguous(MemoryFormat::channels_last), at, {.kernel_size = 2});
    EXPECT_TRUE(last.is_contiguous(MemoryFormat::channels_last));
    EXPECT_TRUE(same_bits(last, y));
  }
  const Tensor none =
      max_unpool1d(zeros({0, 2, 3}), zeros({0, 2, 3}, {.dtype = DType::i64}), {.kernel_size = 2});
  EXPECT_EQ(none.shape(), (Shape{0, 2, 6}));
}

TEST(MaxUnpool, Refusals) {
  const Tensor x = zeros({1, 1, 2, 2}), at = indices({1, 1, 2, 2}, {0, 2, 8, 16});
  const std::string message = message_of<Error>([&] { return max_unpool2d(x, at, {.kernel_size = 2}); });
  EXPECT_EQ(message.find("max_unpool2d: expected"), 0U) << message;
  EXPECT_THROW(static_cast<void>(max_unpool2d(x, at, {.kernel_size = 2})), IndexError);
  const Tensor good = zeros({1, 1, 2, 2}, {.dtype = DType::i64});
  for (const SpatialSizes& size : {SpatialSizes{6, 6}, SpatialSizes{2, 2}, SpatialSizes{4, 4, 4}})
    EXPECT_THROW(static_cast<void>(max_unpool2d(x, good, {.kernel_size = 2, .output_size = size})),
                 ValueError);
  EXPECT_THROW(static_cast<void>(max_unpool2d(x, good, {.kernel_size = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(max_unpool2d(x, zeros({1, 1, 2, 2}), {.kernel_size = 2})), DTypeError);
  EXPECT_THROW(static_cast<void>(max_unpool2d(x, narrow(good, 3, 0, 1), {.kernel_size = 2})), ShapeError);
  EXPECT_THROW(static_cast<void>(max_unpool1d(x, good, {.kernel_size = 2})), ShapeError);
  EXPECT_THROW(static_cast<void>(max_unpool2d(x.to(DType::boolean), good, {.kernel_size = 2})), DTypeError);
}

TEST(MaxUnpool, IsALayer) {
  const Tensor x = cosines({1, 1, 4, 6}, 1.3);
  nn::MaxPool2d pool(2, {.stride = 2});
  const auto [y, at] = pool.forward_with_indices(x);
  const nn::MaxUnpool2d unpool(2, {.stride = 2});
  EXPECT_TRUE(same_bits(unpool.forward(y, at), max_unpool2d(y, at, {.kernel_size = 2})));
  EXPECT_EQ(unpool.forward(y, at, {5, 7}).shape(), (Shape{1, 1, 5, 7}));
  EXPECT_EQ(unpool.type_name(), "MaxUnpool2d");
  EXPECT_EQ(unpool.extra_repr(), "kernel_size=2, stride=2, padding=0");
  EXPECT_THROW(static_cast<void>(nn::MaxUnpool1d(0)), ValueError);
  EXPECT_THROW(static_cast<void>(nn::MaxUnpool3d(2, {.padding = -1})), ValueError);
}

// x = torch.arange(30.).cos().reshape(5, 2, 3); w = torch.arange(24.).sin().reshape(2, 3, 4);
// b = torch.tensor([.5, -1, 2, .25]); y = torch.conv_tbc(x, w, b, 1); y.square().sum().backward()
TEST(ConvTbc, IsPyTorchs) {
  const Tensor x = cosines({5, 2, 3}, 1), b = leaf({0.5, -1, 2, 0.25});
  Doubles sines;
  for (int i = 0; i < 24; ++i) sines.push_back(std::sin(i));
  const Tensor w = leaf({2, 3, 4}, sines);
  const Tensor y = conv_tbc(x, w, b, 1);
  EXPECT_EQ(y.shape(), (Shape{6, 2, 4}));
  expect_near(select(y, 0, 0),
              {-0.572047021892695, -1.447449842147839, 2.58853065894707, 1.3334187863542342,
               1.478357374092705, -0.5502233091886004, 1.507673392249576, -0.7317870936269859},
              1e-14);
  expect_near(select(y, 0, 5),
              {0.3898902050713383, -1.3269466991798429, 1.756809684002969, 0.31415412218384864,
               0.4884056356776295, -0.6310485349537691, 2.4102850189581844, 0.32440441856629},
              1e-14);
  (y * y).sum().backward();
  expect_near(select(x.grad(), 0, 0),
              {10.788474504053866, 4.669436039149455, -16.892768664095254, 0.054807562079122185,
               -6.268892143571943, 8.140435156976508},
              1e-13, 1e-13);
  expect_near(select(select(w.grad(), 0, 1), 0, 2),
              {-1.2004835825271782, -0.44800987598781306, -3.8515890801324844, -6.411473194090078e-05}, 1e-13,
              1e-13);
  expect_near(b.grad(), {9.640382281814588, -23.725833411911008, 50.65588339765838, 8.595793259654469},
              1e-13);
}

TEST(ConvTbc, RunsInLowPrecisionUnderAutocast) {
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  EXPECT_EQ(conv_tbc(zeros({3, 1, 2}), zeros({1, 2, 4}), zeros({4})).dtype(), DType::bf16);
}

TEST(ConvTbc, Refusals) {
  const Tensor x = zeros({3, 1, 2}), w = zeros({2, 2, 4}), b = zeros({4});
  EXPECT_THROW(static_cast<void>(conv_tbc(zeros({3, 2}), w, b)), ShapeError);
  EXPECT_THROW(static_cast<void>(conv_tbc(x, zeros({2, 3, 4}), b)), ShapeError);
  EXPECT_THROW(static_cast<void>(conv_tbc(x, w, zeros({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(conv_tbc(x, w, b, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(conv_tbc(x, w, Tensor())), ValueError);
  EXPECT_THROW(static_cast<void>(conv_tbc(zeros({1, 1, 2}), w, b)), ShapeError);
}

}  // namespace
}  // namespace mezzo
