// Reductions of arrays that lie in memory in every way: the same numbers, in the order of their memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/reduce_problem.h"

namespace mezzo::kernels {
namespace {

using namespace reduce_test;

TEST(Reduce, BitsAreTheSameForEveryLayout) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(problem.name());
    const auto raw = random_values(layout::numel(problem.shape), 2);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Array base = make(problem.shape, dtype, raw, Memory::contiguous);
      const Array sum = run(Sum<>{}, problem, base, DType::f64, DType::f32);
      Array widened = make(problem.shape, DType::f32, values_of(base), Memory::contiguous);
      EXPECT_EQ(run(Sum<>{}, problem, widened, DType::f64, DType::f32).memory, sum.memory) << "widened first";
      for (const Memory memory : {Memory::reversed, Memory::gaps}) {
        Array in = make(problem.shape, dtype, raw, memory);
        EXPECT_EQ(run(Sum<>{}, problem, in, DType::f64, DType::f32).memory, sum.memory);
      }
    }
  }
}

/// `base` with its elements moved so that dims lie in memory in the given order, outermost first.
Array moved(const Array& base, const std::array<std::size_t, 3>& order) {
  Array in = base;
  std::int64_t step = 1;
  for (std::size_t i = 3; i-- > 0; step *= base.view.shape[order[i]]) in.view.strides[order[i]] = step;
  const cpu::StridedSpace from(base.view.shape, base.view.strides), to(base.view.shape, in.view.strides);
  const std::int64_t size = size_of(base.view.dtype);
  for (std::int64_t i = 0; i < layout::numel(base.view.shape); ++i) {
    std::memcpy(in.memory.data() + to.offset(i) * size, base.memory.data() + from.offset(i) * size,
                static_cast<std::size_t>(size));
  }
  return in;
}

/// As Memory says more coarsely: every order in which three dims can lie, with more elements than one chunk
/// has. Sums in f64 of narrower numbers are exact here, so their order does not show.
TEST(Reduce, EveryOrderOfDimsGivesTheSameSumsAndExtrema) {
  const Shape shape{37, 130, 41};
  std::vector<double> raw = random_values(layout::numel(shape), 5);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32}) {
    for (const bool finite : {true, false}) {
      raw[77777] = finite ? 1 : std::numeric_limits<double>::infinity();
      Array base = make(shape, dtype, raw, Memory::contiguous);
      for (const auto& order :
           std::vector<std::array<std::size_t, 3>>{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
        Array in = moved(base, order);
        for (unsigned mask = 0; mask < 8; ++mask) {
          const Problem problem{shape, mask};
          SCOPED_TRACE(problem.name() + " " + to_string(dtype) + " " + to_string(in.view.strides));
          const DType compute = compute_dtype(dtype), out = compute == DType::i64 ? DType::i64 : DType::f64;
          Array got = run(Sum<>{}, problem, in, out, compute),
                want = run(Sum<>{}, problem, base, out, compute);
          if (dtype != DType::f64) {
            EXPECT_EQ(got.memory, want.memory);
          } else {
            // Two orders of n additions of numbers up to 2.
            const std::vector<double> sums = values_of(got), others = values_of(want);
            const double n = static_cast<double>(raw.size() / sums.size());
            for (std::size_t i = 0; i < sums.size(); ++i) {
              if (sums[i] != others[i]) {  // infinity is no distance
                ASSERT_NEAR(sums[i], others[i], n * n * 0x1p-52);
              }
            }
          }
          EXPECT_EQ(run(Extremum<true>{}, problem, in, out, compute).memory,
                    run(Extremum<true>{}, problem, base, out, compute).memory);
        }
      }
    }
  }
}

TEST(Reduce, ATransposedArrayIsSummedAsItLies) {
  const Shape shape{37, 130, 41};
  const std::array<std::size_t, 3> order{2, 0, 1};
  Array in =
      moved(make(shape, DType::f64, random_values(layout::numel(shape), 6), Memory::contiguous), order);
  Array plain = in;  // the same memory in row-major order
  for (std::size_t i = 0; i < 3; ++i) plain.view.shape[i] = shape[order[i]];
  plain.view.strides = layout::contiguous_strides(plain.view.shape);
  for (unsigned mask = 0; mask < 8; ++mask) {
    unsigned plain_mask = 0;
    for (std::size_t i = 0; i < 3; ++i) plain_mask |= (mask >> order[i] & 1U) << i;
    Array of_in = run(Sum<>{}, {shape, mask}, in, DType::f64, DType::f64);
    Array of_plain = run(Sum<>{}, {plain.view.shape, plain_mask}, plain, DType::f64, DType::f64);
    std::vector<double> got = values_of(of_in), want = values_of(of_plain);
    std::sort(got.begin(), got.end());  // outputs lie in different orders
    std::sort(want.begin(), want.end());
    EXPECT_EQ(got, want) << mask;
  }
}

TEST(Reduce, ExpandedArraysAreSummed) {
  const Shape shape{330, 70};
  for (const std::size_t expanded : {std::size_t{0}, std::size_t{1}}) {
    Array in = make(shape, DType::f32, random_values(layout::numel(shape), 8), Memory::contiguous);
    in.view.strides = expanded == 0 ? Dims{0, 1} : Dims{1, 0};
    const std::vector<double> values = values_of(in);
    for (unsigned mask = 1; mask < 4; ++mask) {
      const Problem problem{shape, mask};
      SCOPED_TRACE(problem.name());
      Array out = run(Sum<>{}, problem, in, DType::f64, DType::f32);
      const std::vector<double> got = values_of(out);
      const auto groups = problem.groups(values);
      for (std::size_t o = 0; o < groups.size(); ++o)  // of f32 numbers, hence exact
        ASSERT_EQ(got[o], std::accumulate(groups[o].begin(), groups[o].end(), 0.0));
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
