// unfold and fold: columns by hand, agreement with a plain second implementation, each the adjoint of the
// other, and what is refused.
#include "mezzo/ops/fold.h"

#include <gtest/gtest.h>

#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"
#include "mezzo/tests/ops/pooling_support.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

TEST(Unfold, PutsBlocksIntoColumns) {
  const Tensor x = counted({1, 2, 2, 3});
  // Windows at columns 0 and 1; rows: channel 0's four places, then channel 1's.
  EXPECT_EQ(list(unfold(x, {.kernel_size = 2})),
            (Doubles{0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11}));
  EXPECT_EQ(unfold(x, {.kernel_size = 2}).shape(), (Shape{1, 8, 2}));
  const Tensor padded =
      unfold(counted({1, 1, 3}), {.kernel_size = {1, 2}, .padding = {0, 1}, .stride = {1, 2}});
  EXPECT_EQ(list(padded), (Doubles{0, 1, 0, 2}));
}

TEST(Fold, SumsWhatFallsOnAPlace) {
  // Each place of a 3 x 3 image is in 1, 2 or 4 of the four blocks of 2 x 2.
  const Tensor image = fold(ones({1, 4, 4}), 3, {.kernel_size = 2});
  EXPECT_EQ(list(image), (Doubles{1, 2, 1, 2, 4, 2, 1, 2, 1}));
  // Sums of 16-bit values are rounded once.
  const Tensor sums =
      fold(full({1, 9, 9}, 1 + 0x1p-7, {.dtype = DType::bf16}), 3, {.kernel_size = 3, .padding = 1});
  EXPECT_EQ(list(sums)[4], 9.0625);  // 9 (1 + 2^-7) = 9.0703125, of which bf16 has 8 bits
}

struct FoldCase {
  Shape image;  ///< [N, C, H, W]
  Sizes3 kernel, stride, padding, dilation;
};
const FoldCase kCases[] = {
    {{2, 3, 5, 20}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {{1, 2, 9, 17}, {1, 2, 3}, {1, 2, 2}, {0, 0, 2}, {1, 3, 1}},
    {{2, 1, 6, 10}, {1, 4, 2}, {1, 3, 4}, {0, 5, 3}, {1, 1, 2}},  // padding beyond the kernel
};

TEST(Unfold, AgreesWithThePlainOne) {
  for (const FoldCase& c : kCases) {
    SCOPED_TRACE(to_string(c.image));
    const FoldOptions options{.kernel_size = {c.kernel[1], c.kernel[2]},
                              .dilation = {c.dilation[1], c.dilation[2]},
                              .padding = {c.padding[1], c.padding[2]},
                              .stride = {c.stride[1], c.stride[2]}};
    Sizes3 output{1, 1, 1};
    for (std::size_t d = 1; d < 3; ++d)
      output[d] =
          (c.image[d + 1] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    const auto planes = static_cast<std::size_t>(c.image[0] * c.image[1]);
    const std::int64_t places = c.image[2] * c.image[3], windows = volume(output), kernels = volume(c.kernel);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      const Tensor x = counted(c.image, dtype);
      const Tensor g =
          sub(remainder(counted({c.image[0], c.image[1] * kernels, windows}, DType::f64), 7), 3).to(dtype);
      const Doubles in = list(x), grad = list(g);
      Doubles columns(grad.size(), 0), image(in.size(), 0);
      for (std::int64_t k = 0; k < kernels; ++k) {
        const PlainWindows one{{1, 1, 1},
                               c.stride,
                               {0, c.padding[1] - k / c.kernel[2] * c.dilation[1],
                                c.padding[2] - k % c.kernel[2] * c.dilation[2]}};
        each_place(spatial3(c.image), output, one, [&](std::size_t window, std::size_t place) {
          for (std::size_t p = 0; p < planes; ++p) {
            const std::size_t column = (p * static_cast<std::size_t>(kernels) + static_cast<std::size_t>(k)) *
                                           static_cast<std::size_t>(windows) +
                                       window;
            const std::size_t at = p * static_cast<std::size_t>(places) + place;
            columns[column] = in[at];
            image[at] += grad[column];
          }
        });
      }
      EXPECT_EQ(list(unfold(x, options)), columns);
      EXPECT_EQ(list(unfold(strided_copy(x), options)), columns);
      const Tensor leaf = x.detach().requires_grad_();
      unfold(leaf, options).backward(g, {});
      EXPECT_EQ(list(leaf.grad()), image);  // small whole numbers: exact
      EXPECT_EQ(list(fold(g, {c.image[2], c.image[3]}, options)), image);
    }
  }
}

TEST(Fold, RefusesWhatDoesNotFit) {
  const FoldOptions two{.kernel_size = 2};
  const auto refused = [](const std::function<void()>& f) { return message_of<Error>(f); };
  EXPECT_NE(refused([&] {
              (void)fold(zeros({1, 8, 8}), 4, two);
            }).find("columns [N, C * 4, 9] or [C * 4, 9], got [1, 8, 8]"),
            std::string::npos);
  EXPECT_THROW((void)fold(zeros({1, 9, 9}), 4, two), ShapeError);
  EXPECT_THROW((void)fold(zeros({1, 0, 9}), 4, two), ShapeError);
  EXPECT_THROW((void)fold(zeros({9}), 4, two), ShapeError);
  EXPECT_THROW((void)fold(zeros({1, 8, 9}), 0, two), ValueError);
  EXPECT_THROW((void)fold(zeros({1, 8, 9}, {.dtype = DType::i64}), 4, two), DTypeError);
  EXPECT_NE(refused([&] {
              (void)unfold(zeros({1, 2, 3, 3}), {.kernel_size = 4});
            }).find("a kernel of at most 3, the padded image, got 4"),
            std::string::npos);
  EXPECT_THROW((void)unfold(zeros({1, 2, 3}), {.kernel_size = 1, .stride = 0}), ValueError);
  EXPECT_THROW((void)unfold(zeros({1, 2, 0, 3}), {.kernel_size = 1, .padding = 1}), ShapeError);
  EXPECT_THROW((void)unfold(zeros({3, 3}), two), ShapeError);
  EXPECT_EQ(unfold(zeros({0, 2, 3, 3}), two).shape(), (Shape{0, 8, 4}));
  EXPECT_EQ(fold(zeros({0, 8, 4}), 3, two).shape(), (Shape{0, 2, 3, 3}));
}

}  // namespace
}  // namespace mezzo
