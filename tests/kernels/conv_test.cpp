// The CPU's convolutions: every engine against plain loops in double, for all three maps, both orders of
// images and all dtypes; the same bits for any number of threads; one rounding; what NaN reaches.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/conv_problem.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/conv/conv.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "support/thread_guard.h"

namespace mezzo::kernels {
namespace {

using cpu::GemmEngine;
using test::ConvArray;
using test::kMaps;
using test::kWeight;
using test::kX;
using test::kY;
using test::make_shape;
using test::Map;
using test::PlainSums;
using test::Problem;

class EngineGuard {
 public:
  explicit EngineGuard(GemmEngine engine) { cpu::set_gemm_engine(engine); }
  ~EngineGuard() { cpu::set_gemm_engine(GemmEngine::automatic); }
  EngineGuard(const EngineGuard&) = delete;
  EngineGuard& operator=(const EngineGuard&) = delete;
};

std::vector<GemmEngine> engines() {
  if (cpu::has_gemm_engine(GemmEngine::onednn)) return {GemmEngine::eigen, GemmEngine::onednn};
  return {GemmEngine::eigen};
}

std::vector<ConvShape> shapes() {
  ConvShape short_of_the_end = make_shape(2, 3, 4, 1, {1, 1, 11}, {1, 1, 2}, {1, 1, 3});
  short_of_the_end.windows.output[2] = 2;  // as for a transposed one with output padding
  return {
      make_shape(2, 3, 5, 1, {1, 7, 9}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {0, 1, 0}),
      make_shape(3, 16, 32, 1, {1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}),
      make_shape(1, 20, 48, 1, {1, 9, 7}, {1, 3, 3}, {1, 1, 2}, {0, 2, 1}, {0, 2, 1}, {1, 2, 1}),
      make_shape(2, 4, 6, 1, {1, 6, 5}, {1, 4, 2}, {1, 1, 1}, {0, 1, 0}, {0, 2, 1}),  // "same"
      make_shape(2, 6, 4, 2, {1, 5, 6}, {1, 2, 3}, {1, 1, 2}, {0, 0, 2}, {0, 0, 2}),
      make_shape(1, 32, 64, 2, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}),
      make_shape(2, 5, 5, 5, {1, 9, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}),  // depthwise
      make_shape(2, 16, 16, 16, {1, 8, 20}, {1, 3, 5}, {1, 2, 1}, {0, 1, 2}, {0, 1, 2}),
      make_shape(2, 3, 9, 3, {1, 6, 9}, {1, 2, 3}, {1, 1, 2}, {0, 0, 3}, {0, 0, 3}),  // three of each channel
      make_shape(2, 3, 3, 3, {4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 0, 1}),
      make_shape(2, 7, 5, 1, {1, 4, 5}, {1, 1, 1}),
      make_shape(2, 32, 16, 1, {1, 4, 5}, {1, 1, 1}),
      make_shape(2, 6, 4, 2, {1, 4, 5}, {1, 1, 1}),
      make_shape(2, 6, 4, 1, {1, 5, 6}, {1, 1, 1}, {1, 2, 3}),
      make_shape(1, 2, 3, 1, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}, {0, 1, 2}),
      make_shape(2, 3, 4, 1, {1, 1, 12}, {1, 1, 4}, {1, 1, 3}, {0, 0, 2}, {0, 0, 2}, {1, 1, 2}),
      make_shape(1, 3, 4, 1, {5, 4, 6}, {2, 3, 2}, {2, 1, 1}, {1, 0, 1}, {1, 0, 1}, {1, 1, 2}),
      make_shape(1, 1, 2, 1, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {0, 4, 3},
                 {0, 4, 3}),  // windows in the padding
      make_shape(2, 1, 1, 1, {1, 1, 40}, {1, 1, 21}, {1, 1, 1}, {0, 0, 10}, {0, 0, 10}),
      short_of_the_end,
  };
}

double eps_of(DType dtype) {
  return dtype == DType::f64 ? 2.3e-16 : dtype == DType::f32 ? 6e-8 : dtype == DType::f16 ? 4.9e-4 : 4e-3;
}

/// Runs a map on NaN in the place of its result, and compares with the oracle within the bound of conv.h.
void expect_plain(Problem problem, Map map, bool with_bias, double eps) {
  SCOPED_TRACE(describe(problem.shape, map) + (with_bias ? " with bias" : ""));
  ConvArray& result = problem.result(map);
  const PlainSums want = test::naive_conv(problem.shape, problem.x, problem.y, problem.weight, map);
  const std::vector<double> bias = problem.bias.values();
  const double stored = eps_of(result.view().dtype);
  result.fill(std::nan(""));
  problem.run(map, with_bias);
  for (const ConvArray* array : {&problem.x, &problem.y, &problem.weight, &problem.bias})
    ASSERT_TRUE(array->guards_intact());
  const std::vector<double> found = result.values();
  const Shape& shape = result.shape();
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const double added = with_bias ? bias[static_cast<std::size_t>(c)] : 0;
      test::for_places({shape[2], shape[3], shape[4]}, [&](const Windows::Sizes& at) {
        const auto i = static_cast<std::size_t>(result.offset(n, c, at));
        const double sum = want.sums[i] + added;
        const double bound =
            eps * static_cast<double>(want.most_terms + 2) * (want.magnitudes[i] + std::abs(added)) +
            stored * std::abs(sum) * 1.01 + 1e-7 * stored;
        ASSERT_NEAR(found[i], sum, bound) << n << ", " << c << ", " << at[0] << " " << at[1] << " " << at[2];
      });
    }
  }
}

void expect_plain_everywhere(DType x, DType y, DType weight) {
  const bool wide = x == DType::f64 || y == DType::f64 || weight == DType::f64;
  std::vector<GemmEngine> all = engines();
  all.push_back(GemmEngine::automatic);
  for (const GemmEngine engine : all) {
    const EngineGuard guard(engine);
    for (ConvShape shape : shapes()) {
      for (const bool channels_last : {false, true}) {
        shape.channels_last = channels_last;
        for (const Map map : kMaps) {
          for (const bool bias : {false, true}) {
            if (bias && map == kWeight) continue;
            const DType result = map == kX ? x : y;
            expect_plain(Problem(shape, x, y, weight, result), map, bias, wide ? 2.3e-16 : 6e-8);
          }
        }
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conv, MatchesPlainLoopsInEveryEngine) {
  expect_plain_everywhere(DType::f32, DType::f32, DType::f32);
  expect_plain_everywhere(DType::f64, DType::f64, DType::f64);
}

TEST(Conv, MixedDtypes) {
  expect_plain_everywhere(DType::f16, DType::f32, DType::bf16);
  expect_plain_everywhere(DType::f32, DType::bf16, DType::f32);
  expect_plain_everywhere(DType::f32, DType::f16, DType::f64);
}

TEST(Conv, EveryInstructionSet) {
  for (const cpu::Isa isa : {cpu::Isa::base, cpu::Isa::v3, cpu::Isa::v4}) {
    if (isa > cpu::best_isa()) continue;
    const cpu::IsaGuard guard(isa);
    const EngineGuard eigen(GemmEngine::eigen);
    for (ConvShape shape : shapes())
      for (const Map map : kMaps) expect_plain(Problem(shape, DType::f32), map, false, 6e-8);
  }
}

/// Large enough for several parts: by images with a smaller last block, by channels, by groups, and weight
/// gradients of several blocks.
std::vector<ConvShape> large_shapes() {
  const Windows::Sizes one{1, 1, 1}, pad{0, 1, 1};
  return {make_shape(19, 32, 32, 1, {1, 8, 8}, {1, 3, 3}, one, pad, pad),
          make_shape(1, 64, 128, 1, {1, 8, 8}, {1, 3, 3}, one, pad, pad),
          make_shape(2, 64, 64, 4, {1, 8, 8}, {1, 3, 3}, one, pad, pad),
          make_shape(3, 48, 48, 48, {1, 40, 40}, {1, 3, 3}, one, pad, pad),
          make_shape(1, 192, 256, 1, {1, 5, 5}, {1, 3, 3}, one, pad, pad),
          make_shape(17, 3, 5, 1, {1, 130, 130}, {1, 1, 2}),
          make_shape(9, 64, 48, 1, {1, 14, 14}, {1, 1, 1})};
}

TEST(Conv, PartsMatchPlainLoops) {
  for (const GemmEngine engine : engines()) {
    const EngineGuard guard(engine);
    for (ConvShape shape : large_shapes()) {
      for (const Map map : kMaps) {
        shape.channels_last = map == kX;
        expect_plain(Problem(shape, DType::f32), map, map == kX, 6e-8);
      }
    }
  }
}

TEST(Conv, SameBitsOnAnyNumberOfThreads) {
  for (const GemmEngine engine : engines()) {
    const EngineGuard guard(engine);
    for (ConvShape shape : large_shapes()) {
      for (const bool channels_last : {false, true}) {
        shape.channels_last = channels_last;
        for (const Map map : kMaps) {
          SCOPED_TRACE(describe(shape, map));
          Problem problem(shape, DType::f32);
          std::vector<std::vector<std::uint8_t>> found;
          for (const int threads : {1, 2, 3}) {
            const mezzo::test::ThreadGuard set(threads);
            problem.run(map, true);
            found.push_back(problem.result(map).bytes());
          }
          EXPECT_EQ(found[1], found[0]);
          EXPECT_EQ(found[2], found[0]);
        }
      }
    }
  }
}

class Bf16Guard {
 public:
  explicit Bf16Guard(cpu::Bf16Gemm way) { cpu::set_bf16_gemm(way); }
  ~Bf16Guard() { cpu::set_bf16_gemm(cpu::Bf16Gemm::automatic); }
  Bf16Guard(const Bf16Guard&) = delete;
  Bf16Guard& operator=(const Bf16Guard&) = delete;
};

/// The processor's own products of bf16 are exact and added up in f32 too, two at a time.
TEST(Conv, NativeBf16) {
  if (!cpu::has_gemm_engine(GemmEngine::onednn)) GTEST_SKIP() << "only oneDNN has convolutions of them";
  try {
    cpu::set_bf16_gemm(cpu::Bf16Gemm::native);
  } catch (const ValueError&) {
    GTEST_SKIP() << "no native bf16 products here";
  }
  const Bf16Guard native(cpu::Bf16Gemm::native);
  const EngineGuard onednn(GemmEngine::onednn);
  for (ConvShape shape : shapes()) {
    for (const bool channels_last : {false, true}) {
      shape.channels_last = channels_last;
      for (const Map map : kMaps) {
        expect_plain(Problem(shape, DType::bf16), map, map != kWeight, 1.2e-7);
        const DType x = map == kX ? DType::f32 : DType::bf16, y = map == kY ? DType::f32 : DType::bf16,
                    weight = map == kWeight ? DType::f32 : DType::bf16;
        expect_plain(Problem(shape, x, y, weight, DType::f32), map, map != kWeight, 1.2e-7);
      }
    }
  }
}

TEST(Conv, SixteenBitsAreTheF32ResultRoundedOnce) {
  const Bf16Guard widened(cpu::Bf16Gemm::widened);
  for (const GemmEngine engine : engines()) {
    const EngineGuard guard(engine);
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const ConvShape& shape : {large_shapes()[0], shapes()[0], shapes()[6], large_shapes()[2]}) {
        for (const Map map : kMaps) {
          SCOPED_TRACE(describe(shape, map));
          Problem narrow(shape, dtype), wide(shape, DType::f32);
          for (const auto& [from, to] : {std::pair{&narrow.x, &wide.x},
                                         {&narrow.y, &wide.y},
                                         {&narrow.weight, &wide.weight},
                                         {&narrow.bias, &wide.bias}}) {
            const std::vector<double> values = from->values();
            for (std::int64_t i = 0; i < from->size(); ++i) to->set(i, values[static_cast<std::size_t>(i)]);
          }
          narrow.run(map, true), wide.run(map, true);
          const std::vector<double> values = wide.result(map).values();
          ConvArray rounded = narrow.result(map);
          for (std::int64_t i = 0; i < rounded.size(); ++i)
            rounded.set(i, static_cast<float>(values[static_cast<std::size_t>(i)]));
          EXPECT_EQ(narrow.result(map).bytes(), rounded.bytes());
        }
      }
    }
  }
}

/// What is not finite reaches the windows that see it, and no place beside them.
TEST(Conv, NonFiniteValuesStayInTheirWindows) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const GemmEngine engine : engines()) {
    const EngineGuard guard(engine);
    for (ConvShape shape : shapes()) {
      for (const bool channels_last : {false, true}) {
        shape.channels_last = channels_last;
        for (const Map map : {kX, kY}) {
          for (const double value : {inf, std::nan("")}) {
            SCOPED_TRACE(describe(shape, map));
            Problem problem(shape, DType::f32);
            problem.weight.fill(0.5);
            (map == kY ? problem.x : problem.y).set(1, value);
            const PlainSums want = test::naive_conv(shape, problem.x, problem.y, problem.weight, map);
            problem.run(map, false);
            const std::vector<double> found = problem.result(map).values();
            for (std::size_t i = 0; i < found.size(); ++i) {
              ASSERT_EQ(std::isfinite(found[i]), std::isfinite(want.sums[i])) << i;
              ASSERT_EQ(std::isnan(found[i]), std::isnan(want.sums[i])) << i;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
