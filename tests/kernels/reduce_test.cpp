// The reduction loops against plain loops in long double: every combination of dims, layouts, dtypes, and the
// promise that bits do not depend on threads and instruction set.
#include "mezzo/kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/reduce_problem.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "support/thread_guard.h"

namespace mezzo::kernels {
namespace {

using namespace reduce_test;

TEST(Reduce, SumsEveryCombinationOfDimsToHalfAnUlp) {
  for (const Problem& problem : problems()) {
    const auto raw = random_values(layout::numel(problem.shape), 1);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      SCOPED_TRACE(problem.name() + " " + to_string(dtype));
      Array in = make(problem.shape, dtype, raw, Memory::contiguous);
      const auto groups = problem.groups(values_of(in));
      Array out = run(Sum<>{}, problem, in, dtype, compute_dtype(dtype));
      const auto got = values_of(out);
      for (std::size_t o = 0; o < groups.size(); ++o) {
        const auto want = static_cast<double>(exact_sum(groups[o]));
        double magnitude = 0;
        for (const double value : groups[o]) magnitude += std::abs(value);
        const double bound =
            0.5 * ulp(dtype, want) + static_cast<double>(groups[o].size()) * 0x1p-53 * magnitude;
        ASSERT_LE(std::abs(got[o] - want), bound) << "output " << o;
      }
    }
  }
}

TEST(Reduce, BitsAreTheSameForEveryNumberOfThreadsAndInstructionSet) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(problem.name());
    Array in =
        make(problem.shape, DType::f32, random_values(layout::numel(problem.shape), 3), Memory::contiguous);
    std::vector<std::byte> first;
    for (int level = 0; level <= static_cast<int>(cpu::best_isa()); ++level) {
      const cpu::IsaGuard guard(static_cast<cpu::Isa>(level));
      for (const int threads : {1, 2, 3}) {
        const mezzo::test::ThreadGuard threads_guard(threads);
        Array sum = run(Sum<>{}, problem, in, DType::f64, DType::f32);
        Array deviation = make_output(problem, DType::f64);
        variance(Device::cpu(), {0, true}, spread(deviation, problem), in.show(), DType::f32);
        std::vector<std::byte> bits = sum.memory;
        bits.insert(bits.end(), deviation.memory.begin(), deviation.memory.end());
        if (first.empty()) first = bits;
        EXPECT_EQ(std::memcmp(first.data(), bits.data(), bits.size()), 0)
            << "isa " << level << ", " << threads << " threads";
      }
    }
  }
}

/// The sum in f64 of the stored numbers, each given by its bits.
double sum_of_bits(std::vector<std::uint16_t>& bits, DType dtype) {
  double sum = 77;
  const auto n = static_cast<std::int64_t>(bits.size());
  reduce(Device::cpu(), Sum<>{}, {&sum, DType::f64, {n}, {0}}, {bits.data(), dtype, {n}, {1}}, DType::f32);
  return sum;
}

TEST(Reduce, SixteenBitSumsHaveTheBitsOfTheWidenedOnEveryInstructionSet) {
  std::mt19937_64 random(9);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::uint16_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
    for (const std::size_t n : {1, 31, 32, 33, 1023, 1024, 1057, 150'001}) {
      SCOPED_TRACE(to_string(dtype) + " " + std::to_string(n));
      std::vector<std::uint16_t> bits(n);
      for (std::uint16_t& x : bits) {  // every finite number, subnormal ones often
        x = static_cast<std::uint16_t>(random());
        if (random() % 4 == 0) x &= 0x80ff;
        if ((x & infinity) == infinity) x ^= infinity;
      }
      std::vector<float> widened(n);
      cpu::convert(bits.data(), dtype, widened.data(), DType::f32, static_cast<std::int64_t>(n));
      const auto count = static_cast<std::int64_t>(n);
      const auto sum_of_widened = [&] {
        double sum = 77;
        reduce(Device::cpu(), Sum<>{}, {&sum, DType::f64, {count}, {0}},
               {widened.data(), DType::f32, {count}, {1}}, DType::f32);
        return sum;
      };
      // Exponents this far apart make every order of additions show in the last bits.
      const double want = [&] {
        const cpu::IsaGuard guard(cpu::Isa::base);
        return sum_of_widened();
      }();
      for (int level = 0; level <= static_cast<int>(cpu::best_isa()); ++level) {
        const cpu::IsaGuard guard(static_cast<cpu::Isa>(level));
        EXPECT_EQ(sum_of_widened(), want) << "isa " << level;
        EXPECT_EQ(sum_of_bits(bits, dtype), want) << "isa " << level;
        for (const std::size_t at : {n - 1, n / 2}) {
          const std::uint16_t finite = std::exchange(bits[at], static_cast<std::uint16_t>(0x8000 | infinity));
          EXPECT_EQ(sum_of_bits(bits, dtype), -std::numeric_limits<double>::infinity()) << "isa " << level;
          bits[at] = infinity + 1;
          EXPECT_TRUE(std::isnan(sum_of_bits(bits, dtype))) << "isa " << level;
          bits[at] = finite;
        }
      }
    }
  }
}

TEST(Reduce, ExtremaAndTheirPositionsAreExact) {
  for (const Problem& problem : problems()) {
    // Few different values, so that ties abound.
    auto raw = random_values(layout::numel(problem.shape), 4, -40, 40);
    for (double& value : raw) value = std::round(value);
    for (const DType dtype : {DType::f32, DType::f16, DType::f64, DType::u8}) {
      for (const Memory memory : {Memory::contiguous, Memory::reversed}) {
        SCOPED_TRACE(problem.name() + " " + to_string(dtype));
        Array in = make(problem.shape, dtype, raw, memory);
        const auto groups = problem.groups(values_of(in));
        Array most = run(Extremum<false>{}, problem, in, dtype, dtype);
        Array least = run(Extremum<true>{}, problem, in, dtype, dtype);
        Array value = make_output(problem, dtype), most_at = make_output(problem, DType::i64),
              least_at = make_output(problem, DType::i64);
        arg_reduce<false>(Device::cpu(), spread(value, problem), spread(most_at, problem), in.show());
        View none;
        arg_reduce<true>(Device::cpu(), none, spread(least_at, problem), in.show());
        EXPECT_TRUE(values_of(value) == values_of(most));  // but for the sign of a zero
        const auto got_most = values_of(most), got_least = values_of(least), got_most_at = values_of(most_at),
                   got_least_at = values_of(least_at);
        for (std::size_t o = 0; o < groups.size(); ++o) {
          const auto& group = groups[o];
          const auto highest = std::max_element(group.begin(), group.end());
          const auto lowest = std::min_element(group.begin(), group.end());
          ASSERT_EQ(got_most[o], *highest);
          ASSERT_EQ(got_least[o], *lowest);
          ASSERT_EQ(got_most_at[o], static_cast<double>(highest - group.begin()));
          ASSERT_EQ(got_least_at[o], static_cast<double>(lowest - group.begin()));
        }
      }
    }
  }
}

TEST(Reduce, TheFirstNanWinsEverywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(problem.name());
    auto raw = random_values(layout::numel(problem.shape), 5);
    for (std::size_t i = 0; i < raw.size(); i += 97) raw[i] = nan;
    Array in = make(problem.shape, DType::f32, raw, Memory::contiguous);
    const auto groups = problem.groups(raw);
    Array most = run(Extremum<false>{}, problem, in, DType::f32, DType::f32);
    Array at = make_output(problem, DType::i64);
    arg_reduce<false>(Device::cpu(), {}, spread(at, problem), in.show());
    const auto got = values_of(most), got_at = values_of(at);
    for (std::size_t o = 0; o < groups.size(); ++o) {
      const auto is_nan = [](double value) { return std::isnan(value); };
      const auto found = std::find_if(groups[o].begin(), groups[o].end(), is_nan);
      if (found == groups[o].end()) {
        ASSERT_FALSE(std::isnan(got[o]));
      } else {
        ASSERT_TRUE(std::isnan(got[o]));
        ASSERT_EQ(got_at[o], static_cast<double>(found - groups[o].begin()));
      }
    }
  }
}

TEST(Reduce, VarianceKeepsItsDigitsUnderALargeMean) {
  for (const Problem& problem : problems()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const Memory memory : kLayouts) {
        SCOPED_TRACE(problem.name() + " " + to_string(dtype));
        Array in =
            make(problem.shape, dtype, random_values(layout::numel(problem.shape), 6, 9998, 10002), memory);
        const auto groups = problem.groups(values_of(in));
        Array out = make_output(problem, dtype);
        variance(Device::cpu(), {1, false}, spread(out, problem), in.show(), dtype);
        const auto got = values_of(out);
        for (std::size_t o = 0; o < groups.size(); ++o) {
          const auto n = static_cast<long double>(groups[o].size());
          const long double mean = exact_sum(groups[o]) / n;
          long double squares = 0;
          for (const double value : groups[o]) squares += (value - mean) * (value - mean);
          const auto want = static_cast<double>(squares / (n - 1));
          if (groups[o].size() < 2) {
            ASSERT_TRUE(std::isnan(got[o]));
          } else {
            // The mean is off by u |mean| in f64, a deviation therefore by 1e-12.
            ASSERT_NEAR(got[o], want, 0.5 * ulp(dtype, want) + 1e-11 * want + 1e-22);
          }
        }
      }
    }
  }
}

TEST(Reduce, TenMillionTenthsAddUpToTheNearestFloat) {
  const std::int64_t n = 10'000'000;
  const std::vector<float> x(static_cast<std::size_t>(n), 0.1F);
  float sum = 0;
  View in{const_cast<float*>(x.data()), DType::f32, {n}, {1}};
  reduce(Device::cpu(), Sum<>{}, {&sum, DType::f32, {n}, {0}}, in, DType::f32);
  EXPECT_EQ(sum, static_cast<float>(static_cast<long double>(0.1F) * n));
  float mean = 0;
  reduce(Device::cpu(), Sum<>{{}, kDivideByCount}, {&mean, DType::f32, {n}, {0}}, in, DType::f32);
  EXPECT_EQ(mean, 0.1F);
  in.shape = {n / 4, 4};
  in.strides = {4, 1};
  float columns[4] = {};
  reduce(Device::cpu(), Sum<>{}, {columns, DType::f32, in.shape, {0, 1}}, in, DType::f32);
  for (const float column : columns)
    EXPECT_EQ(column, static_cast<float>(static_cast<long double>(0.1F) * (n / 4)));
}

TEST(Reduce, IntegersWrapAndNothingGivesTheNeutralValue) {
  const std::int64_t large[2] = {std::numeric_limits<std::int64_t>::max(), 2};
  std::int64_t wrapped = 0;
  reduce(Device::cpu(), Sum<>{}, {&wrapped, DType::i64, {2}, {0}},
         {const_cast<std::int64_t*>(large), DType::i64, {2}, {1}}, DType::i64);
  EXPECT_EQ(wrapped, std::numeric_limits<std::int64_t>::min() + 1);

  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0, 3}, Shape{0}}) {
    const Problem problem{shape, (1U << shape.size()) - 1};
    Array in = make(shape, DType::f32, {}, Memory::contiguous);
    Array sum = run(Sum<>{}, problem, in, DType::f32, DType::f32);
    EXPECT_EQ(values_of(sum)[0], 0);
    Array mean = run(Sum<>{{}, kDivideByCount}, problem, in, DType::f32, DType::f32);
    EXPECT_TRUE(std::isnan(values_of(mean)[0]));
    Array deviation = make_output(problem, DType::f32);
    variance(Device::cpu(), {0, false}, spread(deviation, problem), in.show(), DType::f32);
    EXPECT_TRUE(std::isnan(values_of(deviation)[0]));
  }
  const Problem kept{{0, 3}, 1};
  Array in = make({0, 3}, DType::f32, {}, Memory::contiguous);
  Array three = run(Sum<>{}, kept, in, DType::f32, DType::f32);
  EXPECT_EQ(values_of(three), (std::vector<double>{0, 0, 0}));
}

TEST(Reduce, BoolReductionsCountEveryValueButZero) {
  for (const DType compute : {DType::f32, DType::f64, DType::i64}) {
    const Problem problem{{3, 4}, 2};
    Array in = make({3, 4}, compute, {0, 0, 0, 0, 0, 2, 0, -1, 1, 1, 5, 3}, Memory::contiguous);
    Array any = run(Sum<NonZero>{{}, kAnyCounted}, problem, in, DType::boolean, compute);
    Array all = run(Sum<NonZero>{{}, kAllCounted}, problem, in, DType::boolean, compute);
    EXPECT_EQ(values_of(any), (std::vector<double>{0, 1, 1}));
    EXPECT_EQ(values_of(all), (std::vector<double>{0, 0, 1}));
  }
}

struct SquaredDifference {
  template <class T>
  MEZZO_HD T operator()(T x, T t) const {
    return (x - t) * (x - t);
  }
};

TEST(MapReduce, AddsAFunctionOfSeveralInputsUp) {
  for (const Shape& shape : {Shape{5}, Shape{7, 300}, Shape{211, 303}, Shape{}}) {
    const auto a = random_values(layout::numel(shape), 7), b = random_values(layout::numel(shape), 8);
    for (const Memory memory : kLayouts) {
      Array x = make(shape, DType::f16, a, memory), t = make(shape, DType::f32, b, Memory::contiguous);
      const auto xs = values_of(x), ts = values_of(t);
      long double want = 0;
      for (std::size_t i = 0; i < xs.size(); ++i) {
        const auto difference = static_cast<float>(xs[i]) - static_cast<float>(ts[i]);
        want += difference * difference;
      }
      float sum = 0, mean = 0;
      const std::array views{x.show(), t.show()};
      map_reduce(Device::cpu(), SquaredDifference{}, {&sum, DType::f32, {}, {}}, views, DType::f32);
      map_reduce(Device::cpu(), SquaredDifference{}, {&mean, DType::f32, {}, {}}, views, DType::f32,
                 kDivideByCount);
      EXPECT_EQ(sum, static_cast<float>(want));
      EXPECT_EQ(mean, static_cast<float>(want / static_cast<long double>(xs.size())));
    }
  }
}

TEST(MapReduce, ReadsRepeatedInputs) {
  Array x = make({40, 50}, DType::f32, std::vector<double>(2000, 3), Memory::contiguous);
  Array t = make({50}, DType::f32, std::vector<double>(50, 1), Memory::contiguous);
  View row = t.show();
  row.shape = {40, 50};
  row.strides = {0, 1};
  double sum = 0;
  map_reduce(Device::cpu(), SquaredDifference{}, {&sum, DType::f64, {}, {}}, std::array{x.show(), row},
             DType::f32);
  EXPECT_EQ(sum, 8000);
}

}  // namespace
}  // namespace mezzo::kernels
