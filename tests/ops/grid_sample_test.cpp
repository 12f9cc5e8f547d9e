// grid_sample: values by hand, what padding makes of the outside, against its plain composition, layouts,
// gradients where many places meet, what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
using enum GridSampleMode;
using Padding = GridPadding;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = HUGE_VAL;

Tensor values(const Shape& shape, double low = -2, double high = 2) {
  return make<double>(shape, spread(static_cast<std::size_t>(layout::numel(shape)), low, high));
}

double largest(const Tensor& x) { return amax(abs(x)).item(); }

/// A row of four, 0 1 2 3, at coordinates along it.
Doubles along_row(const Doubles& at, const GridSampleOptions& options) {
  const auto n = static_cast<std::int64_t>(at.size());
  const Tensor row = make<double>({1, 1, 1, 4}, {0, 1, 2, 3});
  const Tensor grid = stack({make<double>({1, 1, n}, at), zeros({1, 1, n}, {.dtype = DType::f64})}, -1);
  return list(grid_sample(row, grid, options));
}

TEST(GridSample, PutsTheEndsWhereAlignCornersSays) {
  EXPECT_EQ(along_row({-1, -0.5, 0, 1}, {bilinear, Padding::border, true}), (Doubles{0, 0.75, 1.5, 3}));
  EXPECT_EQ(along_row({-1, -0.5, 0, 1}, {bilinear, Padding::border, false}), (Doubles{0, 0.5, 1.5, 3}));
}

TEST(GridSample, PadsTheOutside) {
  // Places -2, -1, -0.5, 3.5, 4 and 5 of 0 to 3.
  const Doubles aligned{-7.0 / 3, -5.0 / 3, -4.0 / 3, 4.0 / 3, 5.0 / 3, 7.0 / 3};
  const auto near = [](const Doubles& got, const Doubles& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
  };
  near(along_row(aligned, {bilinear, Padding::zeros, true}), {0, 0, 0, 1.5, 0, 0});
  near(along_row(aligned, {bilinear, Padding::border, true}), {0, 0, 0, 3, 3, 3});
  near(along_row(aligned, {bilinear, Padding::reflection, true}), {2, 1, 0.5, 2.5, 2, 1});
  const Doubles edges{-1.5, -1.25, -1, 1, 1.25, 1.5};  // -1.5, -1, -0.5, 3.5, 4, 4.5
  near(along_row(edges, {bilinear, Padding::zeros, false}), {0, 0, 0, 1.5, 0, 0});
  near(along_row(edges, {bilinear, Padding::reflection, false}), {0.5, 0, 0, 3, 3, 2.5});
}

TEST(GridSample, TakesTheNearestAndOfTwoTheEvenOne) {
  const Doubles places{0.5, 1.5, 2.5, 0.4, 0.6};
  Doubles at;
  for (const double place : places) at.push_back((2 * place + 1) / 4 - 1);
  EXPECT_EQ(along_row(at, {nearest, Padding::zeros, false}), (Doubles{0, 2, 2, 0, 1}));
}

TEST(GridSample, ReadsNothingAtPlacesThatAreNone) {
  for (const GridSampleMode mode : {bilinear, nearest}) {
    for (const bool aligned : {false, true}) {
      EXPECT_EQ(along_row({kNan, kInf, -kInf, 1e30}, {mode, Padding::zeros, aligned}), (Doubles{0, 0, 0, 0}));
      EXPECT_EQ(along_row({kNan, kInf, -kInf, 1e30}, {mode, Padding::border, aligned}),
                (Doubles{0, 3, 0, 3}));
      EXPECT_EQ(along_row({kNan, kInf}, {mode, Padding::reflection, aligned}), (Doubles{0, 0}));
    }
  }
  // What lies beside the image is no part of a sum either, whatever stands at its ends.
  const Tensor x = make<double>({1, 1, 1, 2}, {kInf, kInf});
  const Tensor grid = make<double>({1, 1, 1, 2}, {5, 5});
  EXPECT_EQ(list(grid_sample(x, grid)), Doubles{0});
}

struct Example {
  Shape x, grid;
};

TEST(GridSample, IsItsPlainComposition) {
  const RegistryEntry& forward = *find_op("grid_sample");
  const RegistryEntry& backward = *find_op("grid_sample_backward");
  const std::vector<Example> examples{{{2, 3, 4, 5}, {2, 3, 7, 2}},
                                      {{1, 19, 1, 6}, {1, 40, 15, 2}},  // more than a block of places
                                      {{2, 2, 3, 1, 4}, {2, 2, 3, 2, 3}}};
  for (const Example& e : examples) {
    for (const char* mode : {"bilinear", "nearest"}) {
      for (const char* padding : {"zeros", "border", "reflection"}) {
        for (const bool aligned : {false, true}) {
          SCOPED_TRACE(std::string(mode) + " " + padding + (aligned ? " aligned" : ""));
          const Value attrs =
              Value::Map{{"mode", mode}, {"padding_mode", padding}, {"align_corners", aligned}};
          const Tensor x = values(e.x), grid = values(e.grid, -3, 3);
          const Tensor want = forward.call_reference({x, grid}, attrs)[0], g = cos(want);
          const Outputs slopes = backward.call_reference({g, x, grid}, attrs);
          const MemoryFormat last = MemoryFormat::channels_last;
          for (const Tensor& input : {x, x.contiguous(last), strided_copy(x)}) {
            const Tensor got = call_op("grid_sample", {input, strided_copy(grid)}, attrs)[0];
            EXPECT_EQ(got.suggest_memory_format(), input.suggest_memory_format());
            EXPECT_LT(largest(got - want), 1e-12);
            const Outputs found = call_op("grid_sample_backward", {g, input, grid}, attrs);
            EXPECT_LT(largest(found[0] - slopes[0]), 1e-12);
            EXPECT_LT(largest(found[1] - slopes[1]), 1e-12);
          }
        }
      }
    }
  }
}

TEST(GridSample, AddsUpAllThatReadOneElement) {
  // 1000 places between the four elements of an image: a quarter of each gradient for each.
  const Tensor x = values({1, 2, 2, 2}).to(DType::f32).requires_grad_();
  const Tensor grid = zeros({1, 10, 100, 2});
  const Tensor y = grid_sample(x, grid);
  sum(y).backward();
  EXPECT_EQ(list(x.grad()), Doubles(8, 250));
}

TEST(GridSample, HasNoSlopeWhereAPlaceIsHeldAtTheEdge) {
  const Tensor x = make<double>({1, 1, 1, 4}, {0, 1, 2, 3});
  const Tensor grid = leaf({1, 1, 4, 2}, {-2, 0, -1, 0, 0.1, 0, 1, 0});
  sum(grid_sample(x, grid, {bilinear, Padding::border, true})).backward();
  EXPECT_EQ(list(grid.grad()), (Doubles{0, 0, 0, 0, 1.5, 0, 0, 0}));
}

TEST(GridSample, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = values({2, 35, 9, 8}).to(DType::f32).requires_grad_();
  const Tensor grid = values({2, 30, 40, 2}, -1.2, 1.2).to(DType::f32).requires_grad_();
  const auto run = [&] {
    const Tensor y = grid_sample(x, grid);
    const Tensors found = grad({&y, 1}, Tensors{x, grid}, {&y, 1});
    return std::vector<Doubles>{list(y), list(found[0]), list(found[1])};
  };
  const ThreadGuard threads(1);
  const auto one = run();
  set_num_threads(4);
  EXPECT_EQ(run(), one);
}

TEST(GridSample, TakesEmptyBatchesChannelsAndGrids) {
  const auto expect_shapes = [](const Shape& image, const Shape& places, const Shape& result) {
    const Tensor x = zeros(image).requires_grad_(), grid = zeros(places).requires_grad_();
    const Tensor y = grid_sample(x, grid);
    EXPECT_EQ(y.shape(), result);
    sum(y).backward();
    EXPECT_EQ(list(x.grad()), Doubles(static_cast<std::size_t>(x.numel())));
    EXPECT_EQ(list(grid.grad()), Doubles(static_cast<std::size_t>(grid.numel())));
  };
  expect_shapes({0, 2, 3, 3}, {0, 4, 5, 2}, {0, 2, 4, 5});
  expect_shapes({2, 0, 3, 3}, {2, 4, 5, 2}, {2, 0, 4, 5});
  expect_shapes({2, 1, 3, 3}, {2, 0, 5, 2}, {2, 1, 0, 5});
}

TEST(GridSample, RefusesWhatMakesNoSense) {
  const Tensor x = zeros({1, 2, 3, 4}), grid = zeros({1, 5, 6, 2});
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        (void)grid_sample(x, zeros({1, 5, 6, 3}));
      }),
      "grid_sample: expected a grid [1, Ho, Wo, 2], got [1, 5, 6, 3]; give each place of the result its "
      "coordinates");
  EXPECT_EQ(message_of<DTypeError>([&] { (void)grid_sample(x, grid.to(DType::f64)); }),
            "grid_sample: expected x and grid of one dtype, got f32 and f64; convert one of them with to()");
  EXPECT_THROW((void)grid_sample(x, zeros({2, 5, 6, 2})), ShapeError);
  EXPECT_THROW((void)grid_sample(x, zeros({1, 5, 2})), ShapeError);
  EXPECT_THROW((void)grid_sample(zeros({1, 2, 3}), zeros({1, 5, 1})), ShapeError);
  EXPECT_THROW((void)grid_sample(zeros({1, 2, 0, 4}), grid), ShapeError);
  EXPECT_THROW((void)grid_sample(x.to(DType::i64), grid.to(DType::i64)), DTypeError);
  EXPECT_THROW((void)call_op("grid_sample_backward", {zeros({1, 2, 5, 5}), x, grid}), ShapeError);
  EXPECT_THROW((void)call_op("grid_sample_backward", {zeros({1, 2, 5, 6}), x, grid},
                             Value::Map{{"input", false}, {"grid", false}}),
               ValueError);
}

}  // namespace
}  // namespace mezzo
