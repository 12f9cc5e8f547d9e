// Padding and upsampling layers: what they call, how they print, what they refuse.
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo::nn {
namespace {

const Tensor kRow = tensor({{{1.0, 2, 3}}});  // [1, 1, 3]

TEST(PadLayers, ShowTheirModes) {
  EXPECT_TRUE(equal(ConstantPad1d(1, 9)(kRow), tensor({{{9.0, 1, 2, 3, 9}}})));
  EXPECT_TRUE(equal(ZeroPad1d({2, 0})(kRow), tensor({{{0.0, 0, 1, 2, 3}}})));
  EXPECT_TRUE(equal(ReflectionPad1d(2)(kRow), tensor({{{3.0, 2, 1, 2, 3, 2, 1}}})));
  EXPECT_TRUE(equal(ReplicationPad1d({1, 2})(kRow), tensor({{{1.0, 1, 2, 3, 3, 3}}})));
  EXPECT_TRUE(equal(CircularPad1d(1)(kRow), tensor({{{3.0, 1, 2, 3, 1}}})));
  EXPECT_TRUE(equal(ZeroPad1d({-1, 0})(kRow), tensor({{{2.0, 3}}})));
}

TEST(PadLayers, PadTheLastDimsFirst) {
  const Tensor x = randn({2, 3, 4, 5});
  EXPECT_EQ(ZeroPad2d({1, 2, 3, 4})(x).shape(), (Shape{2, 3, 11, 8}));
  EXPECT_TRUE(equal(ReflectionPad2d({1, 2, 3, 0})(x), pad(x, {1, 2, 3, 0}, PadMode::reflect)));
  EXPECT_TRUE(equal(ReplicationPad3d(1)(x), pad(x, {1, 1, 1, 1, 1, 1}, PadMode::replicate)));
  EXPECT_EQ(to_string(ConstantPad2d({1, 2, 3, 4}, 0.5)), "ConstantPad2d(padding=[1, 2, 3, 4], value=0.5)");
  EXPECT_EQ(to_string(ReflectionPad1d(2)), "ReflectionPad1d(padding=[2, 2])");
  EXPECT_EQ(CircularPad3d(1).padding().size(), 6U);
  EXPECT_THROW(ZeroPad2d({1, 2}), ValueError);
  EXPECT_THROW(static_cast<void>(ReflectionPad1d(3)(kRow)), ShapeError);
}

TEST(PadLayers, HaveGradients) {
  const Tensor x = kRow.clone().requires_grad_();
  (ReflectionPad1d(1)(x) * tensor({1.0, 10, 100, 1000, 10000})).sum().backward();
  EXPECT_TRUE(equal(x.grad(), tensor({{{10.0, 10101, 1000}}})));
}

TEST(UpsamplingLayers, CallTheirFunctions) {
  const Tensor x = randn({1, 4, 2, 3});
  EXPECT_TRUE(equal(Upsample({.scale_factor = 2})(x), interpolate(x, {.scale_factor = 2})));
  const Upsample::Options bilinear{.size = {5, 4}, .mode = InterpolateMode::bilinear};
  EXPECT_TRUE(equal(Upsample(bilinear)(x), interpolate(x, bilinear)));
  EXPECT_TRUE(equal(PixelShuffle(2)(x), pixel_shuffle(x, 2)));
  EXPECT_EQ(to_string(Upsample(bilinear)), "Upsample(size=[5, 4], mode=bilinear)");
  EXPECT_EQ(to_string(Upsample({.scale_factor = 2})), "Upsample(scale_factor=[2.0], mode=nearest)");
  EXPECT_EQ(to_string(PixelShuffle(2)), "PixelShuffle(upscale_factor=2)");
  Sequential net(Conv2d(1, 4, 3, {.padding = 1}), PixelShuffle(2), ReflectionPad2d(1),
                 Upsample({.scale_factor = 2}));
  EXPECT_EQ(net(ones({1, 1, 3, 3})).shape(), (Shape{1, 1, 16, 16}));
}

}  // namespace
}  // namespace mezzo::nn
