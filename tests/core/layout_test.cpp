// Shapes and strides, mostly against brute force: a layout is the list of offsets that its indices visit in
// row-major order, and every claim of core/layout.h can be checked on that list.
#include "mezzo/core/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::layout {
namespace {

using test::message_of;

/// Offsets of all elements in row-major order.
std::vector<std::int64_t> offsets(const Shape& shape, const Dims& strides) {
  std::vector<std::int64_t> result{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t base : result) {
      for (std::int64_t i = 0; i < shape[d]; ++i) longer.push_back(base + i * strides[d]);
    }
    result = longer;
  }
  return result;
}

/// A layout as views make them: dims of a contiguous tensor in any order, some with steps, some repeated.
struct Sample {
  Shape shape;
  Dims strides;
};
Sample random_layout(std::mt19937& random, std::size_t rank) {
  const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  Shape sizes;
  for (std::size_t d = 0; d < rank; ++d) sizes.push_back(1 + upto(4));
  Shape memory = sizes;
  for (std::int64_t& size : memory) size *= upto(4) == 0 ? 2 : 1;
  const Dims whole = contiguous_strides(memory);
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (upto(2) == 0) std::shuffle(order.begin(), order.end(), random);
  Sample sample;
  for (const std::size_t d : order) {
    sample.shape.push_back(sizes[d]);
    const std::int64_t step = memory[d] == 2 * sizes[d] && upto(2) == 0 ? 2 : 1;
    sample.strides.push_back(upto(6) == 0 ? 0 : whole[d] * step);
  }
  return sample;
}
/// A shape with the given number of elements, with some dims of size 1 among them.
Shape random_shape_of(std::mt19937& random, std::int64_t count) {
  Shape shape;
  while (shape.size() < 5) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= count; ++d) {
      if (count % d == 0) divisors.push_back(d);
    }
    shape.push_back(divisors[random() % divisors.size()]);
    count /= shape.back();
  }
  shape.push_back(count);
  return shape;
}

TEST(Dims, HoldsEightNumbersAndRefusesTheNinth) {
  Dims dims{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(dims.size(), 8U);
  EXPECT_EQ(message_of<ShapeError>([&] { dims.push_back(9); }),
            "shape: expected at most 8 dimensions, got more; flatten some of them");
  EXPECT_THROW((Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
  EXPECT_THROW((Dims(9, 1)), ShapeError);
  EXPECT_THROW(dims.insert(0, 0), ShapeError);
  EXPECT_EQ(dims, (Dims{1, 2, 3, 4, 5, 6, 7, 8})) << "unchanged by what was refused";
}

TEST(Dims, InsertsAndErasesAnywhere) {
  Dims dims{1, 3};
  dims.insert(1, 2);
  dims.insert(3, 4);
  EXPECT_EQ(dims, (Dims{1, 2, 3, 4}));
  dims.erase(0);
  dims.erase(2);
  EXPECT_EQ(dims, (Dims{2, 3}));
  EXPECT_TRUE(dims.contains(3));
  EXPECT_FALSE(dims.contains(1));
}

TEST(Layout, ContiguousMeansRowMajorWithoutGaps) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(numel({2, 3, 4}), 24);
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({2, 0}), 0);
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 99, 1}));  // a stride nobody steps
  EXPECT_TRUE(is_contiguous({0, 3}, {7, 7}));
  EXPECT_TRUE(is_contiguous({3, 0}, {7, 7}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(is_contiguous({2, 3}, {6, 2}));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto [shape, strides] = random_layout(random, 1 + random() % 4);
    const auto visited = offsets(shape, strides);
    bool in_order = true;
    for (std::size_t k = 0; k < visited.size(); ++k) in_order &= visited[k] == static_cast<std::int64_t>(k);
    EXPECT_EQ(is_contiguous(shape, strides), in_order) << to_string(shape) << ' ' << to_string(strides);
  }
}

/// Offsets of all elements in the order n, spatial..., c.
std::vector<std::int64_t> channels_last_offsets(const Shape& shape, const Dims& strides) {
  const auto moved = [](Dims values) {
    const std::int64_t channels = values[1];
    values.erase(1);
    values.push_back(channels);
    return values;
  };
  return offsets(moved(shape), moved(strides));
}
bool counts_up(const std::vector<std::int64_t>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(MemoryFormats, ChannelsLastIsDenseWithTheChannelsInnermost) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const Sample sample = random_layout(random, 3 + random() % 3);
    const Dims dense = dense_strides("test", sample.shape, MemoryFormat::channels_last);
    EXPECT_TRUE(counts_up(channels_last_offsets(sample.shape, dense))) << to_string(dense);
    EXPECT_EQ(is_dense_in(sample.shape, sample.strides, MemoryFormat::channels_last),
              counts_up(channels_last_offsets(sample.shape, sample.strides)))
        << to_string(sample.shape) << " " << to_string(sample.strides);
  }
  EXPECT_EQ(dense_strides("test", {2, 3, 4, 5}, MemoryFormat::channels_last), (Dims{60, 1, 15, 3}));
  EXPECT_EQ(dense_strides("test", {2, 3, 4, 5}, MemoryFormat::contiguous), (Dims{60, 20, 5, 1}));
  EXPECT_EQ(dense_strides("test", {2, 3}, MemoryFormat::preserve), (Dims{3, 1}));
  EXPECT_TRUE(is_dense_in({2, 0, 4}, {7, 7, 7}, MemoryFormat::channels_last));
  EXPECT_FALSE(is_dense_in({2, 3}, {1, 2}, MemoryFormat::channels_last));
}

TEST(MemoryFormats, AreSeenInStrides) {
  constexpr auto kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;
  std::mt19937 random(8);
  for (int round = 0; round < 1000; ++round) {
    const Shape shape = random_layout(random, 3 + random() % 3).shape;
    Dims strides = dense_strides("test", shape, kLast);
    const bool ambiguous = strides == contiguous_strides(shape);
    EXPECT_EQ(format_of(shape, strides), ambiguous ? kRows : kLast) << to_string(shape);
    EXPECT_EQ(format_of(shape, contiguous_strides(shape)), kRows) << to_string(shape);
    // Slices keep the strides of what they are cut from; repeated dims have no order.
    Shape part = shape;
    for (std::int64_t& size : part) size -= size > 1 && random() % 2 == 0 ? 1 : 0;
    if (shape[1] > 1) {
      EXPECT_EQ(format_of(part, strides), kLast) << to_string(part);
    }
    strides[random() % shape.size()] = 0;
    EXPECT_EQ(format_of(shape, strides), kRows) << to_string(shape) << " " << to_string(strides);
  }
  EXPECT_EQ(format_of({4, 1, 5, 6}, {30, 1, 6, 1}), kLast) << "one channel, made channels-last";
  EXPECT_EQ(format_of({4, 1, 5, 6}, {30, 30, 6, 1}), kRows) << "the same, made row-major";
  EXPECT_EQ(format_of({4, 7, 1, 1}, {7, 1, 7, 7}), kLast) << "one place";
  EXPECT_EQ(format_of({4, 7, 1, 1}, {7, 1, 1, 1}), kRows);
  EXPECT_EQ(format_of({4, 1, 1}, {1, 1, 1}), kRows) << "all that both formats say";
  EXPECT_EQ(format_of({2, 3}, {1, 2}), kRows) << "no format of matrices";
  EXPECT_EQ(format_of({2, 3, 4, 5}, {60, 1, 3, 12}), kRows) << "spatial dims turned";
}

TEST(MemoryFormats, OfOtherThanThreeToFiveDimsAreRefused) {
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3}, Shape{1, 2, 3, 4, 5, 6}}) {
    EXPECT_EQ(message_of<ShapeError>([&] { (void)dense_strides("op", shape, MemoryFormat::channels_last); }),
              "op: expected 3 to 5 dims [N, C, spatial...] for channels_last, got " + to_string(shape) +
                  "; use MemoryFormat::contiguous");
  }
}

TEST(OrderAlong, WalksTheLeaderAndKeepsWhatBelongsTogether) {
  std::mt19937 random(9);
  for (int round = 0; round < 1000; ++round) {
    const Sample sample = random_layout(random, random() % 6);
    Shape shape = sample.shape;
    std::array<Dims, 2> strides{contiguous_strides(shape), sample.strides};
    order_along(shape, strides, 1);
    EXPECT_TRUE(std::is_sorted(strides[1].begin(), strides[1].end(), std::greater<>()))
        << to_string(strides[1]);
    // The row-major offsets name the elements: each still goes with its place in the sample.
    const auto names = offsets(shape, strides[0]), places = offsets(shape, strides[1]);
    const auto want = offsets(sample.shape, sample.strides);
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(places[i], want[static_cast<std::size_t>(names[i])]);
  }
}

TEST(Broadcast, AlignsAtTheEndAndIsSymmetric) {
  EXPECT_EQ(broadcast("op", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("op", {2, 1}, {1, 4}), (Shape{2, 4}));
  EXPECT_EQ(broadcast("op", {}, {2}), Shape{2});
  EXPECT_EQ(broadcast("op", {0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_EQ(broadcast("op", {1}, {0}), Shape{0});
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    const Shape a = random_layout(random, random() % 4).shape, b = random_layout(random, random() % 4).shape;
    const auto both = [&](const Shape& x, const Shape& y) -> std::string {
      try {
        return to_string(broadcast("op", x, y));
      } catch (const ShapeError&) {
        return "refused";
      }
    };
    EXPECT_EQ(both(a, b), both(b, a));
  }
}

TEST(Broadcast, SaysWhichSizesDisagree) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)broadcast("add", {2, 3}, {2, 4});
            }),
            "add: expected shapes that broadcast, got [2, 3] and [2, 4]; sizes must be equal or 1 from the "
            "last dim on: 3 != 4");
  EXPECT_THROW((void)broadcast("add", {2, 0}, {2, 3}), ShapeError);
}

TEST(ExpandStrides, RepeatsWhatHasSizeOne) {
  EXPECT_EQ(expand_strides("op", {3, 1}, {1, 1}, {2, 3, 4}), (Dims{0, 1, 0}));
  EXPECT_EQ(expand_strides("op", {}, {}, {2}), Dims{0});
  EXPECT_THROW((void)expand_strides("op", {2}, {1}, {3}), ShapeError);
  EXPECT_THROW((void)expand_strides("op", {1, 2}, {2, 1}, {2}), ShapeError);
}

TEST(ReshapeStrides, ShowTheSameElementsOrSayThatNoneCan) {
  std::mt19937 random(3);
  int views = 0, copies = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto [shape, strides] = random_layout(random, random() % 5);
    const Shape target = random_shape_of(random, numel(shape));
    const auto want = offsets(shape, strides);
    // The first step along each dim forces its stride; a view exists exactly if these strides visit the rest.
    const Dims dense = contiguous_strides(target);
    Dims forced(target.size(), 0);
    for (std::size_t d = 0; d < target.size(); ++d) {
      if (target[d] > 1) forced[d] = want[static_cast<std::size_t>(dense[d])] - want[0];
    }
    const bool possible = offsets(target, forced) == want;
    const auto got = reshape_strides(shape, strides, target);
    const std::string what = to_string(shape) + to_string(strides) + " as " + to_string(target);
    ASSERT_EQ(got.has_value(), possible) << what;
    if (got) {
      ASSERT_EQ(offsets(target, *got), want) << what;
    }
    ++(possible ? views : copies);
  }
  EXPECT_GT(views, 1000);
  EXPECT_GT(copies, 1000);
}

TEST(ReshapeStrides, OfNoElementsAreAlwaysThere) {
  EXPECT_TRUE(reshape_strides({0, 3}, {1, 0}, {3, 0, 2}).has_value());
  EXPECT_TRUE(reshape_strides({}, {}, {1, 1}).has_value());
}

TEST(CheckedNumel, CountsSoundShapesAndRefusesAllOthers) {
  constexpr std::int64_t k40 = std::int64_t{1} << 40, k59 = std::int64_t{1} << 59;
  EXPECT_EQ(checked_numel("zeros", {}), 1);
  EXPECT_EQ(checked_numel("zeros", {2, 3, 4}), 24);
  EXPECT_EQ(checked_numel("zeros", {2, 0, 4}), 0);
  EXPECT_EQ(checked_numel("zeros", {k59}), k59);
  EXPECT_EQ(checked_numel("zeros", {kMaxElements - 1, 1}), kMaxElements - 1);
  EXPECT_EQ(message_of<ShapeError>([] {
              checked_numel("zeros", {k40, k40});
            }),
            "zeros: expected fewer than 2^60 elements, sizes of 0 left out, got [1099511627776, "
            "1099511627776]; check the shape");
  // 2^80, 2^64, 2^63 and 2^60: beyond 64 bits, 0 and negative modulo them, and just too many.
  for (const Shape& shape : {Shape{k40, k40, 0}, Shape{k40, 0, k40}, Shape{1 << 24, k40}, Shape{1 << 23, k40},
                             Shape{2, k59}, Shape{INT64_MAX}, Shape{INT64_MAX, 0}})
    EXPECT_THROW(checked_numel("zeros", shape), ShapeError) << to_string(shape);
  EXPECT_EQ(message_of<ShapeError>([] {
              checked_numel("zeros", {0, -1});
            }),
            "zeros: expected sizes of at least 0, got [0, -1]; check the shape");
  EXPECT_THROW(checked_numel("zeros", {INT64_MIN}), ShapeError);
}

TEST(Layout, ShapesMadeOfSoundOnesAreCheckedToo) {
  constexpr std::int64_t k40 = std::int64_t{1} << 40;
  EXPECT_THROW((void)broadcast("add", {k40, 1}, {1, k40}), ShapeError);
  EXPECT_THROW((void)resolve_reshape("reshape", 0, {k40, k40, 0}), ShapeError);
  EXPECT_THROW((void)resolve_reshape("reshape", 0, {k40, k40}), ShapeError);  // 2^80 is 0 modulo 2^64
  EXPECT_THROW((void)resolve_reshape("reshape", 0, {-1, k40, k40}), ShapeError);
  EXPECT_EQ(resolve_reshape("reshape", 0, {-1, k40}), (Shape{0, k40}));
}

TEST(ResolveReshape, FindsTheFreeSize) {
  EXPECT_EQ(resolve_reshape("reshape", 12, {3, -1}), (Shape{3, 4}));
  EXPECT_EQ(resolve_reshape("reshape", 0, {-1, 3}), (Shape{0, 3}));
  EXPECT_EQ(resolve_reshape("reshape", 1, {}), Shape{});
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)resolve_reshape("view", 12, {5, -1});
            }),
            "view: expected a shape of 12 elements, got [5, -1]; check the product of the sizes");
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)resolve_reshape("view", 12, {-1, -1});
            }),
            "view: expected sizes of at least 0 with at most one -1, got [-1, -1]; leave one size to be "
            "found");
  EXPECT_THROW((void)resolve_reshape("view", 0, {0, -1}), ShapeError);
  EXPECT_THROW((void)resolve_reshape("view", 6, {-2, -3}), ShapeError);
}

TEST(WrapDims, CountFromTheEndAndAreSorted) {
  EXPECT_EQ(wrap_dim("sum", -1, 3), 2);
  EXPECT_EQ(wrap_dim("sum", 0, 0), 0);
  EXPECT_EQ(wrap_dim("sum", -1, 0), 0);
  EXPECT_EQ(wrap_dims("sum", Dims{2, -3}, 3), (Dims{0, 2}));
  EXPECT_EQ(wrap_dims("sum", {}, 3), (Dims{0, 1, 2}));
  EXPECT_EQ(wrap_dims("sum", Dims{0}, 0), Dims{});
  EXPECT_EQ(message_of<IndexError>([] { (void)wrap_dim("sum", 3, 3); }),
            "sum: expected a dim in [-3, 2], got 3; the tensor has 3 dims");
  EXPECT_THROW((void)wrap_dim("sum", -4, 3), IndexError);
  EXPECT_THROW((void)wrap_dim("sum", 1, 0), IndexError);
  EXPECT_EQ(message_of<IndexError>([] {
              (void)wrap_dims("sum", Dims{0, -3}, 3);
            }),
            "sum: expected each dim once, got [0, -3]; remove the repeated dim");
}

TEST(Collapse, KeepsTheOrderOfAllOperandsAndLeavesNothingToMerge) {
  std::mt19937 random(4);
  for (int i = 0; i < 5000; ++i) {
    const auto [shape, strides] = random_layout(random, random() % 5);
    std::array<Dims, 3> operands{strides, contiguous_strides(shape), Dims(shape.size(), 0)};
    if (i % 2 == 0) operands[2] = contiguous_strides(shape);
    const std::array<Dims, 3> before = operands;
    Shape merged = shape;
    collapse(merged, operands);
    for (std::size_t k = 0; k < operands.size(); ++k)
      ASSERT_EQ(offsets(merged, operands[k]), offsets(shape, before[k]))
          << to_string(shape) << " operand " << k;
    for (std::size_t d = 0; d < merged.size(); ++d) {
      ASSERT_NE(merged[d], 1);
      if (d == 0) continue;
      const bool mergeable = std::all_of(operands.begin(), operands.end(),
                                         [&](const Dims& s) { return s[d - 1] == s[d] * merged[d]; });
      ASSERT_FALSE(mergeable) << to_string(shape) << to_string(strides) << " became " << to_string(merged);
    }
  }
}

TEST(Collapse, OfOneElementHasNoDims) {
  Shape shape{1, 1};
  std::array<Dims, 1> strides{Dims{5, 5}};
  collapse(shape, strides);
  EXPECT_EQ(shape, Shape{});
  EXPECT_EQ(strides[0], Dims{});
}

}  // namespace
}  // namespace mezzo::layout
