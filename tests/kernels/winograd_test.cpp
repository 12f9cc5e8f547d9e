// The CPU's convolutions by Winograd's products: within their bound of plain loops in double for all three
// maps, layouts, paddings and ragged edges; what a number that is not finite reaches; the same bits for any
// number of threads and instruction set; that it can be turned off.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/conv_problem.h"
#include "mezzo/kernels/conv/cpu_winograd.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/ops/convolution.h"
#include "support/thread_guard.h"

namespace mezzo::kernels {
namespace {

using test::ConvArray;
using test::kMaps;
using test::kWeight;
using test::kX;
using test::kY;
using test::Map;
using test::Problem;

ConvShape three_by_three(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t height,
                         std::int64_t width, std::int64_t down = 1, std::int64_t across = 1) {
  const Windows::Sizes pad{0, down, across};
  return test::make_shape(batch, in, out, 1, {1, height, width}, {1, 3, 3}, {1, 1, 1}, pad, pad);
}

/// Channels that fill panels of 32 and depths of 64 or do not, edges that fill tiles of 4 x 4 or do not, all
/// paddings, and several parts, blocks of tiles and blocks of images.
std::vector<ConvShape> shapes() {
  return {three_by_three(2, 32, 48, 17, 18), three_by_three(3, 96, 48, 16, 13, 0, 2),
          three_by_three(40, 32, 32, 7, 9), three_by_three(1, 160, 32, 21, 23)};
}

class Winograd : public testing::Test {
 protected:
  void SetUp() override {
    if (cpu::isa() == cpu::Isa::base) GTEST_SKIP() << "not without AVX2";
    if (cpu::gemm_engine_is_named()) GTEST_SKIP() << "MEZZO_CPU_GEMM names an engine, which then convolves";
  }
  void TearDown() override { set_allow_winograd(true); }
};

/// The sums of the terms' sizes of conv.h: each number of x and y as large as the largest within five places
/// of it, each weight as the largest of its 3 x 3.
std::vector<double> bounds(const Problem& problem, Map map) {
  const auto spread = [&](const ConvArray& array, std::int64_t side) {
    ConvArray largest = array;
    const std::vector<double> values = array.values();
    const Shape& shape = array.shape();
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        test::for_places({1, shape[3], shape[4]}, [&](const Windows::Sizes& at) {
          double most = 0;
          for (std::int64_t i = std::max<std::int64_t>(0, at[1] - side);
               i <= std::min(shape[3] - 1, at[1] + side); ++i)
            for (std::int64_t j = std::max<std::int64_t>(0, at[2] - side);
                 j <= std::min(shape[4] - 1, at[2] + side); ++j)
              most =
                  std::max(most, std::abs(values[static_cast<std::size_t>(array.offset(n, c, {0, i, j}))]));
          largest.set(array.offset(n, c, at), most);
        });
      }
    }
    return largest;
  };
  return test::naive_conv(problem.shape, spread(problem.x, 5), spread(problem.y, 5),
                          spread(problem.weight, 2), map)
      .sums;
}

void expect_within_bound(Problem problem, Map map) {
  SCOPED_TRACE(test::describe(problem.shape, map));
  ConvArray& result = problem.result(map);
  const std::vector<double> want =
      test::naive_conv(problem.shape, problem.x, problem.y, problem.weight, map).sums;
  const std::vector<double> bound = bounds(problem, map);
  result.fill(std::nan(""));
  problem.run(map, false);
  for (const ConvArray* array : {&problem.x, &problem.y, &problem.weight})
    ASSERT_TRUE(array->guards_intact());
  const std::vector<double> found = result.values();
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - want[i]) / (bound[i] + 1e-30));
  EXPECT_LE(worst, 16 * std::ldexp(1.0, -24));
}

TEST_F(Winograd, StaysWithinItsBound) {
  for (ConvShape shape : shapes()) {
    for (const Map map : kMaps) {
      ASSERT_TRUE(cpu::is_by_winograd(static_cast<ConvMap>(map == kX ? 1 : map == kY ? 0 : 2), shape, false));
      for (const bool channels_last : {false, true}) {
        shape.channels_last = channels_last;
        expect_within_bound(Problem(shape, DType::f32), map);
      }
    }
  }
}

TEST_F(Winograd, StaysWithinItsBoundBesideLargeNumbers) {
  for (const Map map : kMaps) {
    Problem problem(shapes()[0], DType::f32);
    for (ConvArray* array : {&problem.x, &problem.y})
      for (std::int64_t i = 100; i < array->size(); i += 997) array->set(i, 1e4);
    problem.weight.set(5, 1e4);
    expect_within_bound(problem, map);
  }
}

TEST_F(Winograd, AddsTheBiasOfEachChannel) {
  for (const Map map : {kX, kY}) {
    Problem problem(shapes()[1], DType::f32), plain = problem;
    problem.run(map, true), plain.run(map, false);
    const std::vector<double> with = problem.result(map).values(), without = plain.result(map).values(),
                              bias = problem.bias.values();
    const Shape& shape = problem.result(map).shape();
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const auto i = static_cast<std::size_t>(plain.result(map).offset(0, c, {0, 3, 4}));
      EXPECT_EQ(static_cast<float>(with[i]),
                static_cast<float>(without[i]) + static_cast<float>(bias[static_cast<std::size_t>(c)]));
    }
  }
}

/// Results that an infinite number has a part in are infinite or NaN, and no others.
TEST_F(Winograd, InfinityReachesItsOwnResultsAlone) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Map map : kMaps) {
    for (const bool channels_last : {false, true}) {
      ConvShape shape = shapes()[0];
      shape.channels_last = channels_last;
      Problem problem(shape, DType::f32);
      ConvArray& read = map == kX ? problem.y : problem.x;
      read.set(read.offset(1, 7, {0, 6, 9}), infinity);
      const std::vector<double> want =
          test::naive_conv(problem.shape, problem.x, problem.y, problem.weight, map).sums;
      problem.run(map, false);
      const std::vector<double> found = problem.result(map).values();
      std::size_t infinite = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(std::isfinite(found[i]), std::isfinite(want[i])) << i;
        infinite += std::isfinite(want[i]) ? 0 : 1;
      }
      EXPECT_EQ(infinite, static_cast<std::size_t>(9 * (map == kX ? shape.in_channels : shape.out_channels)));
    }
  }
}

TEST_F(Winograd, FiniteResultsOfLargeNumbersStayFinite) {
  for (const Map map : kMaps) {
    Problem problem(shapes()[0], DType::f32);
    ConvArray &large = map == kX ? problem.y : problem.x,
              &small = map == kWeight ? problem.y : problem.weight;
    for (std::int64_t i = 0; i < large.size(); ++i) large.set(i, i % 2 == 0 ? 2e38 : -2e38);
    small.fill(0), small.set(small.size() / 2, 1);
    problem.run(map, false);
    for (const double value : problem.result(map).values()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_F(Winograd, SameBitsOnThreadsAndInstructionSets) {
  for (const ConvShape& shape : shapes()) {
    for (const Map map : kMaps) {
      SCOPED_TRACE(test::describe(shape, map));
      Problem problem(shape, DType::f32);
      problem.run(map, true);
      const std::vector<std::uint8_t> first = problem.result(map).bytes();
      for (const int threads : {1, 2, 3}) {
        const mezzo::test::ThreadGuard set(threads);
        for (const cpu::Isa isa : {cpu::Isa::v3, cpu::best_isa()}) {
          const cpu::IsaGuard guard(isa);
          problem.run(map, true);
          EXPECT_EQ(problem.result(map).bytes(), first);
        }
      }
    }
  }
}

TEST_F(Winograd, SixteenBitsAreTheF32ResultRoundedOnce) {
  for (const Map map : kMaps) {
    const ConvShape shape = shapes()[0];
    Problem narrow(shape, DType::f16), wide(shape, DType::f32);
    for (const auto& [from, to] :
         {std::pair{&narrow.x, &wide.x}, {&narrow.y, &wide.y}, {&narrow.weight, &wide.weight}}) {
      const std::vector<double> values = from->values();
      for (std::int64_t i = 0; i < from->size(); ++i) to->set(i, values[static_cast<std::size_t>(i)]);
    }
    narrow.run(map, false), wide.run(map, false);
    const std::vector<double> values = wide.result(map).values();
    ConvArray rounded = narrow.result(map);
    for (std::int64_t i = 0; i < rounded.size(); ++i) rounded.set(i, values[static_cast<std::size_t>(i)]);
    EXPECT_EQ(narrow.result(map).bytes(), rounded.bytes());
  }
}

TEST_F(Winograd, CanBeTurnedOff) {
  EXPECT_TRUE(allow_winograd());
  for (const Map map : kMaps) {
    Problem problem(shapes()[0], DType::f32);
    problem.run(map, false);
    const std::vector<std::uint8_t> by_winograd = problem.result(map).bytes();
    set_allow_winograd(false);
    EXPECT_FALSE(allow_winograd());
    problem.run(map, false);
    EXPECT_NE(problem.result(map).bytes(), by_winograd);
    set_allow_winograd(true);
    problem.run(map, false);
    EXPECT_EQ(problem.result(map).bytes(), by_winograd);
  }
}

TEST_F(Winograd, IsForConvolutionsThatGainByIt) {
  const auto goes = [](const ConvShape& shape, bool bf16 = false) {
    return cpu::is_by_winograd(ConvMap::forward, shape, bf16);
  };
  EXPECT_FALSE(goes(three_by_three(8, 16, 64, 16, 16)));
  EXPECT_FALSE(goes(three_by_three(8, 40, 64, 16, 16)));
  EXPECT_FALSE(goes(three_by_three(1, 512, 512, 16, 16)));
  EXPECT_FALSE(goes(three_by_three(8, 64, 64, 16, 16, 3, 3)));
  EXPECT_FALSE(goes(three_by_three(8, 256, 256, 16, 16), true));
  ConvShape strided = three_by_three(8, 64, 64, 16, 16);
  strided.windows.stride[2] = 2;
  EXPECT_FALSE(goes(strided));
}

}  // namespace
}  // namespace mezzo::kernels
