// Convolutions as ops: values worked out by hand, transposed ones as the gradients they are, padding by
// words, memory formats, samples without a batch dim, and the messages they refuse with.
#include <gtest/gtest.h>

#include <limits>

#include "mezzo/autograd/registry.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/ops/convolution.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(Convolution, ByHand) {
  const Tensor x = make<float>({1, 1, 4}, {1, 2, 3, 4}), w = make<float>({1, 1, 2}, {1, 10});
  EXPECT_EQ(list(conv1d(x, w)), (Doubles{21, 32, 43}));
  EXPECT_EQ(list(conv1d(x, w, make<float>(std::vector<float>{0.5F}))), (Doubles{21.5, 32.5, 43.5}));
  EXPECT_EQ(list(conv1d(x, w, {}, {.stride = 2, .padding = 1})), (Doubles{10, 32, 4}));
  EXPECT_EQ(list(conv1d(x, w, {}, {.dilation = 2})), (Doubles{31, 42}));
  EXPECT_EQ(list(conv1d(x, w, {}, {.padding = "same"})), (Doubles{21, 32, 43, 4})) << "one more zero behind";
  EXPECT_EQ(list(conv1d(x, w, {}, {.padding = "valid"})), (Doubles{21, 32, 43}));
  EXPECT_EQ(list(conv_transpose1d(x, w)), (Doubles{1, 12, 23, 34, 40}));
  EXPECT_EQ(list(conv_transpose1d(x, w, make<float>(std::vector<float>{1}),
                                  {.stride = 3, .padding = 1, .output_padding = 1})),
            (Doubles{11, 1, 3, 21, 1, 4, 31, 1, 5, 41}));
}

TEST(Convolution, ByHandInTwoDims) {
  const Tensor x = counted({1, 2, 2, 3}), w = counted({2, 1, 2, 2});  // two groups of one channel
  EXPECT_EQ(list(conv2d(x, w, {}, {.groups = 2})),
            (Doubles{0 + 1 + 6 + 12, 0 + 2 + 8 + 15, 4 * 6 + 5 * 7 + 6 * 9 + 7 * 10,
                     4 * 7 + 5 * 8 + 6 * 10 + 7 * 11}));
}

/// <conv(x), y> = <x, conv_transpose(y)>, which is what makes one the gradient of the other.
TEST(Convolution, TransposedOnesAreTheirGradients) {
  const Tensor x = random({2, 4, 9, 8}, DType::f64).requires_grad_(true),
               w = random({6, 2, 3, 2}, DType::f64);
  const Tensor y = conv2d(x, w, {}, {.stride = {2, 3}, .padding = {1, 0}, .dilation = {2, 1}, .groups = 2});
  const Tensor g = random(y.shape(), DType::f64);
  const Tensor want = grad({&y, 1}, {&x, 1}, {&g, 1})[0];
  const Tensor found = conv_transpose2d(
      g, w, {},
      {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {0, 0}, .groups = 2, .dilation = {2, 1}});
  EXPECT_EQ(found.shape(), want.shape());
  expect_near(found, list(want), 1e-12, 1e-12);
}

TEST(Convolution, SamplesWithoutABatch) {
  const Tensor x = random({3, 5, 6}, DType::f32), w = random({4, 3, 2, 3}, DType::f32);
  const Tensor one = conv2d(x, w), batched = conv2d(unsqueeze(x, 0), w);
  EXPECT_EQ(one.shape(), (Shape{4, 4, 4}));
  EXPECT_EQ(list(one), list(batched));
  const Tensor v = random({3, 2, 2, 2}, DType::f32);
  EXPECT_EQ(list(conv_transpose2d(x, v)), list(conv_transpose2d(unsqueeze(x, 0), v)));
}

TEST(Convolution, KeepsTheMemoryFormat) {
  const Tensor x = random({2, 6, 5, 7}, DType::f32), w = random({4, 6, 3, 3}, DType::f32);
  const Tensor last = x.contiguous(MemoryFormat::channels_last);
  const ConvOptions options{.padding = 1};
  const Tensor y = conv2d(x, w, {}, options), z = conv2d(last, w, {}, options);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_TRUE(z.is_contiguous(MemoryFormat::channels_last));
  EXPECT_FALSE(z.is_contiguous());
  expect_near(z, list(y), 1e-5, 1e-5);
  expect_near(conv2d(transpose(x, 2, 3), w, {}, options),
              list(conv2d(transpose(x, 2, 3).contiguous(), w, {}, options)), 0, 0);
  expect_near(conv2d(x, w.contiguous(MemoryFormat::channels_last), {}, options), list(y), 0, 0);
}

TEST(Convolution, EmptyInputs) {
  EXPECT_EQ(conv1d(zeros({0, 2, 5}), zeros({3, 2, 2})).shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(list(conv1d(zeros({1, 0, 3}), zeros({2, 0, 2}), make<float>(std::vector<float>{1, 2}))),
            (Doubles{1, 1, 2, 2}));
  EXPECT_EQ(
      list(conv1d(zeros({1, 1, 0}), ones({1, 1, 1}), make<float>(std::vector<float>{3}), {.padding = 1})),
      (Doubles{3, 3}));
  const Tensor x = zeros({0, 2, 5}).requires_grad_(true), w = ones({3, 2, 2}).requires_grad_(true);
  const Tensor y = conv1d(x, w);
  const std::vector<Tensor> inputs{x, w};
  const auto gradients = grad({&y, 1}, inputs, {&y, 1});
  EXPECT_EQ(gradients[0].shape(), x.shape());
  EXPECT_EQ(list(gradients[1]), Doubles(12, 0.0));
}

TEST(Convolution, ByNameWithListsAndWords) {
  const Tensor x = random({1, 2, 5, 6}, DType::f32), w = random({3, 2, 2, 3}, DType::f32);
  const auto call = [&](const Value& attrs) { return list(call_op("conv2d", {x, w, Tensor()}, attrs)[0]); };
  EXPECT_EQ(call(Value::Map{{"padding", "same"}}), list(conv2d(x, w, {}, {.padding = "same"})));
  EXPECT_EQ(call(Value::Map{{"padding", Value::list(1, 0)}, {"stride", 2}}),
            list(conv2d(x, w, {}, {.stride = 2, .padding = {1, 0}})));
  EXPECT_THROW((void)call(Value::Map{{"padding", "full"}}), ValueError);
  EXPECT_THROW((void)call(Value::Map{{"padding", 1.5}}), Error);
}

TEST(Convolution, Refusals) {
  const Tensor x = zeros({1, 4, 5, 5}), w = zeros({6, 4, 3, 3});
  const auto conv = [&](const ConvOptions& options) {
    return [&, options] { (void)conv2d(x, w, {}, options); };
  };
  EXPECT_EQ(
      message_of<Error>([&] {
        (void)conv2d(zeros({1, 4, 2, 5}), w);
      }),
      "conv2d: expected a kernel of at most 2, the padded input's size, in dim 0, got 3; pad more, or take "
      "a smaller kernel or dilation");
  EXPECT_EQ(message_of<Error>([&] {
              (void)conv2d(zeros({1, 3, 5, 5}), w);
            }),
            "conv2d: expected an input [N, 4, h, w] or [4, h, w], got [1, 3, 5, 5]; check weight and groups: "
            "channels are in dim 1");
  EXPECT_EQ(
      message_of<Error>(conv({.groups = 4})),
      "conv2d: expected a weight with channels in dim 0 divisible by groups = 4, got 6; choose groups that "
      "divides it");
  EXPECT_EQ(message_of<Error>(conv({.groups = 0})),
            "conv2d: expected at least 1 group, got 0; use groups = 1");
  EXPECT_EQ(message_of<Error>(conv({.stride = 0})),
            "conv2d: expected strides of at least 1, got [0]; check the arguments");
  EXPECT_EQ(message_of<Error>(conv({.padding = -1})),
            "conv2d: expected padding of at least 0, got [-1]; check the arguments");
  EXPECT_EQ(message_of<Error>(conv({.dilation = {1, 0}})),
            "conv2d: expected dilations of at least 1, got [1, 0]; check the arguments");
  EXPECT_EQ(
      message_of<Error>(conv({.stride = {1, 1, 1}})),
      "conv2d: expected 1 or 2 numbers for strides, got [1, 1, 1]; give one for all spatial dims, or one "
      "for each");
  EXPECT_EQ(message_of<Error>(conv({.stride = 2, .padding = "same"})),
            "conv2d: expected strides of 1 with padding \"same\", got [2, 2]; give the padding in numbers");
  EXPECT_EQ(message_of<Error>([] { (void)ConvPadding("full"); }),
            "ConvPadding: expected \"same\", \"valid\" or sizes, got \"full\"; use one of these words");
  EXPECT_EQ(message_of<Error>([&] { (void)conv2d(x, w, zeros({4})); }),
            "conv2d: expected a bias [6], got [4]; give it one element per output channel");
  EXPECT_EQ(message_of<Error>([&] { (void)conv2d(to(x, DType::i64), w); }),
            "conv2d: expected a floating tensor, got i64; convert it with to(DType::f32)");
  EXPECT_THROW((void)conv2d(x, to(w, DType::f64)), DTypeError);
  EXPECT_THROW((void)conv2d(x, w, zeros({6}, {.dtype = DType::f16})), DTypeError);
  EXPECT_THROW((void)conv2d(x, zeros({6, 4, 3})), ShapeError);
  EXPECT_THROW((void)conv2d(x, zeros({6, 4, 0, 3})), ShapeError);
  EXPECT_THROW((void)conv2d(zeros({5, 5}), w), ShapeError);
}

TEST(Convolution, RefusalsOfTransposedOnes) {
  const Tensor x = zeros({1, 4, 3}), w = zeros({4, 2, 3});
  EXPECT_EQ(
      message_of<Error>([&] { (void)conv_transpose1d(x, w, {}, {.stride = 2, .output_padding = 2}); }),
      "conv_transpose1d: expected output_padding below stride or dilation, 2 in dim 0, got 2; it chooses "
      "among the sizes that a stride rounds away");
  EXPECT_EQ(message_of<Error>([&] { (void)conv_transpose1d(x, w, {}, {.output_padding = -1}); }),
            "conv_transpose1d: expected output_padding of at least 0, got [-1]; check the arguments");
  EXPECT_EQ(
      message_of<Error>([&] { (void)conv_transpose1d(x, w, {}, {.padding = 3}); }),
      "conv_transpose1d: expected an output size of at least 0 in dim 0, got -1; pad less, or take a larger "
      "input");
  EXPECT_EQ(
      message_of<Error>([&] {
        (void)conv_transpose1d(zeros({1, 3, 3}), w);
      }),
      "conv_transpose1d: expected an input [N, 4, w] or [4, w], got [1, 3, 3]; check weight and groups: "
      "channels are in dim 1");
}

/// Sizes whose sums would not fit in 64 bits.
TEST(Convolution, HugeSizesAreRefused) {
  const Tensor x = zeros({1, 1, 4}), w = zeros({1, 1, 3});
  const Tensor long_x = zeros({0, 1, std::int64_t{1} << 50}),
               long_w = expand(zeros({1, 1, 1}), {1, 1, std::int64_t{1} << 50});
  constexpr std::int64_t kLarge = (std::int64_t{1} << 31) - 1;
  for (const std::int64_t size : {kHuge, kLarge + 1}) {
    EXPECT_THROW((void)conv1d(x, w, {}, {.stride = size}), ValueError);
    EXPECT_THROW((void)conv1d(x, w, {}, {.padding = size}), ValueError);
    EXPECT_THROW((void)conv1d(x, w, {}, {.dilation = size}), ValueError);
    EXPECT_THROW((void)conv_transpose1d(x, w, {}, {.stride = size}), ValueError);
  }
  EXPECT_THROW((void)conv1d(x, long_w, {}, {.padding = "same", .dilation = kLarge}), Error);
  EXPECT_THROW((void)conv1d(x, long_w, {}, {.dilation = kLarge}), ShapeError);
  EXPECT_THROW((void)conv_transpose1d(long_x, w, {}, {.stride = kLarge}), ShapeError);
  EXPECT_EQ(list(conv1d(ones({1, 1, 4}), ones({1, 1, 3}), {}, {.stride = kLarge})), (Doubles{3}));
}

}  // namespace
}  // namespace mezzo
