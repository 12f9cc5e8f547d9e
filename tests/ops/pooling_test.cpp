// Poolings: values by hand and against a plain second implementation on every way that the kernels take,
// layouts, what is refused, and that the bits do not depend on threads.
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/pooling.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"
#include "mezzo/tests/ops/pooling_support.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Whole numbers in [-3, 3], so that windows hold equal ones.
Tensor few_values(const Shape& shape, DType dtype) {
  Generator generator(7);
  return round(uniform(-3, 3, shape, {.dtype = DType::f64}, generator)).to(dtype);
}
Tensor formatted(const Tensor& x, MemoryFormat format) { return x.contiguous(format).detach(); }

/// Sizes of a pooling, all that there are; `input` without N and C.
struct PoolCase {
  Shape input;
  SpatialSizes kernel, stride, padding, dilation = 1;
  bool ceil_mode = false;
};
/// On both sides of every change of way: few and many windows along a row, distances 1, 2 and others, with
/// padding on either side, dilated, one to many places per window.
const std::vector<PoolCase>& cases() {
  static const std::vector<PoolCase> list{
      {{9}, 3, 2, 1},
      {{40}, 3, 1, 1},
      {{41}, 2, 2, 0},
      {{50}, {5}, {3}, {2}, 1, true},
      {{37}, 4, 2, 2, 3},
      {{400}, 70, 2, 35},
      {{7, 7}, 7, 7, 0},
      {{11, 33}, {3, 3}, {2, 2}, {1, 1}},
      {{8, 19}, {2, 5}, {1, 1}, {1, 2}, {2, 1}},
      {{5, 30}, {2, 2}, {3, 3}, {0, 1}, 1, true},
      {{4, 5, 20}, {2, 3, 2}, {2, 1, 2}, {1, 1, 0}},
      {{5, 4, 6}, {3, 2, 3}, {1, 2, 2}, {1, 0, 1}, {2, 1, 2}, true},
      // Groups of windows of every width, beyond the end of a row, and rows and places that no window covers.
      {{28, 28}, 2, 2, 0},
      {{14, 14}, 2, 2, 0},
      {{8, 8}, 2, 2, 0},
      {{9, 15}, 2, 2, 0},
      {{9, 67}, 2, 2, 0, 1, true},
      {{6, 140}, 2, 2, 0},
      {{13, 57}, 3, 2, 1},
      {{12, 12}, {5, 4}, {3, 2}, {2, 2}},
      {{7, 90}, {1, 9}, {2, 4}, {0, 4}},
      {{11, 33}, {2, 3}, {4, 5}, {0, 0}},
      {{6, 20}, {3, 3}, {1, 1}, {1, 1}},
      {{3, 6, 18}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
  };
  return list;
}

Sizes3 three(const SpatialSizes& sizes, std::size_t spatial, std::int64_t missing) {
  Sizes3 result{missing, missing, missing};
  for (std::size_t d = 0; d < spatial; ++d) result[3 - spatial + d] = sizes[sizes.size() == 1 ? 0 : d];
  return result;
}
PlainWindows windows_of(const PoolCase& c) {
  const std::size_t n = c.input.size();
  return {three(c.kernel, n, 1), three(c.stride, n, 1), three(c.padding, n, 0), three(c.dilation, n, 1)};
}
Shape images(const PoolCase& c, std::int64_t channels) {
  Shape shape{2, channels};
  for (const std::int64_t size : c.input) shape.push_back(size);
  return shape;
}
ValuesIndices max_pooled(const Tensor& x, const PoolCase& c) {
  const MaxPoolOptions options{c.kernel, c.stride, c.padding, c.dilation, c.ceil_mode};
  if (c.input.size() == 1) return max_pool1d_with_indices(x, options);
  return c.input.size() == 2 ? max_pool2d_with_indices(x, options) : max_pool3d_with_indices(x, options);
}
Tensor averaged(const Tensor& x, const PoolCase& c, bool count_include_pad,
                std::optional<std::int64_t> divisor = {}) {
  const AvgPoolOptions options{c.kernel, c.stride, c.padding, c.ceil_mode, count_include_pad, divisor};
  if (c.input.size() == 1) return avg_pool1d(x, options);
  return c.input.size() == 2 ? avg_pool2d(x, options) : avg_pool3d(x, options);
}
/// Places of each window in the input or its padding: those in an input that much larger.
Doubles counts_with_padding(const Tensor& x, const Tensor& y, const PoolCase& c) {
  PlainWindows windows = windows_of(c);
  Sizes3 input = spatial3(x.shape());
  for (std::size_t d = 0; d < 3; ++d) input[d] += 2 * windows.padding[d];
  windows.padding = {0, 0, 0};
  return places_inside(input, spatial3(y.shape()), windows);
}
constexpr MemoryFormat kFormats[] = {MemoryFormat::contiguous, MemoryFormat::channels_last};

void expect_near(const Tensor& got, const Doubles& want, double relative, const char* what) {
  const Doubles values = list(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], want[i], relative * (1 + std::abs(want[i]))) << what << " element " << i;
}

// --- max

TEST(MaxPool, FindsTheLargestAndItsPlace) {
  const Tensor x = make<float>({1, 1, 4, 4}, {1, 2, 5, 0, 4, 3, 1, 2, 9, 0, -1, -2, 0, 8, -3, -1});
  const ValuesIndices found = max_pool2d_with_indices(x, {.kernel_size = 2});
  EXPECT_EQ(list(found.values), (Doubles{4, 5, 9, -1}));
  EXPECT_EQ(list(found.indices), (Doubles{4, 2, 8, 10}));
  const ValuesIndices padded = max_pool2d_with_indices(x, {.kernel_size = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(list(padded.values), (Doubles{4, 5, 9, 8}));
  EXPECT_EQ(list(padded.indices), (Doubles{4, 2, 8, 13}));
  EXPECT_EQ(list(max_pool2d(x, {.kernel_size = 3, .stride = {2, 1}})), (Doubles{9, 5}));
}

TEST(MaxPool, TakesTheFirstOfEqualOnesAndTheLastNaN) {
  const auto row = [](const Doubles& values) {
    return make<double>({1, 1, static_cast<std::int64_t>(values.size())}, values);
  };
  EXPECT_EQ(list(max_pool1d_with_indices(row({2, 2, 1, 0, 3, 3}), {.kernel_size = 3}).indices),
            (Doubles{0, 4}));
  const ValuesIndices nans = max_pool1d_with_indices(row({1, kNan, 2, kNan, kNan, 6}), {.kernel_size = 3});
  EXPECT_EQ(list(nans.indices), (Doubles{1, 4}));
  EXPECT_TRUE(std::isnan(list(nans.values)[0]) && std::isnan(list(nans.values)[1]));
  // Padding never wins, and a window of nothing but -inf has a place in it.
  const ValuesIndices low =
      max_pool1d_with_indices(row(Doubles(4, -kInf)), {.kernel_size = 3, .stride = 1, .padding = 1});
  EXPECT_EQ(list(low.indices), (Doubles{0, 0, 1, 2}));
  EXPECT_EQ(list(low.values), Doubles(4, -kInf));
}

TEST(MaxPool, AgreesWithThePlainOneOnEveryWay) {
  for (const PoolCase& c : cases()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const std::int64_t channels : {1, 5, 21}) {
        if (channels > 5 && (c.input.size() != 2 || c.input[1] > 30)) continue;
        const Tensor x = few_values(images(c, channels), dtype);
        const Shape shape = max_pooled(x, c).values.shape();
        const Tensor grad = few_values(shape, dtype);
        const PlainPooled want = naive_max(x, grad, windows_of(c));
        for (const MemoryFormat format : kFormats) {
          SCOPED_TRACE(to_string(x.shape()) + " " + to_string(dtype));
          const Tensor leaf = formatted(x, format).requires_grad_();
          const ValuesIndices got = max_pooled(leaf, c);
          EXPECT_EQ(list(got.values), want.values);
          EXPECT_EQ(list(got.indices), want.indices);
          got.values.backward(grad, {});
          EXPECT_EQ(list(leaf.grad()), want.gradient);  // sums of small whole numbers are exact
        }
      }
    }
  }
}

/// One of values that are hard to compare, at each place; NaN or not. The last five are the smallest number,
/// two neighbours of 1, and the largest numbers.
Tensor hard_values(const Shape& shape, DType dtype, bool with_nan) {
  const double smallest = dtype == DType::f16 ? 0x1p-24 : dtype == DType::bf16 ? 0x1p-133 : 0x1p-149;
  const double largest = dtype == DType::f16 ? 65504 : dtype == DType::bf16 ? 0x1.FEp127 : 0x1.FFFFFEp127;
  const Doubles choice{0.0,   -0.0,     kInf, -kInf, -smallest, smallest, 1, 1 + info(dtype).eps,
                       -kInf, -largest, -1,   kNan,  -kNan};
  const std::size_t count = choice.size() - (with_nan ? 0 : 2);
  Doubles values;
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < layout::numel(shape); ++i) {
    state = state * 1664525 + 1013904223;
    // Windows of nothing but the smallest too, and few NaN.
    const std::size_t k = (state >> 16) % (i % 97 < 40 ? 2 : with_nan && i % 5 != 0 ? count - 2 : count);
    values.push_back(i % 97 < 20 ? -kInf : choice[k]);
  }
  return make<double>(shape, values).to(dtype);
}

TEST(MaxPool, ComparesHardValuesAsThePlainOne) {
  for (const PoolCase& c : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const bool with_nan : {false, true}) {
        const Tensor x = hard_values(images(c, 9), dtype, with_nan);
        const Tensor grad = hard_values(max_pooled(x, c).values.shape(), dtype, false);
        const PlainPooled want = naive_max(x, grad, windows_of(c));
        for (const MemoryFormat format : kFormats) {
          SCOPED_TRACE(to_string(x.shape()) + " " + to_string(dtype) + (with_nan ? " NaN" : ""));
          const ValuesIndices got = max_pooled(formatted(x, format), c);
          EXPECT_EQ(list(got.indices), want.indices);
          const Doubles values = list(got.values);
          for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(std::signbit(values[i]), std::signbit(want.values[i])) << i;
            ASSERT_TRUE(values[i] == want.values[i] || (std::isnan(values[i]) && std::isnan(want.values[i])));
          }
        }
      }
    }
  }
}

TEST(MaxPool, AddsGradientsInTheOrderOfWindows) {
  // Every window of 3 by 3 with stride 1 finds the one large element, so its place adds nine gradients, whose
  // sum in f32 depends on the order.
  Tensor x = zeros({2, 3, 9, 40});
  Doubles values(static_cast<std::size_t>(x.numel()), 0.0);
  for (std::size_t image = 0; image < 6; ++image) values[image * 360 + 4 * 40 + 20] = 1;
  x = make<double>(x.shape(), values).to(DType::f32);
  Generator generator(5);
  const Tensor grad = exp(uniform(-20, 20, x.shape(), {}, generator));
  const std::vector<double> g = list(grad);
  for (const MemoryFormat format : kFormats) {
    const Tensor leaf = formatted(x, format).requires_grad_();
    max_pool2d(leaf, {.kernel_size = 3, .stride = 1, .padding = 1}).backward(grad, {});
    const Doubles got = list(leaf.grad());
    for (std::size_t image = 0; image < 6; ++image) {
      float sum = 0;
      for (std::size_t h = 3; h < 6; ++h)
        for (std::size_t w = 19; w < 22; ++w) sum += static_cast<float>(g[image * 360 + h * 40 + w]);
      EXPECT_EQ(got[image * 360 + 4 * 40 + 20], static_cast<double>(sum));
    }
  }
}

TEST(MaxPool, TakesIntegersButNoBools) {
  const Tensor x = make<double>({1, 2, 3}, {-7, -5, -9, 3, 200, 100});
  for (const DType dtype : {DType::i32, DType::i64}) {
    const Tensor y = max_pool1d(x.to(dtype), {.kernel_size = 2, .stride = 1});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(list(y), (Doubles{-5, -5, 200, 200}));
  }
  EXPECT_EQ(list(max_pool1d(abs(x).to(DType::u8), {.kernel_size = 3})), (Doubles{9, 200}));
  EXPECT_THROW((void)max_pool1d(x.to(DType::boolean), {.kernel_size = 2}), DTypeError);
}

TEST(MaxPool, RefusesIndicesThatAreNoPlaces) {
  const Value attrs = Value::Map{{"kernel_size", 2}, {"size", Value::list(4)}};
  const Tensor grad = make<float>({1, 2, 2}, {1, 2, 3, 4});
  const auto indices = [](const std::vector<std::int64_t>& values) {
    return make<std::int64_t>({1, 2, 2}, values);
  };
  EXPECT_EQ(list(call_op("max_pool_backward", {grad, indices({0, 3, 1, 2})}, attrs)[0]),
            (Doubles{1, 0, 0, 2, 0, 3, 4, 0}));
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{4}}) {
    const std::string message = message_of<IndexError>([&] {
      (void)call_op("max_pool_backward", {grad, indices({0, 3, wrong, 2})}, attrs);
    });
    EXPECT_NE(message.find("indices in [0, 4), got " + std::to_string(wrong)), std::string::npos) << message;
  }
  EXPECT_THROW((void)call_op("max_pool_backward", {grad, indices({0, 3, 1, 2}).to(DType::i32)}, attrs),
               DTypeError);
}

/// What max_pool_backward says of one image, by its definition.
Doubles added_at(const Tensor& grad, const std::vector<std::int64_t>& indices, std::int64_t places) {
  Doubles result(static_cast<std::size_t>(places));
  const Doubles g = list(grad);
  for (std::size_t i = 0; i < g.size(); ++i) result[static_cast<std::size_t>(indices[i])] += g[i];
  return result;
}

TEST(MaxPool, GradientGoesByTheIndicesEvenIfTheyAreNotInTheirWindows) {
  struct Case {
    std::int64_t kernel, stride, padding, height, width, out_height, out_width;
  };
  for (const Case& c : {Case{2, 2, 0, 8, 12, 4, 6}, Case{3, 2, 1, 9, 11, 5, 6}, Case{3, 1, 1, 6, 7, 6, 7}}) {
    const std::int64_t places = c.height * c.width, windows = c.out_height * c.out_width;
    const Value attrs = Value::Map{{"kernel_size", c.kernel},
                                   {"stride", c.stride},
                                   {"padding", c.padding},
                                   {"size", Value::list(c.height, c.width)}};
    const Tensor grad = rand({1, 1, c.out_height, c.out_width});
    const Tensor x = rand({1, 1, c.height, c.width});
    const std::vector<std::int64_t> own =
        max_pool2d_with_indices(x, {.kernel_size = c.kernel, .stride = c.stride, .padding = c.padding})
            .indices.to_vector<std::int64_t>();
    // One window after the other is sent to each of the places: beside it, across a side of the image, far.
    for (std::int64_t window = 0; window < windows; ++window) {
      for (const std::int64_t place :
           {std::int64_t{0}, c.width - 1, c.width, 2 * c.width - 1, places / 2, places - 1}) {
        std::vector<std::int64_t> moved = own;
        moved[static_cast<std::size_t>(window)] = place;
        const Tensor indices = tensor(moved).reshape(grad.shape());
        const Doubles got = list(call_op("max_pool_backward", {grad, indices}, attrs)[0]);
        const Doubles want = added_at(grad, moved, places);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(got[i], want[i], 1e-6) << window << " at " << place << ", element " << i;
      }
    }
  }
}

// --- mean

TEST(AvgPool, DividesByWhatCounts) {
  // Windows at -1, 1, 3 over five ones: {pad, 1}, {1, 1}, {1, 1}; with ceil_mode and padding on the right.
  const Tensor x = ones({1, 1, 5});
  EXPECT_EQ(list(avg_pool1d(x, {.kernel_size = 2, .stride = 2, .padding = 1, .ceil_mode = true})),
            (Doubles{0.5, 1, 1}));
  const AvgPoolOptions inside{
      .kernel_size = 2, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false};
  EXPECT_EQ(list(avg_pool1d(x, inside)), (Doubles{1, 1, 1}));
  // What ceil_mode lets stand out beyond the padding never counts: the last window has one place.
  EXPECT_EQ(list(avg_pool1d(x, {.kernel_size = 2, .ceil_mode = true})), (Doubles{1, 1, 1}));
  EXPECT_EQ(list(avg_pool1d(x, {.kernel_size = 2, .divisor_override = -4})), (Doubles{-0.5, -0.5}));
}

TEST(AvgPool, AgreesWithThePlainOneOnEveryWay) {
  for (PoolCase c : cases()) {
    c.dilation = 1;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const std::int64_t channels : {1, 5, 21}) {
        if (channels > 5 && (c.input.size() != 2 || c.input[1] > 30)) continue;
        const Tensor x = few_values(images(c, channels), dtype);
        const Tensor grad = few_values(averaged(x, c, false).shape(), dtype);
        const Doubles counts = places_inside(spatial3(x.shape()), spatial3(grad.shape()), windows_of(c));
        const PlainPooled want = naive_mean(x, grad, windows_of(c), counts);
        const PlainPooled padded = naive_mean(x, grad, windows_of(c), counts_with_padding(x, grad, c));
        const PlainPooled thirds = naive_mean(x, grad, windows_of(c), Doubles(counts.size(), 3));
        for (const MemoryFormat format : kFormats) {
          SCOPED_TRACE(to_string(x.shape()) + " " + to_string(dtype));
          const double relative = 8 * info(dtype).eps;  // sums are exact; one division each
          const Tensor leaf = formatted(x, format).requires_grad_();
          const Tensor y = averaged(leaf, c, false);
          expect_near(y, want.values, relative, "mean");
          y.backward(grad, {});
          expect_near(leaf.grad(), want.gradient, relative, "gradient");
          expect_near(averaged(leaf, c, true), padded.values, relative, "mean with padding");
          expect_near(averaged(leaf, c, true, 3), thirds.values, relative, "thirds");
        }
      }
    }
  }
}

TEST(AvgPool, Has16BitResultsThatAreRoundedF32Ones) {
  Generator generator(11);
  for (const PoolCase& c :
       {PoolCase{{28, 30}, 2, 2, 0}, PoolCase{{9, 23}, 2, 2, 0}, PoolCase{{12, 40}, 3, 2, 1}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const MemoryFormat format : kFormats) {
        SCOPED_TRACE(to_string(c.input) + " " + to_string(dtype));
        const Tensor x = formatted(uniform(-9, 9, images(c, 18), {}, generator).to(dtype), format);
        const Tensor low = x.detach().requires_grad_(), wide = x.to(DType::f32).detach().requires_grad_();
        const Tensor y = averaged(low, c, true), want = averaged(wide, c, true);
        EXPECT_EQ(list(y), list(want.to(dtype)));
        const Tensor grad = formatted(uniform(-9, 9, y.shape(), {}, generator).to(dtype), format);
        y.backward(grad, {});
        want.backward(grad.to(DType::f32), {});
        EXPECT_EQ(list(low.grad()), list(wide.grad().to(dtype)));
      }
    }
  }
}

TEST(AvgPool, Rounds16BitSumsOnce) {
  // Added up in bf16, the 64 larger ones would lose their last bit.
  const Tensor x = cat({ones({1, 1, 64}), full({1, 1, 64}, 1 + 0x1p-7)}, 2).to(DType::bf16);
  EXPECT_EQ(list(avg_pool1d(x, {.kernel_size = 64})), (Doubles{1, 1 + 0x1p-7}));
  EXPECT_EQ(list(adaptive_avg_pool1d(x, 1)), Doubles{1});  // 1 + 2^-8, to even
}

// --- adaptive

TEST(AdaptivePools, ShareTheInputOut) {
  const Tensor x = make<double>({1, 1, 5}, {1, 2, 3, 4, 10});
  EXPECT_EQ(list(adaptive_avg_pool1d(x, 2)), (Doubles{2, 17.0 / 3}));  // [0, 3) and [2, 5)
  EXPECT_EQ(list(adaptive_max_pool1d_with_indices(x, 3).indices), (Doubles{1, 3, 4}));
  EXPECT_EQ(list(adaptive_avg_pool1d(x, 10)), (Doubles{1, 1, 2, 2, 3, 3, 4, 4, 10, 10}));
  EXPECT_EQ(adaptive_avg_pool2d(zeros({2, 3, 4, 4}), {0, 2}).shape(), (Shape{2, 3, 0, 2}));
  // std::nullopt, torch's None, keeps a size.
  const Tensor images = zeros({2, 3, 4, 6});
  EXPECT_EQ(adaptive_avg_pool2d(images, {std::nullopt, 3}).shape(), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(adaptive_max_pool2d(images, {2, std::nullopt}).shape(), (Shape{2, 3, 2, 6}));
  EXPECT_EQ(adaptive_avg_pool2d(images, std::nullopt).shape(), images.shape());
  EXPECT_EQ(adaptive_max_pool3d_with_indices(unsqueeze(images, 2), {1, std::nullopt, 1}).indices.shape(),
            (Shape{2, 3, 1, 4, 1}));
  nn::AdaptiveAvgPool2d layer({std::nullopt, 3});
  EXPECT_EQ(layer(images).shape(), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(layer.extra_repr(), "output_size=[None, 3]");
  EXPECT_THROW((void)adaptive_avg_pool2d(images, {-1, 3}), ValueError);
  EXPECT_THROW((void)adaptive_avg_pool2d(images, {std::nullopt, 3, 3}), ValueError);
}

TEST(AdaptivePools, AgreeWithThePlainOnes) {
  const std::pair<Shape, Shape> sizes[] = {{{2, 3, 7}, {3}},       {{2, 5, 30}, {13}},
                                           {{2, 5, 7, 5}, {3, 2}}, {{2, 4, 6, 8}, {1, 1}},
                                           {{2, 5, 3, 4}, {5, 4}}, {{2, 3, 4, 5, 3}, {2, 3, 5}}};
  for (const auto& [shape, size] : sizes) {
    const Tensor x = few_values(shape, DType::f32);
    Shape result{shape[0], shape[1]};
    for (const std::int64_t one : size) result.push_back(one);
    const Tensor grad = few_values(result, DType::f32);
    const PlainShares shares{spatial3(shape), spatial3(result)};
    const PlainPooled most = naive_max(x, grad, shares);
    const PlainPooled mean = naive_mean(x, grad, shares, places_inside(shares.input, shares.output, shares));
    for (const MemoryFormat format : kFormats) {
      SCOPED_TRACE(to_string(shape) + " to " + to_string(size));
      const Tensor a = formatted(x, format).requires_grad_(), b = formatted(x, format).requires_grad_();
      const std::size_t n = size.size();
      const ValuesIndices y = n == 1   ? adaptive_max_pool1d_with_indices(a, size)
                              : n == 2 ? adaptive_max_pool2d_with_indices(a, size)
                                       : adaptive_max_pool3d_with_indices(a, size);
      EXPECT_EQ(list(y.values), most.values);
      EXPECT_EQ(list(y.indices), most.indices);
      y.values.backward(grad, {});
      EXPECT_EQ(list(a.grad()), most.gradient);
      const Tensor z = n == 1   ? adaptive_avg_pool1d(b, size)
                       : n == 2 ? adaptive_avg_pool2d(b, size)
                                : adaptive_avg_pool3d(b, size);
      expect_near(z, mean.values, 0x1p-20, "mean");
      z.backward(grad, {});
      expect_near(b.grad(), mean.gradient, 0x1p-20, "gradient of the mean");
    }
  }
}

// --- all

TEST(Pools, KeepTheMemoryFormat) {
  const Tensor x = formatted(few_values({2, 3, 6, 8}, DType::f32), MemoryFormat::channels_last);
  for (const bool most : {true, false}) {
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor y = most ? max_pool2d(leaf, {.kernel_size = 2}) : avg_pool2d(leaf, {.kernel_size = 2});
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
    y.backward(formatted(ones(y.shape()), MemoryFormat::channels_last), {});
    EXPECT_TRUE(leaf.grad().is_contiguous(MemoryFormat::channels_last));
  }
  EXPECT_TRUE(max_pool2d(x.contiguous(), {.kernel_size = 2}).is_contiguous());
  // One image of them is an image without a batch, in strides that are no format.
  EXPECT_EQ(list(max_pool2d(select(x, 0, 1), {.kernel_size = 2})),
            list(select(max_pool2d(x, {.kernel_size = 2}), 0, 1)));
}

TEST(Pools, GiveTheSameBitsOnAnyNumberOfThreads) {
  Generator generator(3);
  const Tensor x = uniform(-1, 1, {3, 70, 40, 50}, {}, generator);
  for (const MemoryFormat format : kFormats) {
    std::vector<Doubles> seen[2];
    for (const int run : {0, 1}) {
      const ThreadGuard threads(run == 0 ? 1 : 3);
      const Tensor leaf = formatted(x, format).requires_grad_();
      const Tensor y = max_pool2d(leaf, {.kernel_size = 3, .stride = 1, .padding = 1});
      const Tensor z = avg_pool2d(leaf, {.kernel_size = 3, .stride = 2, .padding = 1});
      sum(mul(y, y)).backward();
      sum(mul(z, z)).backward();
      for (const Tensor& result : {y, z, leaf.grad()}) seen[run].push_back(list(result));
    }
    EXPECT_EQ(seen[0], seen[1]);
  }
}

TEST(Pools, RefuseWhatMakesNoSense) {
  const Tensor x = zeros({1, 2, 5, 5});
  const auto refused = [&](const MaxPoolOptions& options) {
    return message_of<Error>([&] { (void)max_pool2d(x, options); });
  };
  EXPECT_NE(refused({.kernel_size = 6}).find("a kernel of at most 5, the padded input, got 6"),
            std::string::npos);
  EXPECT_NE(refused({.kernel_size = 3, .padding = 2}).find("at most half the kernel, 1, got 2"),
            std::string::npos);
  EXPECT_NE(refused({.kernel_size = 3, .stride = 0}).find("stride of at least 1"), std::string::npos);
  EXPECT_NE(refused({.kernel_size = {2, 2, 2}}).find("1 or 2 numbers for kernel_size"), std::string::npos);
  EXPECT_NE(refused({.kernel_size = 2, .padding = 1, .dilation = 6}).find("a place in the input"),
            std::string::npos);
  EXPECT_NE(refused({}).find("1 or 2 numbers for kernel_size"), std::string::npos);
  EXPECT_THROW((void)max_pool2d(zeros({5, 5}), {.kernel_size = 2}), ShapeError);
  EXPECT_THROW((void)max_pool2d(zeros({1, 0, 5, 5}), {.kernel_size = 2}), ShapeError);
  EXPECT_THROW((void)adaptive_avg_pool2d(zeros({1, 2, 0, 5}), 1), ShapeError);
  EXPECT_THROW((void)adaptive_max_pool2d(x, -1), ValueError);
  EXPECT_THROW((void)avg_pool2d(x, {.kernel_size = 2, .divisor_override = 0}), ValueError);
  EXPECT_THROW((void)avg_pool2d(x.to(DType::i64), {.kernel_size = 2}), DTypeError);
  EXPECT_EQ(max_pool2d(zeros({0, 2, 5, 5}), {.kernel_size = 2}).shape(), (Shape{0, 2, 2, 2}));
  EXPECT_EQ(adaptive_avg_pool2d(zeros({1, 0, 5, 5}), 3).shape(), (Shape{1, 0, 3, 3}));
  // A kernel larger than the input is fine where ceil_mode leaves a window.
  EXPECT_EQ(max_pool2d(x, {.kernel_size = 6, .ceil_mode = true}).shape(), (Shape{1, 2, 1, 1}));
}

}  // namespace
}  // namespace mezzo
