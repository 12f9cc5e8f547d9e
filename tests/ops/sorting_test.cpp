// sort and topk against std::stable_sort, on the lengths where the algorithm changes: few elements, bytes of
// keys, several chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/ops/pointwise_support.h"
#include "mezzo/tests/support/thread_guard.h"

namespace mezzo {
namespace {

using namespace test;

using Doubles = std::vector<double>;

/// Many equal elements, and for floating dtypes both zeros, infinities and NaNs of both signs.
Tensor tied(std::int64_t n, DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  const bool is_signed = dtype != DType::u8 && dtype != DType::boolean;
  Doubles values = list(randint(is_signed ? -40 : 0, dtype == DType::boolean ? 2 : 40, {n}, {}, generator));
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  if (is_floating(dtype)) {
    for (double& value : values) {
      if (value == -1) value = -0.0;
      if (value == 1) value = 0x1p-14;
      if (value == 2) value = -kInf;
      if (value == 3) value = kInf;
      if (value == 4) value = kNan;
      if (value == 5) value = -kNan;
    }
  }
  return tensor(values).to(dtype);
}

/// PyTorch's order: stable both ways, NaN counts as the largest.
Doubles order_of(const Doubles& values, bool descending) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    const double a = values[descending ? j : i], b = values[descending ? i : j];
    return a < b || (std::isnan(b) && !std::isnan(a));
  });
  return {order.begin(), order.end()};
}

TEST(Sort, AgreesWithAStableSortForEveryDTypeAndLength) {
  for (const DType dtype : kComputeDTypes) {
    for (const std::int64_t n : {1, 2, 31, 96, 97, 1000, 32768, 32769, 70001}) {
      if (n > 1000 && dtype != DType::f32 && dtype != DType::i64) continue;  // both kinds of entries
      const Tensor x = tied(n, dtype, 3);
      for (const bool descending : {false, true}) {
        const auto [values, indices] = sort(x, 0, descending);
        const Doubles expected = order_of(list(x), descending), all = list(x), got = list(values);
        ASSERT_EQ(list(indices), expected) << to_string(dtype) << ", " << n << ", " << descending;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double value = all[static_cast<std::size_t>(expected[i])];
          ASSERT_TRUE(got[i] == value || (std::isnan(got[i]) && std::isnan(value))) << to_string(dtype);
        }
      }
    }
  }
}

TEST(Sort, TellsLargeIntegersAndNeighbouringFloatsApart) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Doubles expected;
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
  std::vector<std::int32_t> narrow;
  for (std::int64_t i = 0; i < 200; ++i) {
    integers.push_back(i % 2 == 0 ? kMost - i : -kMost + i);
    narrow.push_back(static_cast<std::int32_t>(i % 2 == 0 ? 0x7fffffff - i : -0x7fffffff + i));
    floats.push_back(static_cast<float>(i % 2 == 0 ? 1 - static_cast<double>(i) * 0x1p-24
                                                   : -1 + static_cast<double>(i) * 0x1p-24));
  }
  for (int i = 1; i < 200; i += 2) expected.push_back(i);
  for (int i = 198; i >= 0; i -= 2) expected.push_back(i);
  EXPECT_EQ(list(sort(tensor(integers), 0).indices), expected);
  EXPECT_EQ(list(sort(tensor(narrow), 0).indices), expected);
  EXPECT_EQ(list(sort(tensor(floats), 0).indices), expected);
}

TEST(Sort, DoesNotDependOnThreadsOrStrides) {
  const Tensor x = view(tied(300 * 400, DType::f32, 5), {300, 400});
  for (const std::int64_t dim : {0, 1}) {
    Doubles one, flat;
    {
      const ThreadGuard single(1);
      one = list(sort(x, dim).indices);
      flat = list(sort(view(x, {120000}), 0).indices);
    }
    const ThreadGuard several(4);
    EXPECT_EQ(list(sort(x, dim).indices), one);
    EXPECT_EQ(list(sort(view(x, {120000}), 0).indices), flat);
    const Tensor turned = transpose(transpose(x, 0, 1).contiguous(), 0, 1);
    EXPECT_EQ(list(sort(turned, dim).indices), one);
  }
  const Tensor every_third = slice(view(x, {120000}), 0, 1, std::nullopt, 3);
  EXPECT_EQ(list(sort(every_third, 0).indices), order_of(list(every_third), false));
}

TEST(Topk, IsTheBeginningOfTheSortedRow) {
  for (const std::int64_t n : {1, 20, 400, 32769, 70001}) {
    const Tensor x = tied(n, DType::f32, 7);
    for (const bool largest : {false, true}) {
      const Doubles all = order_of(list(x), largest);
      for (const std::int64_t k : {std::int64_t{1}, n / 20, n / 16, n / 3, n}) {
        ASSERT_EQ(list(topk(x, k, 0, largest).indices), Doubles(all.begin(), all.begin() + k))
            << n << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo
