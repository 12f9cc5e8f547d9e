// Convolution layers. The functions have tests of their own, so the oracle is the function with options that
// are not the defaults; what a layer computes itself, the padding of other modes, is compared with PyTorch
// 2.15 on integers, where results are exact.
#include "mezzo/nn/conv.h"

#include <cmath>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// Integers i * step % modulus - offset, in row-major order.
Tensor pattern(const Shape& shape, int step, int modulus, int offset) {
  Tensor result = empty(shape);
  int i = 0;
  for (float& value : result.mutable_data<float>()) value = static_cast<float>(i++ * step % modulus - offset);
  return result;
}
Tensor image(const Shape& shape) { return pattern(shape, 7, 11, 5); }

/// Sets small integers as weight and bias.
template <class L>
L& filled(L&& layer) {
  layer.weight.set(pattern(layer.weight->shape(), 3, 7, 3));
  if (layer.bias.defined()) layer.bias.set(pattern(layer.bias->shape(), 1, 5, 1));
  return layer;
}

TEST(Conv, CallsItsFunctionWithItsOptions) {
  Conv1d one(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  const Tensor x1 = image({2, 4, 9});
  EXPECT_EQ(values(one(x1)), values(conv1d(x1, one.weight, one.bias,
                                           {.stride = 2, .padding = 1, .dilation = 2, .groups = 2})));
  Conv2d two(2, 3, {3, 2}, {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}, .bias = false});
  const Tensor x2 = image({1, 2, 6, 5});
  EXPECT_EQ(values(two(x2)),
            values(conv2d(x2, two.weight, {}, {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}})));
  Conv3d three(1, 2, {1, 2, 3}, {.padding = "same"});
  const Tensor x3 = image({1, 3, 3, 4});  // one sample
  EXPECT_EQ(values(three(x3)), values(conv3d(x3, three.weight, three.bias, {.padding = "same"})));
  EXPECT_EQ(three(x3).shape(), (Shape{2, 3, 3, 4}));
}

TEST(ConvTranspose, CallsItsFunctionWithItsOptions) {
  ConvTranspose1d one(4, 6, 3, {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2, .dilation = 2});
  const Tensor x1 = image({2, 4, 5});
  EXPECT_EQ(
      values(one(x1)),
      values(conv_transpose1d(x1, one.weight, one.bias,
                              {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2, .dilation = 2})));
  ConvTranspose2d two(2, 3, {3, 2}, {.stride = {2, 1}, .padding = {0, 1}, .bias = false});
  const Tensor x2 = image({1, 2, 4, 5});
  EXPECT_EQ(values(two(x2)),
            values(conv_transpose2d(x2, two.weight, {}, {.stride = {2, 1}, .padding = {0, 1}})));
  ConvTranspose3d three(2, 1, {1, 2, 3}, {.stride = 2});
  const Tensor x3 = image({2, 2, 2, 3});  // one sample
  EXPECT_EQ(values(three(x3)), values(conv_transpose3d(x3, three.weight, three.bias, {.stride = 2})));
}

TEST(Conv, PadsWithWhatItsModeSaysAsPyTorchDoes) {
  const Tensor x = image({1, 2, 3, 4});
  const auto same = [&](PadMode mode) {
    return values(filled(Conv2d(2, 2, {2, 3}, {.padding = "same", .padding_mode = mode}))(x));
  };
  EXPECT_EQ(same(PadMode::reflect),
            (std::vector<float>{25,  -12, 6,   -7, -13, 5,   23, -23, 23,  -14, 4, -20,
                                -19, 27,  -46, 24, 19,  -45, 25, -26, -22, 13,  6, -23}));
  EXPECT_EQ(same(PadMode::replicate),
            (std::vector<float>{25, -12, 6,   14, -13, 5,   23, -13, 8,   26, 0,  -36,
                                24, 27,  -46, -9, -15, -45, 25, 7,   -33, 3,  29, 11}));
  EXPECT_EQ(same(PadMode::circular),
            (std::vector<float>{-8, -12, 6,   -16, -13, 5,   23, -10, -6,  45, -36, 19,
                                5,  27,  -46, 24,  -12, -45, 25, 7,   -32, 34, 16,  9}));
  Conv2d reflect(2, 2, {2, 3},
                 {.stride = {1, 2}, .padding = {1, 2}, .bias = false, .padding_mode = PadMode::reflect});
  EXPECT_EQ(values(filled(reflect)(x)),
            (std::vector<float>{16,  25,  52, -20, -11, -6, -14, 6,   -22, -33, -13, -19,
                                -23, -14, 5,  18,  27,  24, 12,  -45, -26, -7,  13,  -23}));
}

TEST(Conv, PadsInOneAndThreeDimsAsPyTorchDoes) {
  Conv1d circular(4, 2, 2, {.padding = 3, .groups = 2, .padding_mode = PadMode::circular});
  EXPECT_EQ(values(filled(circular)(image({4, 5}))),
            (std::vector<float>{9, -31, 8, 1, 5, 9, -31, 8, 1, 5, 12, -2, 5, 18, -29, 12, -2, 5, 18, -29}));
  Conv3d replicate(1, 1, {1, 2, 2},
                   {.padding = {0, 1, 0}, .dilation = {1, 1, 2}, .padding_mode = PadMode::replicate});
  EXPECT_EQ(values(filled(replicate)(image({1, 1, 2, 2, 3}))), (std::vector<float>{1, 32, 2, 3, 1, 4}));
}

TEST(ConvTranspose, AgreesWithPyTorch) {
  ConvTranspose2d layer(2, 4, {2, 3},
                        {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}, .groups = 2});
  const Tensor y = filled(layer)(image({2, 2, 3}));
  EXPECT_EQ(y.shape(), (Shape{4, 3, 5}));
  EXPECT_EQ(values(y), (std::vector<float>{4,  -13, 15, -9, 3,  -16, -4, 23, 2, -10, -6, 8,   -6, -9,  5, -15,
                                           11, -18, 6,  -4, 5,  -14, -6, 9,  0, 15,  -2, 0,   5,  -6,  1, 13,
                                           -3, -11, 5,  -5, 6,  1,   -1, 16, 1, 10,  -5, -13, 6,  -10, 2, 26,
                                           2,  -10, 8,  -6, -3, 11,  -3, -7, 5, 26,  -1, -13}));
}

TEST(ConvTranspose, TakesTheSizeOfItsResult) {
  ConvTranspose2d layer(1, 1, {3, 2}, {.stride = {3, 2}, .padding = {1, 0}, .dilation = {2, 1}});
  const Tensor x = image({1, 1, 2, 3});
  // The least sizes are (2 - 1) 3 - 2 + 2 2 + 1 = 6 and (3 - 1) 2 + 1 + 1 = 6.
  for (const std::int64_t rows : {6, 7, 8}) {
    const Tensor y = layer.forward(x, {rows, 7});
    EXPECT_EQ(y.shape(), (Shape{1, 1, rows, 7}));
    EXPECT_EQ(
        values(y),
        values(conv_transpose2d(
            x, layer.weight, layer.bias,
            {.stride = {3, 2}, .padding = {1, 0}, .output_padding = {rows - 6, 1}, .dilation = {2, 1}})));
  }
  EXPECT_EQ(layer.forward(image({1, 2, 3}), 6).shape(), (Shape{1, 6, 6}));
  const auto refused = [&](const SpatialSizes& size) {
    return message_of<ShapeError>([&] { (void)layer.forward(x, size); });
  };
  EXPECT_TRUE(contains(refused({9, 6}),
                       "ConvTranspose2d: expected an output_size from [6, 6] on, by less "
                       "than the strides [3, 2] more, got [9, 6]"));
  EXPECT_TRUE(contains(refused(5), "got [5, 5]"));
  EXPECT_THROW((void)layer.forward(x, {6, 6, 6}), ValueError);
  EXPECT_THROW((void)layer.forward(zeros({1, 2, 2, 3}), 6), ShapeError);
  EXPECT_THROW((void)layer.forward(Tensor(), 6), Error);
}

TEST(Conv, BeginsUniformWithWeightDrawnFirst) {
  Generator generator(11), oracle(11);
  const Conv2d layer(6, 4, {3, 5}, {.groups = 2, .generator = &generator});
  const double bound = 1 / std::sqrt(3 * 3 * 5.0);
  EXPECT_EQ(values(layer.weight), values(uniform(-bound, bound, {4, 3, 3, 5}, {}, oracle)));
  EXPECT_EQ(values(layer.bias), values(uniform(-bound, bound, {4}, {}, oracle)));
  // torch counts what weight[0] holds, which in a transposed one is a part of the outputs.
  const ConvTranspose1d transposed(4, 6, 5, {.groups = 2, .generator = &generator});
  const double other = 1 / std::sqrt(3 * 5.0);
  EXPECT_EQ(values(transposed.weight), values(uniform(-other, other, {4, 3, 5}, {}, oracle)));
  EXPECT_EQ(values(transposed.bias), values(uniform(-other, other, {6}, {}, oracle)));
}

TEST(Conv, DrawsAnewOnDemandAndNotForAClone) {
  manual_seed(5);
  Conv1d layer(2, 3, 2);
  const GeneratorState before = default_generator().state();
  const auto copy = clone(layer);
  EXPECT_EQ(default_generator().state(), before);
  EXPECT_EQ(values(copy->weight), values(layer.weight));
  EXPECT_EQ(values((*copy)(image({2, 4}))), values(layer(image({2, 4}))));
  layer.reset_parameters();
  EXPECT_NE(values(copy->weight), values(layer.weight));
  EXPECT_NE(values(copy->bias), values(layer.bias));
  manual_seed(5);
  EXPECT_EQ(values(Conv1d(2, 3, 2).weight), values(copy->weight));
}

TEST(Conv, GivesGradientsToAllParametersInTheirDtype) {
  const auto expect_gradients = [](auto&& layer, const Tensor& x) {
    sum(layer(x)).backward();
    for (const auto& [name, parameter] : layer.named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << to_string(layer) << " " << name;
      EXPECT_EQ(parameter.grad().dtype(), parameter.dtype());
      EXPECT_GT(max(abs(parameter.grad())).item(), 0) << to_string(layer) << " " << name;
    }
  };
  expect_gradients(Conv2d(2, 3, 3, {.padding = 1, .padding_mode = PadMode::circular}), image({1, 2, 4, 4}));
  expect_gradients(ConvTranspose2d(2, 3, 3), image({1, 2, 4, 4}));
  const amp::Autocast region(Device::cpu(), DType::bf16);
  expect_gradients(Conv1d(2, 3, 3, {.padding = 2, .padding_mode = PadMode::reflect}), image({1, 2, 4}));
}

TEST(Conv, RunsInTheDtypeOfItsParametersOrOfAutocast) {
  Conv2d layer(2, 3, 2);
  const Tensor x = image({1, 2, 3, 3});
  {
    const amp::Autocast region(Device::cpu(), DType::bf16);
    EXPECT_EQ(layer(x).dtype(), DType::bf16);
  }
  EXPECT_EQ(layer(x).dtype(), DType::f32);
  layer.to(DType::f64);
  EXPECT_EQ(layer(x.to(DType::f64)).dtype(), DType::f64);
  EXPECT_THROW((void)layer(x), DTypeError);
  EXPECT_EQ(ConvTranspose1d(2, 3, 2, {.dtype = DType::f16}).weight->dtype(), DType::f16);
}

TEST(Conv, PrintsAsPyTorchDoes) {
  EXPECT_EQ(to_string(Conv1d(3, 8, 5)), "Conv1d(3, 8, kernel_size=[5], stride=[1])");
  EXPECT_EQ(to_string(Conv2d(
                2, 4, 3,
                {.padding = 1, .dilation = 2, .groups = 2, .bias = false, .padding_mode = PadMode::reflect})),
            "Conv2d(2, 4, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1], dilation=[2, 2], groups=2, "
            "bias=false, padding_mode=reflect)");
  EXPECT_EQ(to_string(Conv3d(1, 1, {1, 2, 3}, {.padding = "same"})),
            "Conv3d(1, 1, kernel_size=[1, 2, 3], stride=[1, 1, 1], padding=same)");
  EXPECT_EQ(to_string(ConvTranspose2d(4, 6, 3, {.stride = 2, .output_padding = 1})),
            "ConvTranspose2d(4, 6, kernel_size=[3, 3], stride=[2, 2], output_padding=[1, 1])");
  const Conv2d layer(4, 6, {3, 2});
  EXPECT_EQ(layer.in_channels(), 4);
  EXPECT_EQ(layer.out_channels(), 6);
  EXPECT_EQ(layer.kernel_size(), (Dims{3, 2}));
}

TEST(Conv, RefusesSizesThatMakeNoSense) {
  const auto refused = [](auto make_layer) { return message_of<ValueError>(make_layer); };
  EXPECT_TRUE(
      contains(refused([] { Conv2d(0, 4, 3); }), "Conv2d: expected in_channels of at least 1, got 0"));
  EXPECT_TRUE(contains(refused([] { Conv1d(2, -4, 3); }), "Conv1d: expected out_channels of at least 1"));
  EXPECT_TRUE(
      contains(refused([] { Conv2d(4, 6, 3, {.groups = 3}); }), "groups that divide in_channels = 4"));
  EXPECT_TRUE(contains(refused([] { ConvTranspose3d(6, 4, 3, {.groups = 3}); }), "divide out_channels = 4"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, 3, {.groups = 0}); }), "groups"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, {3, 0}); }), "kernel_size of at least 1, got [3, 0]"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, {3, 3, 3}); }), "1 or 2 numbers for kernel_size"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, 3, {.stride = 0}); }), "stride of at least 1"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, 3, {.dilation = 0}); }), "dilation of at least 1"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, 3, {.padding = -1}); }), "padding of at least 0"));
  EXPECT_TRUE(contains(refused([] { Conv2d(4, 6, 3, {.stride = 2, .padding = "same"}); }), "strides of 1"));
  EXPECT_TRUE(contains(refused([] { ConvTranspose1d(4, 6, 3, {.output_padding = -1}); }), "output_padding"));
  EXPECT_THROW(Conv1d(std::int64_t{1} << 40, std::int64_t{1} << 40, 3), ShapeError);
  EXPECT_THROW(Conv1d(1, 1, 3, {.dtype = DType::i32}), DTypeError);
}

TEST(Conv, NamesItsPathWhenAShapeDoesNotFit) {
  Sequential net(make<Conv2d>(1, 3, 2), make<Sequential>(make<ConvTranspose2d>(4, 2, 2)));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)net(zeros({1, 1, 3, 3}));
                       }),
                       "ConvTranspose2d '1.0': expected an input [N, 4, 2 spatial dims] or [4, 2 spatial "
                       "dims], got [1, 3, 2, 2]"));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)net(zeros({1, 2, 3, 3}));
                       }),
                       "Conv2d '0': expected"));
  EXPECT_THROW((void)net(zeros({3})), ShapeError);
  EXPECT_THROW((void)net(Tensor()), Error);
  Conv1d wide(1, 1, 5);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { (void)wide(zeros({1, 1, 3})); }), "at most 3"));
  Conv1d mirror(1, 1, 1, {.padding = 4, .padding_mode = PadMode::reflect});
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { (void)mirror(zeros({1, 1, 4})); }), "pad"));
  ConvTranspose1d extra(1, 1, 2, {.stride = 2, .output_padding = 2});
  EXPECT_THROW((void)extra(zeros({1, 1, 4})), ValueError);
}

}  // namespace

}  // namespace mezzo::nn
