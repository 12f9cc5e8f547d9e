// Random tensors: every value recomputed here from the published Philox words and the formula, independence
// of threads, layout and device, what a call takes from its generator, and distributions.
#include "mezzo/ops/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/kernels/random/normal_f64.h"
#include "mezzo/kernels/random/random.h"
#include "mezzo/kernels/random/random_math.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"
#include "support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

PhiloxBlock block_at(std::uint64_t seed, std::uint64_t index) {
  return Philox{}(philox_counter(index), philox_key(seed));
}
std::uint64_t joined(std::uint32_t high, std::uint32_t low) { return (std::uint64_t{high} << 32) | low; }
/// The 64-bit word that element i of a two-word dtype takes.
std::uint64_t wide_word(std::uint64_t seed, std::uint64_t offset, int i) {
  const PhiloxBlock block = block_at(seed, offset + static_cast<std::uint64_t>(i / 2));
  return joined(block[i % 2 * 2], block[i % 2 * 2 + 1]);
}

// --- the generator

TEST(Generator, HandsOutConsecutiveRangesAndContinuesFromItsState) {
  Generator generator(7);
  EXPECT_EQ(generator.draw(3), (GeneratorState{7, 0}));
  EXPECT_EQ(generator.draw(2), (GeneratorState{7, 3}));
  const GeneratorState state = generator.state();
  EXPECT_EQ(state, (GeneratorState{7, 5}));
  const Tensor first = randn({5}, {}, generator);
  generator.set_state(state);
  EXPECT_EQ(list(randn({5}, {}, generator)), list(first));
  EXPECT_NE(list(randn({5}, {}, generator)), list(first));
  generator.manual_seed(8);
  EXPECT_EQ(generator.state(), (GeneratorState{8, 0}));
}

TEST(Generator, NeverHandsTheSameBlockToTwoThreads) {
  Generator generator;
  constexpr int kThreads = 4, kDraws = 1000;
  std::array<std::vector<std::uint64_t>, kThreads> starts;
  std::vector<std::thread> threads;
  for (auto& mine : starts) {
    threads.emplace_back([&mine, &generator] {
      for (int i = 0; i < kDraws; ++i) mine.push_back(generator.draw(3).offset);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : starts) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), std::size_t{kThreads} * kDraws);
  EXPECT_EQ(*all.rbegin(), 3U * (kThreads * kDraws - 1));
}

TEST(Generator, TheDefaultOneIsSeededByManualSeed) {
  manual_seed(11);
  const Tensor a = rand({3}), b = rand({3});
  manual_seed(11);
  EXPECT_EQ(list(rand({3})), list(a));
  EXPECT_EQ(list(rand({3})), list(b));
  Generator own(11);
  EXPECT_EQ(list(rand({3}, {}, own)), list(a));
  manual_seed(0);
}

TEST(Random, CallsTakeAsManyBlocksAsTheirElementsNeed) {
  Generator generator;
  const auto taken = [&](auto&& call) {
    const std::uint64_t before = generator.state().offset;
    call();
    return generator.state().offset - before;
  };
  EXPECT_EQ(taken([&] { (void)rand({9}, {}, generator); }), 3U);
  EXPECT_EQ(taken([&] { (void)randn({2, 4}, {.dtype = DType::f16}, generator); }), 2U);
  EXPECT_EQ(taken([&] { (void)rand({9}, {.dtype = DType::f64}, generator); }), 5U);
  EXPECT_EQ(taken([&] { (void)randint(0, 2, {4}, {.dtype = DType::u8}, generator); }), 2U);
  EXPECT_EQ(taken([&] { (void)randperm(5, {}, generator); }), 3U);
  EXPECT_EQ(taken([&] { (void)rand({0}, {}, generator); }), 0U);
  EXPECT_EQ(taken([&] { EXPECT_THROW((void)uniform(1, 0, {9}, {}, generator), ValueError); }), 0U);
}

// --- values

TEST(Random, UniformsAreTheirPhiloxWords) {
  Generator generator(5);
  (void)generator.draw(1000);
  const Tensor x = rand({7, 3}, {}, generator);
  for (int i = 0; i < 21; ++i) {
    const std::uint32_t word = block_at(5, 1000 + static_cast<std::uint64_t>(i / 4))[i % 4];
    EXPECT_EQ(x.data<float>()[i], static_cast<float>(word >> 8) * 0x1p-24F) << i;
  }
  const Tensor wide = uniform(-1, 3, {9}, {.dtype = DType::f64}, generator);
  for (int i = 0; i < 9; ++i) {
    const double u = static_cast<double>(wide_word(5, 1006, i) >> 11) * 0x1p-53;
    EXPECT_EQ(wide.data<double>()[i], -1 + u * 4) << i;
  }
}

TEST(Random, NormalsAreBoxAndMullersTransformOfTheirWords) {
  Generator generator(6);
  const Tensor x = normal(10, 3, {10}, {}, generator);
  for (int i = 0; i < 10; i += 2) {
    const PhiloxBlock block = block_at(6, static_cast<std::uint64_t>(i / 4));
    const kernels::NormalPair pair = kernels::normal_pair(block[i % 4], block[i % 4 + 1]);
    EXPECT_EQ(x.data<float>()[i], pair.first * 3.0F + 10.0F);
    EXPECT_EQ(x.data<float>()[i + 1], pair.second * 3.0F + 10.0F);
  }
}

TEST(Random, Float64NormalsAreTheFormulaInLongDoubleWithinSixUlp) {
  Generator generator(9);
  constexpr int kCount = 200000;
  const Tensor x = randn({kCount}, {.dtype = DType::f64}, generator);
  const auto values = x.data<double>();
  const long double turn = 8 * std::atan(1.0L);
  double worst = 0;
  for (int i = 0; i < kCount; ++i) {
    const PhiloxBlock block = block_at(9, static_cast<std::uint64_t>(i / 2));
    const long double u = 1 - static_cast<long double>(joined(block[0], block[1]) >> 11) * 0x1p-53L;
    const long double radius = std::sqrt(-2 * std::log(u));
    const long double angle = turn * (static_cast<long double>(joined(block[2], block[3])) * 0x1p-64L);
    const long double want = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    int exponent = 0;
    static_cast<void>(std::frexp(static_cast<double>(want), &exponent));
    // The long double angle is off by 2^-62: near zeros of sine and cosine the comparison is absolute.
    const double ulp = std::max(std::ldexp(1.0, exponent - 53), 1e-18);
    worst = std::max(worst, static_cast<double>(std::fabs(values[i] - want)) / ulp);
  }
  EXPECT_LE(worst, 6);
  RecordProperty("max_ulp", std::to_string(worst));
}

TEST(Random, Float64LogarithmIsWithinThreeUlp) {
  double worst = 0;
  const auto check = [&worst](double u) {
    const long double want = std::log(static_cast<long double>(u));
    int exponent = 0;
    static_cast<void>(std::frexp(static_cast<double>(want), &exponent));
    const auto error = static_cast<double>(std::fabs(kernels::detail::log_f64(u) - want));
    worst = std::max(worst, error / std::ldexp(1.0, exponent - 53));
  };
  for (int i = 1; i < 200000; ++i) check(i / 200000.0);
  for (int i = 1; i < 60; ++i) {
    check(std::ldexp(1.0, -i));
    check(std::ldexp(std::sqrt(0.5), -i));  // where the series is longest, from both sides
    check(std::ldexp(std::nextafter(std::sqrt(0.5), 0.0), -i));
    check(1 - std::ldexp(1.0, -std::min(i, 53)));
  }
  EXPECT_EQ(kernels::detail::log_f64(1), 0);
  EXPECT_LE(worst, 3);
  RecordProperty("max_ulp", std::to_string(worst));
}

TEST(Random, Float64NormalsAreExactAtTheEdges) {
  const double largest = std::sqrt(106 * std::log(2.0));
  const kernels::NormalPairF64 start = kernels::normal_pair_f64({{0xffffffff, 0xffffffff, 0, 0}});
  EXPECT_NEAR(start.first, largest, 1e-14);
  EXPECT_EQ(start.second, 0);
  EXPECT_NEAR(kernels::normal_pair_f64({{0xffffffff, 0xffffffff, 0x40000000, 0}}).second, largest, 1e-14);
  EXPECT_NEAR(kernels::normal_pair_f64({{0xffffffff, 0xffffffff, 0x80000000, 0}}).first, -largest, 1e-14);
  EXPECT_NEAR(kernels::normal_pair_f64({{0xffffffff, 0xffffffff, 0xc0000000, 0}}).second, -largest, 1e-14);
  EXPECT_EQ(kernels::normal_pair_f64({{0, 0, 0x12345678, 0}}).first, 0);
}

TEST(Random, IntegersAreTheUpperHalfOfWordTimesRange) {
  __extension__ using Wide = unsigned __int128;
  for (const auto& [low, high] : {std::pair<std::int64_t, std::int64_t>{0, 10},
                                  {-5, 6},
                                  {INT64_MIN, INT64_MAX},
                                  {0, std::int64_t{1} << 62}}) {
    Generator generator(4);
    const Tensor x = randint(low, high, {101}, {}, generator);
    EXPECT_EQ(x.dtype(), DType::i64);
    const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    for (int i = 0; i < 101; ++i) {
      const auto part = static_cast<std::uint64_t>(Wide{wide_word(4, 0, i)} * range >> 64);
      EXPECT_EQ(static_cast<std::uint64_t>(x.data<std::int64_t>()[i]),
                static_cast<std::uint64_t>(low) + part);
      EXPECT_GE(x.data<std::int64_t>()[i], low);
      EXPECT_LT(x.data<std::int64_t>()[i], high);
    }
  }
}

TEST(Random, SixteenBitValuesAreTheF32OnesRoundedOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Generator a(3), b(3);
    EXPECT_EQ(list(randn({50}, {.dtype = dtype}, a)), list(to(randn({50}, {}, b), dtype)));
    EXPECT_EQ(list(uniform(-2, 5, {50}, {.dtype = dtype}, a)), list(to(uniform(-2, 5, {50}, {}, b), dtype)));
  }
}

TEST(Random, BitsDoNotDependOnTheNumberOfThreads) {
  const auto draw = [](int threads) {
    const test::ThreadGuard guard(threads);
    Generator generator(21);
    std::vector<Tensor> all{rand({100003}, {}, generator), randn({100003}, {}, generator),
                            randn({70001}, {.dtype = DType::f64}, generator),
                            randint(0, 1000, {70001}, {.dtype = DType::i32}, generator)};
    return all;
  };
  const std::vector<Tensor> one = draw(1), three = draw(3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(std::memcmp(one[i].impl().data(), three[i].impl().data(), one[i].impl().storage->bytes()), 0)
        << i;
  }
}

// --- in place

TEST(Random, ExponentialsAreLogarithmsOfTheirWords) {
  Generator generator(4);
  const Tensor x = exponential_(zeros({10}), 2, generator);
  for (int i = 0; i < 10; ++i) {
    const std::uint32_t word = block_at(4, static_cast<std::uint64_t>(i / 4))[i % 4];
    const double u = static_cast<double>(word >> 8) * 0x1p-24;
    EXPECT_NEAR(x.data<float>()[i], -std::log1p(-u) / 2, 1e-6) << i;
  }
  const Tensor wide = exponential_(zeros({9}, DType::f64), 0.5, generator);
  for (int i = 0; i < 9; ++i) {
    const double u = static_cast<double>(wide_word(4, 3, i) >> 11) * 0x1p-53;
    EXPECT_NEAR(wide.data<double>()[i], -std::log1p(-u) * 2, 1e-14) << i;
  }
  EXPECT_EQ(kernels::ExponentialBlocks<float>::time_left(0.0F), 0x1p-25F);
  EXPECT_EQ(kernels::ExponentialBlocks<double>::time_left(0.0), 0x1p-54);
  EXPECT_EQ(message_of<ValueError>([] { return exponential_(zeros({2}), 0); }),
            "exponential_: expected a finite lambda above 0, got 0; it is 1 / mean");
}

TEST(Random, ExponentialsHaveTheirMeanAndDeviation) {
  Generator generator(8);
  const Tensor x = exponential_(zeros({1000000}), 4, generator);
  EXPECT_NEAR(mean(x).item(), 0.25, 0.00125);  // five deviations of the mean
  EXPECT_NEAR(std(x).item(), 0.25, 0.0025);
  EXPECT_NEAR(mean(to(x > 1, DType::f32)).item(), std::exp(-4.0), 0.0007);
  EXPECT_GT(min(x).item(), 0);
  const Tensor y = zeros({3}, DType::bf16);
  manual_seed(3);
  y.exponential_(2);
  manual_seed(3);
  EXPECT_EQ(list(y), list(to(exponential_(zeros({3}), 2), DType::bf16)));
}

TEST(Random, TheGeneratorMayStandAmongTheOptions) {
  Generator a(11), b(11);
  EXPECT_EQ(list(rand({5}, {.generator = &a})), list(rand({5}, {}, b)));
  EXPECT_EQ(list(randn({5}, {.dtype = DType::f64, .generator = &a})), list(randn({5}, DType::f64, b)));
  EXPECT_EQ(list(uniform(2, 3, {5}, {.generator = &a})), list(uniform(2, 3, {5}, {}, b)));
  EXPECT_EQ(list(normal(2, 3, {5}, {.generator = &a})), list(normal(2, 3, {5}, {}, b)));
  EXPECT_EQ(list(randint(0, 100, {5}, {.generator = &a})), list(randint(0, 100, {5}, {}, b)));
  EXPECT_EQ(list(randperm(9, {.dtype = DType::i32, .generator = &a})), list(randperm(9, {}, b)));
  EXPECT_EQ(a.state(), b.state());
  // Options of other tensors are taken as well.
  const TensorOptions options{.dtype = DType::f16, .requires_grad = true};
  EXPECT_EQ(randn({2}, options, a).dtype(), DType::f16);
  EXPECT_TRUE(uniform(0, 1, {2}, options).requires_grad());
  EXPECT_EQ(randint(0, 9, {2}, ValueOptions{.dtype = DType::u8}, a).dtype(), DType::u8);
  EXPECT_TRUE(randn({1, 2, 3, 4}, {.memory_format = MemoryFormat::channels_last})
                  .is_contiguous(MemoryFormat::channels_last));
}

TEST(RandomInPlace, GivesAnyLayoutTheValuesOfItsShape) {
  const Tensor x = transpose(zeros({5, 300}), 0, 1), gaps = slice(zeros({40, 3}), 0, 1, 40, 2);
  Generator a(2), b(2);
  EXPECT_TRUE(uniform_(x, -1, 2, a).is_same(x));
  EXPECT_EQ(list(x), list(uniform(-1, 2, {300, 5}, {}, b)));
  normal_(gaps, 1, 0.5, a);
  EXPECT_EQ(list(gaps), list(normal(1, 0.5, {20, 3}, {}, b)));
}

TEST(RandomInPlace, IsForInitialisersAndNotRecorded) {
  const Tensor weight = zeros({3}, {.requires_grad = true});
  const std::uint32_t version = weight.version();
  normal_(weight);
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_GT(weight.version(), version);
  const Tensor result = clone(weight);
  EXPECT_EQ(
      message_of<AutogradError>([&] { uniform_(result); }),
      "uniform_: expected a leaf when recording is on, got a result of recorded ops; write under NoGrad");
  const NoGrad no_grad;
  uniform_(result);
}

TEST(RandomInPlace, RefusesSharedElementsAndOtherDTypes) {
  EXPECT_THROW(normal_(expand(zeros({1}), {4})), ShapeError);
  EXPECT_THROW(uniform_(zeros({2}, {.dtype = DType::i64})), DTypeError);
  EXPECT_THROW((void)rand({2}, {.dtype = DType::i64}), DTypeError);
}

TEST(Random, RefusesArgumentsWithoutADistribution) {
  EXPECT_EQ(message_of<ValueError>([] { (void)randint(3, 3, {1}); }),
            "randint: expected low < high, got [3, 3); high itself is never drawn");
  EXPECT_THROW((void)uniform(2, 1, {1}), ValueError);
  EXPECT_THROW((void)uniform(0, INFINITY, {1}), ValueError);
  EXPECT_THROW((void)uniform(-3e38, 3e38, {1}), ValueError);
  EXPECT_THROW((void)normal(0, -1, {1}), ValueError);
  EXPECT_THROW((void)normal(NAN, 1, {1}), ValueError);
  EXPECT_THROW((void)randint(0, 257, {1}, {.dtype = DType::u8}), ValueError);
  EXPECT_EQ(randint(0, 256, {1}, {.dtype = DType::u8}).numel(), 1);
  EXPECT_THROW((void)randint(0, 129, {1}, {.dtype = DType::i8}), ValueError);
  EXPECT_THROW((void)randint(-129, 0, {1}, {.dtype = DType::i8}), ValueError);
  EXPECT_EQ(randint(-128, 128, {1}, {.dtype = DType::i8}).numel(), 1);
  EXPECT_THROW((void)randint(-32769, 0, {1}, {.dtype = DType::i16}), ValueError);
  EXPECT_EQ(amin(randint(-32768, -32767, {3}, {.dtype = DType::i16})).item<int>(), -32768);
  EXPECT_EQ(amax(randperm(300, {.dtype = DType::i16})).item<int>(), 299);
  EXPECT_THROW((void)randint(0, 2050, {1}, {.dtype = DType::f16}), ValueError);
  EXPECT_EQ(randint(0, 2049, {1}, {.dtype = DType::f16}).numel(), 1);
  EXPECT_THROW((void)randperm(-1), ValueError);
  EXPECT_THROW((void)randperm(257, {.dtype = DType::u8}), ValueError);
}

// --- distributions, within five standard deviations

TEST(Random, UniformsFillTheirIntervalEvenly) {
  constexpr int kCount = 100000, kBins = 10;
  Generator generator(31);
  std::array<int, kBins> bins{};
  for (const double value : list(uniform(-2, 3, {kCount}, {}, generator))) {
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 3);
    ++bins[std::min(kBins - 1, static_cast<int>((value + 2) * 2))];
  }
  for (const int count : bins) EXPECT_NEAR(count, kCount / kBins, 5 * std::sqrt(kCount * 0.1 * 0.9));
}

TEST(Random, NormalsHaveTheirMeanAndDeviation) {
  constexpr int kCount = 100000;
  for (const DType dtype : {DType::f32, DType::f64}) {
    Generator generator(32);
    double sum = 0, square = 0;
    for (const double value : list(normal(5, 2, {kCount}, {.dtype = dtype}, generator))) {
      sum += value - 5;
      square += (value - 5) * (value - 5);
    }
    EXPECT_NEAR(sum / kCount, 0, 5 * 2 / std::sqrt(kCount));
    EXPECT_NEAR(square / kCount, 4, 5 * 4 * std::sqrt(2.0 / kCount));
  }
}

TEST(Randperm, GivesEveryOrderEquallyOften) {
  Generator generator(33);
  std::map<std::vector<std::int64_t>, int> orders;
  constexpr int kCount = 6000;
  for (int i = 0; i < kCount; ++i) ++orders[randperm(3, {}, generator).to_vector<std::int64_t>()];
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) {
    std::vector<std::int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_NEAR(count, kCount / 6.0, 5 * std::sqrt(kCount / 6.0 * 5 / 6));
  }
  EXPECT_EQ(randperm(0).shape(), Shape{0});
  EXPECT_EQ(list(randperm(1, {.dtype = DType::i32})), std::vector<double>{0});
}

}  // namespace
}  // namespace mezzo
