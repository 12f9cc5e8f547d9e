// interpolate: values by hand, against matrices of weights made by the formulas, layouts and dtypes,
// gradients as transposes, what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/threads.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/pointwise_support.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;
using Doubles = std::vector<double>;
using enum InterpolateMode;

Tensor values(const Shape& shape, DType dtype = DType::f64) {
  return make<double>(shape, spread(static_cast<std::size_t>(layout::numel(shape)), -2, 2)).to(dtype);
}

TEST(Interpolate, GivesWhatTheDefinitionSays) {
  const Tensor x = make<float>({1, 1, 4}, {0, 1, 2, 3});
  EXPECT_EQ(list(interpolate(x, {.size = 3})), (Doubles{0, 1, 2}));
  EXPECT_EQ(list(interpolate(x, {.size = 3, .mode = nearest_exact})), (Doubles{0, 2, 3}));
  EXPECT_EQ(list(interpolate(x, {.scale_factor = 2.0})), (Doubles{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(list(interpolate(x, {.scale_factor = 2, .mode = linear})),
            (Doubles{0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3}));
  EXPECT_EQ(list(interpolate(x, {.size = 7, .mode = linear, .align_corners = true})),
            (Doubles{0, 0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(list(interpolate(x, {.size = 1, .mode = linear, .align_corners = true})), Doubles{0});
  EXPECT_EQ(list(interpolate(x, {.size = 1, .mode = linear})), Doubles{1.5});
  const Tensor image = make<float>({1, 1, 2, 2}, {0, 1, 2, 3});
  EXPECT_EQ(list(interpolate(image, {.size = {1, 3}, .mode = bilinear, .align_corners = true})),
            (Doubles{0, 0.5, 1}));
  EXPECT_EQ(list(interpolate(image, {.size = {3, 1}, .mode = bilinear})), (Doubles{0.5, 1.5, 2.5}));
}

TEST(Interpolate, TakesPlacesFromTheFactorUnlessToldOtherwise) {
  // 4 places make floor(4 * 1.3) = 5: at 1 / 1.3 or at 4 / 5 of a place from one to the next.
  const Tensor x = make<double>({1, 1, 4}, {0, 1, 2, 3});
  for (const bool recompute : {false, true}) {
    const double step = recompute ? 0.8 : 1 / 1.3;
    const Doubles got =
        list(interpolate(x, {.scale_factor = 1.3, .mode = linear, .recompute_scale_factor = recompute}));
    ASSERT_EQ(got.size(), 5U);
    for (std::size_t o = 0; o < 5; ++o) {
      const double place = std::clamp(step * (static_cast<double>(o) + 0.5) - 0.5, 0.0, 3.0);
      EXPECT_NEAR(got[o], place, 1e-12);
    }
  }
  // PyTorch copies where sizes are equal, but for nearest in other than 2 dims; there doubling is exact too.
  EXPECT_EQ(list(interpolate(x, {.scale_factor = 1.1, .mode = linear})), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(list(interpolate(x, {.scale_factor = 1.1})), (Doubles{0, 0, 1, 2}));
  EXPECT_EQ(list(interpolate(x, {.scale_factor = 2.1})), (Doubles{0, 0, 0, 1, 1, 2, 2, 3}));
  const Tensor flat = reshape(x, {1, 1, 1, 4});
  EXPECT_EQ(list(interpolate(flat, {.scale_factor = 1.1})), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(list(interpolate(flat, {.scale_factor = {1.0, 2.1}})), (Doubles{0, 0, 1, 1, 2, 2, 3, 3}));
}

/// [out, in] weights of a dim where places are `in / out` apart.
Tensor weights(InterpolateMode mode, std::int64_t in, std::int64_t out, bool aligned) {
  Doubles matrix(static_cast<std::size_t>(in * out));
  const auto add = [&](std::int64_t o, std::int64_t i, double weight) {
    matrix[static_cast<std::size_t>(o * in + std::clamp<std::int64_t>(i, 0, in - 1))] += weight;
  };
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  for (std::int64_t o = 0; o < out; ++o) {
    const auto at = static_cast<double>(o);
    double place = scale * (at + 0.5) - 0.5;
    if (aligned) place = out == 1 ? 0 : at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    const double below = std::floor(place), t = place - below;
    const auto low = static_cast<std::int64_t>(below);
    if (mode == nearest) {
      add(o, o * in / out, 1);
    } else if (mode == nearest_exact) {
      add(o, (2 * o + 1) * in / (2 * out), 1);
    } else if (mode == bicubic) {
      const auto inner = [](double x) { return (1.25 * x - 2.25) * x * x + 1; };
      const auto outer = [](double x) { return -0.75 * (((x - 5) * x + 8) * x - 4); };
      add(o, low - 1, outer(1 + t));
      add(o, low, inner(t));
      add(o, low + 1, inner(1 - t));
      add(o, low + 2, outer(2 - t));
    } else {
      add(o, low, 1 - t);
      add(o, low + 1, t);
    }
  }
  return make<double>({out, in}, matrix);
}

struct Example {
  InterpolateMode mode;
  std::optional<bool> aligned;
  Shape from, to;  ///< height and width
};
const std::vector<Example>& examples() {
  static const std::vector<Example> list{
      {nearest, {}, {5, 7}, {3, 11}},       {nearest, {}, {1, 6}, {4, 6}},
      {nearest_exact, {}, {5, 7}, {3, 11}}, {bilinear, false, {5, 7}, {10, 14}},
      {bilinear, true, {5, 7}, {9, 3}},     {bilinear, {}, {6, 1}, {2, 5}},
      {bicubic, false, {5, 7}, {9, 4}},     {bicubic, true, {3, 2}, {5, 7}},
  };
  return list;
}
Tensor resized(const Tensor& x, const Example& e) {
  return interpolate(x, {.size = {e.to[0], e.to[1]}, .mode = e.mode, .align_corners = e.aligned});
}

TEST(Interpolate, IsAProductWithWeightsInEachDim) {
  for (const Example& e : examples()) {
    SCOPED_TRACE(kEnumNames<InterpolateMode>[static_cast<std::size_t>(e.mode)]);
    const bool aligned = e.aligned.value_or(false);
    const Tensor x = values({2, 3, e.from[0], e.from[1]});
    const Tensor rows = weights(e.mode, e.from[0], e.to[0], aligned);
    const Tensor columns = weights(e.mode, e.from[1], e.to[1], aligned);
    const Doubles want = list(matmul(matmul(rows, x), t(columns)));
    const Tensor last = x.contiguous(MemoryFormat::channels_last);
    for (const Tensor& input : {x, last, strided_copy(x)}) {
      const Tensor y = resized(input, e);
      EXPECT_EQ(y.shape(), (Shape{2, 3, e.to[0], e.to[1]}));
      EXPECT_EQ(y.suggest_memory_format(), input.suggest_memory_format());
      const Doubles got = list(y);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
    }
    const Tensor half = x.to(DType::bf16);
    EXPECT_EQ(list(resized(half, e)), list(resized(half.to(DType::f32), e).to(DType::bf16)));
    EXPECT_EQ(list(resized(last.to(DType::f16), e)), list(resized(x.to(DType::f16), e)));
  }
}

TEST(Interpolate, OfVolumesIsInterpolationDimByDim) {
  const Tensor x = values({2, 1, 3, 4, 5});
  const Doubles got = list(interpolate(x, {.size = {5, 2, 8}, .mode = trilinear}));
  const Tensor columns = interpolate(reshape(x, {2, 12, 5}), {.size = 8, .mode = linear});
  const Tensor planes = interpolate(reshape(columns, {2, 3, 4, 8}), {.size = {2, 8}, .mode = bilinear});
  const Tensor whole = interpolate(reshape(planes, {2, 1, 3, 16}), {.size = {5, 16}, .mode = bilinear});
  const Doubles want = list(whole);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
}

TEST(Interpolate, HasTheTransposedMapAsGradient) {
  for (const Example& e : examples()) {
    SCOPED_TRACE(kEnumNames<InterpolateMode>[static_cast<std::size_t>(e.mode)]);
    const bool aligned = e.aligned.value_or(false);
    const Tensor x = values({2, 3, e.from[0], e.from[1]}).requires_grad_();
    const Tensor g = values({2, 3, e.to[0], e.to[1]});
    const Tensor rows = weights(e.mode, e.from[0], e.to[0], aligned);
    const Tensor columns = weights(e.mode, e.from[1], e.to[1], aligned);
    const Doubles want = list(matmul(matmul(t(rows), g), columns));
    for (const Tensor& of : {g, g.contiguous(MemoryFormat::channels_last), strided_copy(g)}) {
      const Tensor y = resized(x, e);
      const Doubles got = list(grad({&y, 1}, {&x, 1}, {&of, 1})[0]);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
    }
  }
}

TEST(Interpolate, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = values({3, 5, 31, 33}, DType::f32).requires_grad_();
  const auto run = [&] {
    const Tensor y = interpolate(x, {.scale_factor = 2.3, .mode = bilinear});
    return std::pair{list(y), list(grad({&y, 1}, {&x, 1}, {&y, 1})[0])};
  };
  const ThreadGuard threads(1);
  const auto one = run();
  set_num_threads(4);
  EXPECT_EQ(run(), one);
}

TEST(Interpolate, TakesAnEmptyBatch) {
  const Tensor x = zeros({0, 2, 3, 4}).requires_grad_();
  const Tensor y = interpolate(x, {.scale_factor = 2.0, .mode = bilinear});
  EXPECT_EQ(y.shape(), (Shape{0, 2, 6, 8}));
  sum(y).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(Interpolate, RefusesWhatMakesNoSense) {
  const Tensor x = zeros({1, 2, 4, 4});
  EXPECT_EQ(message_of<ValueError>([&] { (void)interpolate(x, {}); }),
            "interpolate: expected either size or scale_factor, got neither; give one of them");
  EXPECT_EQ(message_of<ValueError>([&] { (void)interpolate(x, {.size = 2, .scale_factor = 2}); }),
            "interpolate: expected either size or scale_factor, got both; give one of them");
  EXPECT_EQ(message_of<ValueError>([&] { (void)interpolate(x, {.size = 2, .align_corners = false}); }),
            "interpolate: expected align_corners with an interpolating mode only, got \"nearest\"; leave it "
            "out");
  EXPECT_EQ(message_of<ShapeError>([&] { (void)interpolate(x, {.size = 2, .mode = linear}); }),
            "interpolate: expected x [N, C, spatial...] with 1 spatial dims, got 2 of them; choose the mode "
            "for these dims");
  const auto refuses = [&]<class E>(TypeTag<E>, const Tensor& input, const InterpolateOptions& options) {
    EXPECT_THROW((void)interpolate(input, options), E);
  };
  const TypeTag<ValueError> value;
  const TypeTag<ShapeError> shape;
  refuses(value, x, {.size = 0});
  refuses(value, x, {.size = {2, 2, 2}});
  refuses(value, x, {.scale_factor = {1.0, 2.0, 3.0}});
  for (const double factor : {0.0, -1.0, 0.2, 1e30, std::nan(""), HUGE_VAL})
    refuses(value, x, {.scale_factor = factor});
  refuses(value, x, {.size = 2, .recompute_scale_factor = true});
  refuses(value, x, {.size = {std::int64_t{1} << 40, std::int64_t{1} << 40}});
  refuses(shape, x, {.size = (std::int64_t{1} << 31) - 1});
  refuses(shape, zeros({2, 3}), {.size = 2});
  refuses(shape, zeros({1, 0, 3}), {.size = 2});
  refuses(shape, zeros({1, 2, 0}), {.size = 2});
  refuses(TypeTag<DTypeError>{}, zeros({1, 2, 3}, {.dtype = DType::i64}), {.size = 2});
}

TEST(Interpolate, IsCalledByNameWithTorchsWords) {
  const Tensor x = values({1, 2, 3, 3});
  const Value attrs = Value::Map{{"scale_factor", Value::list(2.0, 3)}, {"mode", "nearest-exact"}};
  const Tensor want = interpolate(x, {.scale_factor = {2.0, 3.0}, .mode = nearest_exact});
  EXPECT_EQ(list(call_op("interpolate", {x}, attrs)[0]), list(want));
  EXPECT_THROW((void)call_op("interpolate_backward", {x}, Value::Map{{"size", 4}}), Error);
}

}  // namespace
}  // namespace mezzo
