// Pooling layers and dropout of channels. The oracle is the function, with options that are not the defaults.
#include "mezzo/nn/pooling.h"

#include "mezzo/nn/dropout.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

/// No two neighbours fall or rise alike, so that windows differ.
Tensor image(const Shape& shape) {
  const Tensor x = counting(shape);
  return sub(x, mul(x, x), Scalar(0.125));
}

void expect_same(const Tensor& got, const Tensor& wanted) {
  EXPECT_EQ(got.shape(), wanted.shape());
  EXPECT_EQ(values(got), values(wanted));
}

void expect_same(const ValuesIndices& got, const ValuesIndices& wanted) {
  expect_same(got.values, wanted.values);
  EXPECT_EQ(got.indices.to_vector<std::int64_t>(), wanted.indices.to_vector<std::int64_t>());
}

TEST(MaxPool, PassesItsOptionsOn) {
  const Tensor x1 = image({2, 2, 9}), x2 = image({2, 7, 8}), x3 = image({1, 2, 5, 4, 6});
  MaxPool1d one(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true});
  const MaxPoolOptions first{.kernel_size = 3, .stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true};
  expect_same(one(x1), max_pool1d(x1, first));
  expect_same(one.forward_with_indices(x1), max_pool1d_with_indices(x1, first));
  MaxPool2d two({3, 2});
  expect_same(two(x2), max_pool2d(x2, {.kernel_size = {3, 2}}));
  expect_same(two.forward_with_indices(x2), max_pool2d_with_indices(x2, {.kernel_size = {3, 2}}));
  MaxPool3d three({3, 1, 2}, {.stride = {1, 2, 2}, .padding = {1, 0, 1}});
  const MaxPoolOptions third{.kernel_size = {3, 1, 2}, .stride = {1, 2, 2}, .padding = {1, 0, 1}};
  expect_same(three(x3), max_pool3d(x3, third));
  expect_same(three.forward_with_indices(x3), max_pool3d_with_indices(x3, third));
}

TEST(AvgPool, PassesItsOptionsOn) {
  const Tensor x1 = image({2, 2, 9}), x2 = image({2, 7, 8}), x3 = image({1, 2, 5, 4, 6});
  AvgPool1d one(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  expect_same(
      one(x1),
      avg_pool1d(
          x1, {.kernel_size = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}));
  AvgPool2d two({3, 2}, {.divisor_override = 5});
  expect_same(two(x2), avg_pool2d(x2, {.kernel_size = {3, 2}, .divisor_override = 5}));
  AvgPool3d three({3, 1, 2}, {.stride = {1, 2, 2}, .padding = {1, 0, 1}});
  expect_same(three(x3),
              avg_pool3d(x3, {.kernel_size = {3, 1, 2}, .stride = {1, 2, 2}, .padding = {1, 0, 1}}));
}

TEST(AdaptivePool, PassesItsSizesOn) {
  const Tensor x1 = image({2, 2, 9}), x2 = image({2, 7, 8}), x3 = image({1, 2, 5, 4, 6});
  expect_same(AdaptiveAvgPool1d(4)(x1), adaptive_avg_pool1d(x1, 4));
  expect_same(AdaptiveAvgPool2d({2, 3})(x2), adaptive_avg_pool2d(x2, {2, 3}));
  expect_same(AdaptiveAvgPool3d({2, 1, 3})(x3), adaptive_avg_pool3d(x3, {2, 1, 3}));
  expect_same(AdaptiveMaxPool1d(4)(x1), adaptive_max_pool1d(x1, 4));
  expect_same(AdaptiveMaxPool2d({2, 3})(x2), adaptive_max_pool2d(x2, {2, 3}));
  expect_same(AdaptiveMaxPool3d({2, 1, 3})(x3), adaptive_max_pool3d(x3, {2, 1, 3}));
  expect_same(AdaptiveMaxPool1d(4).forward_with_indices(x1), adaptive_max_pool1d_with_indices(x1, 4));
  expect_same(AdaptiveMaxPool2d(3).forward_with_indices(x2), adaptive_max_pool2d_with_indices(x2, 3));
  expect_same(AdaptiveMaxPool3d(2).forward_with_indices(x3), adaptive_max_pool3d_with_indices(x3, 2));
}

TEST(Pool, PrintsAsPyTorchDoes) {
  EXPECT_EQ(to_string(MaxPool2d(2)),
            "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=false)");
  EXPECT_EQ(to_string(MaxPool1d(3, {.stride = 1, .ceil_mode = true})),
            "MaxPool1d(kernel_size=3, stride=1, padding=0, dilation=1, ceil_mode=true)");
  EXPECT_EQ(to_string(AvgPool3d({2, 3, 4}, {.padding = 1})),
            "AvgPool3d(kernel_size=[2, 3, 4], stride=[2, 3, 4], padding=1)");
  EXPECT_EQ(to_string(AdaptiveAvgPool2d({1, 2})), "AdaptiveAvgPool2d(output_size=[1, 2])");
  EXPECT_EQ(to_string(AdaptiveMaxPool1d(5)), "AdaptiveMaxPool1d(output_size=5)");
}

TEST(Pool, StandsInASequenceAndClones) {
  Sequential net(make<MaxPool2d>(2), make<AvgPool2d>(2), make<AdaptiveAvgPool2d>(1));
  const Tensor x = image({1, 1, 8, 8});
  EXPECT_EQ(net(x).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(values((*clone(net))(x)), values(net(x)));
  EXPECT_TRUE(net.state_dict().empty());
}

TEST(Pool, RefusesSizesThatMakeNoSense) {
  const auto refused = [](auto make_layer) { return message_of<ValueError>(make_layer); };
  EXPECT_TRUE(contains(refused([] { MaxPool2d(0); }), "MaxPool2d: expected kernel_size of at least 1, got"));
  EXPECT_TRUE(contains(refused([] { MaxPool2d({1, 2, 3}); }), "1 or 2 numbers for kernel_size"));
  EXPECT_TRUE(contains(refused([] { MaxPool1d(2, {.dilation = 0}); }), "dilation of at least 1"));
  EXPECT_TRUE(contains(refused([] { AvgPool3d(2, {.stride = {1, 0, 1}}); }), "stride of at least 1"));
  EXPECT_TRUE(contains(refused([] { AvgPool1d(2, {.padding = -1}); }), "padding of at least 0"));
  EXPECT_TRUE(contains(refused([] { AdaptiveAvgPool2d(-1); }), "AdaptiveAvgPool2d: expected output_size"));
  EXPECT_TRUE(contains(refused([] { AdaptiveMaxPool3d({1, 2}); }), "1 or 3 numbers for output_size"));
  EXPECT_THROW((void)MaxPool2d(2, {.padding = 2})(image({1, 4, 4})), ValueError);
  EXPECT_THROW((void)AvgPool2d(2)(image({4, 4})), ShapeError);
  EXPECT_THROW((void)AvgPool2d(2)(Tensor()), Error);
}

TEST(ChannelDropout, ZeroesWholeChannels) {
  Generator generator(3), oracle(3);
  Dropout2d layer(0.25, &generator);
  const Tensor x = counting({8, 6, 2, 3});
  const Tensor mask = random_mask(0.75, {8, 6, 1, 1}, Device::cpu(), oracle);
  expect_same(layer(x), dropout(x, mask, 0.25));
  const Tensor sample = counting({16, 2, 3});  // without a batch
  expect_same(layer(sample), dropout(sample, random_mask(0.75, {16, 1, 1}, Device::cpu(), oracle), 0.25));
  Dropout1d one(0.5, &generator);
  const Tensor x1 = counting({4, 6, 2});
  expect_same(one(x1), dropout(x1, random_mask(0.5, {4, 6, 1}, Device::cpu(), oracle), 0.5));
  Dropout3d three(0.5, &generator);
  const Tensor x3 = counting({2, 6, 2, 1, 2});
  expect_same(three(x3), dropout(x3, random_mask(0.5, {2, 6, 1, 1, 1}, Device::cpu(), oracle), 0.5));
  expect_same(Dropout1d(1)(x1), zeros({4, 6, 2}));
}

TEST(ChannelDropout, DrawsNothingOutsideOfTraining) {
  Generator generator(3);
  Dropout2d layer(0.5, &generator);
  const Tensor x = counting({2, 3, 2, 2});
  const GeneratorState before = generator.state();
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
  EXPECT_TRUE(Dropout2d(0)(x).is_same(x));
  EXPECT_EQ(generator.state(), before);
  EXPECT_EQ(to_string(layer), "Dropout2d(p=0.5)");
}

TEST(ChannelDropout, RefusesWhatItCannotDropFrom) {
  EXPECT_TRUE(contains(message_of<ValueError>([] { Dropout3d(1.5); }), "Dropout3d: expected a probability"));
  EXPECT_TRUE(contains(message_of<ShapeError>([] {
                         (void)Dropout2d(0.5)(zeros({2, 3}));
                       }),
                       "Dropout2d: expected an input of 4 dims, or 3 for one sample, got [2, 3]"));
  EXPECT_THROW((void)Dropout1d(0.5)(zeros({2, 3}, {.dtype = DType::i64})), DTypeError);
  EXPECT_THROW((void)Dropout1d(0.5)(Tensor()), Error);
}

}  // namespace

}  // namespace mezzo::nn
