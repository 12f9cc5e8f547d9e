// interpolate with antialias beside torch.nn.functional.interpolate (2.15, f64). (The sweep has its op.)
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

/// sin(0.7 i) as [1, 2, 6, 5].
Tensor picture() { return sin(arange(60, DType::f64) * 0.7).view({1, 2, 6, 5}); }

/// `squares`: of the gradient of sum(y * [1, 2, 3, ...]).
void expect_torch(const InterpolateOptions& options, const Shape& shape, const std::vector<double>& values,
                  double squares) {
  const Tensor x = picture().requires_grad_();
  const Tensor y = interpolate(x, options);
  EXPECT_TRUE(allclose(y, tensor(values, shape, {.dtype = DType::f64}), 1e-10, 1e-12)) << y;
  (y * arange(1, y.numel() + 1, DType::f64).view(shape)).sum().backward();
  EXPECT_NEAR(square(x.grad()).sum().item(), squares, 1e-9 * squares);
}

TEST(InterpolateAntialias, BilinearIsTorchs) {
  expect_torch({.size = {3, 2}, .mode = InterpolateMode::bilinear, .antialias = true}, {1, 2, 3, 2},
               {0.034546636781, 0.120655021922, 4.11448745142e-05, 0.00468446110418, -0.0325029449905,
                0.112025106881, 0.0789826637862, -0.0812700365366, 0.00392946473825, -0.00205715652669,
                0.116196320753, -0.0209102217586},
               133.284185782);
  expect_torch({.scale_factor = {0.4, 0.7}, .mode = InterpolateMode::bilinear, .antialias = true},
               {1, 2, 2, 3},
               {-0.0124785894622, 0.0581670359312, 0.0816744971125, -0.0343476915969, -0.00943609221786,
                0.0244637449077, 0.078393064644, 0.0196956160587, -0.0580097478484, 0.0312813557448,
                0.0348469359775, 0.00874355215911},
               149.400625009);
}

TEST(InterpolateAntialias, BicubicIsTorchs) {
  expect_torch({.size = {3, 2}, .mode = InterpolateMode::bicubic, .antialias = true}, {1, 2, 3, 2},
               {0.0260787359227, 0.131682780484, 0.00072375795188, -0.0141447335216, -0.0393226534385,
                0.12714917232, 0.0955098112159, -0.0919417689179, -0.0122436909571, 0.00692623476632,
                0.128535303179, -0.0348001642124},
               134.87175188);
  expect_torch({.size = {2, 7}, .mode = InterpolateMode::bicubic, .align_corners = true, .antialias = true},
               {1, 2, 2, 7},
               {-0.0446537110655, -0.0163561756235, 0.0266073302612, 0.0610644407055,  0.0811383767369,
                0.0839654151311,  0.0664661865023,  -0.343173816212, -0.279215249154,  -0.154729465162,
                0.00612514246467, 0.160032067706,   0.281510599271,  0.340813716003,   0.0871655773264,
                0.077024213401,   0.0535839690432,  0.0168606448425, -0.0222169131924, -0.0570385798584,
                -0.0798068550324, 0.263713369255,   0.311674648605,  0.346134263496,   0.288285640271,
                0.170246605325,   0.0137944696007,  -0.154364571124},
               5731.17385469);
}

TEST(InterpolateAntialias, KeepsDtypeAndFormatAndRoundsOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = picture().to(dtype).to(MemoryFormat::channels_last);
    const InterpolateOptions options{.size = {3, 3}, .mode = InterpolateMode::bicubic, .antialias = true};
    const Tensor y = interpolate(x, options);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
    EXPECT_TRUE(equal(y, interpolate(x.to(DType::f32), options).to(dtype)));
  }
  const amp::Autocast autocast(DType::bf16);
  EXPECT_EQ(interpolate(picture().to(DType::bf16),
                        {.size = 2, .mode = InterpolateMode::bilinear, .antialias = true})
                .dtype(),
            DType::bf16);
}

TEST(InterpolateAntialias, DoesNothingToASizeThatStays) {
  EXPECT_TRUE(
      allclose(interpolate(picture(), {.size = {6, 5}, .mode = InterpolateMode::bilinear, .antialias = true}),
               picture(), 0, 0));
}

TEST(InterpolateAntialias, Refuses) {
  const auto call = [](const Tensor& x, InterpolateMode mode) {
    static_cast<void>(interpolate(x, {.size = 2, .mode = mode, .antialias = true}));
  };
  EXPECT_THROW(call(picture(), InterpolateMode::nearest), ValueError);
  EXPECT_THROW(call(ones({1, 2, 6}), InterpolateMode::linear), ValueError);
  EXPECT_THROW(call(ones({1, 2, 6}), InterpolateMode::bilinear), ShapeError);
  EXPECT_THROW(call(ones({1, 2, 6, 6}, DType::i64), InterpolateMode::bilinear), DTypeError);
  EXPECT_THROW(call(ones({1, 2, 0, 6}), InterpolateMode::bilinear), ShapeError);
  EXPECT_THROW(call(Tensor(), InterpolateMode::bilinear), ValueError);
}

}  // namespace
}  // namespace mezzo
