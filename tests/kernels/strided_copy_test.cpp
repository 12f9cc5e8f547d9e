// Copies between arrays of any strides against plain loops over their elements: every order of dims, sizes
// around those of vectors and blocks, gaps, reversed and repeated dims, all dtypes, and no byte written
// beside the result.
#include "mezzo/kernels/cpu/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "mezzo/core/layout.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/isa.h"
#include "support/thread_guard.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr DType kDTypes[] = {DType::u8,  DType::boolean, DType::f16, DType::bf16,
                             DType::i32, DType::f32,     DType::i64, DType::f64};

/// Memory of an array whose dims lie in the order `order` (the last one innermost), `step` elements from one
/// to the next.
struct Array {
  Array(DType dtype, const Shape& shape, const std::vector<std::size_t>& order, std::int64_t step) {
    view = {nullptr, dtype, shape, Dims(shape.size(), 0)};
    std::int64_t distance = step;
    for (std::size_t i = order.size(); i-- > 0;) {
      view.strides[order[i]] = distance;
      distance *= shape[order[i]];
    }
    memory.resize(static_cast<std::size_t>((distance + step) * size_of(dtype)));
  }
  [[nodiscard]] View show() {
    View shown = view;
    shown.data = memory.data();
    return shown;
  }
  std::vector<std::byte> memory;
  View view;
};

void fill_with_random_bits(std::vector<std::byte>& memory, unsigned seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
}

std::int64_t offset_of(const View& view, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = view.shape.size(); d-- > 0; index /= view.shape[d])
    offset += index % view.shape[d] * view.strides[d];
  return offset * size_of(view.dtype);
}

/// Element by element. All other bytes stay.
void copy_plainly(const View& out, const View& in) {
  for (std::int64_t i = 0; i < layout::numel(out.shape); ++i) {
    convert(static_cast<const std::byte*>(in.data) + offset_of(in, i), in.dtype,
            static_cast<std::byte*>(out.data) + offset_of(out, i), out.dtype, 1);
  }
}

void expect_copies_alike(const View& in, Array out, const std::string& what) {
  fill_with_random_bits(out.memory, 5);
  Array want = out;
  copy_plainly(want.show(), in);
  if (!copy_elements(out.show(), in)) {
    ASSERT_NE(in.dtype, out.view.dtype) << what;
    return;
  }
  ASSERT_EQ(std::memcmp(out.memory.data(), want.memory.data(), want.memory.size()), 0) << what;
}

const std::vector<Shape> kShapes{{1, 1},           {33, 70},       {1, 300},       {300, 1},
                                 {257, 259},       {3, 500},       {700, 3},       {16, 16},
                                 {4, 129, 5},      {2, 3, 67, 65}, {5, 31, 1, 40}, {2, 34, 13, 18},
                                 {2, 3, 4, 5, 17}, {40000, 2},     {2, 40000},     {0, 5}};

TEST(StridedCopy, EveryOrderOfDimsHasTheBitsOfAPlainLoop) {
  for (const Shape& shape : kShapes) {
    std::vector<std::size_t> plain(shape.size());
    std::iota(plain.begin(), plain.end(), std::size_t{0});
    for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::i64}) {  // one of each size
      std::vector<std::size_t> order = plain;
      do {
        for (const std::int64_t step : {1, 2}) {
          Array in(dtype, shape, order, step);
          fill_with_random_bits(in.memory, 1);
          const std::string what =
              to_string(dtype) + " " + to_string(shape) + " strides " + to_string(in.view.strides);
          expect_copies_alike(in.show(), Array(dtype, shape, plain, 1), what);
          if (shape.size() > 4 || layout::numel(shape) > 30000) continue;
          Array out(dtype, shape, order, step);
          Array read(dtype, shape, plain, 1);
          fill_with_random_bits(read.memory, 2);
          expect_copies_alike(read.show(), out, "to " + what);
        }
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(StridedCopy, ReversedAndRepeatedDimsAreRead) {
  for (const DType dtype : kDTypes) {
    const Shape shape{37, 90};
    Array in(dtype, shape, {1, 0}, 1);
    fill_with_random_bits(in.memory, 3);
    const Array out(dtype, shape, {0, 1}, 1);
    View reversed = in.show();
    reversed.data = in.memory.data() + 36 * size_of(dtype);
    reversed.strides[0] = -1;
    expect_copies_alike(reversed, out, "rows reversed, " + to_string(dtype));
    reversed.data = in.memory.data() + (36 + 89 * 37) * size_of(dtype);
    reversed.strides[1] = -37;
    expect_copies_alike(reversed, out, "all reversed, " + to_string(dtype));
    for (const Dims& strides : {Dims{0, 1}, Dims{1, 0}, Dims{0, 0}, Dims{0, 2}}) {
      View repeated = in.show();
      repeated.strides = strides;
      expect_copies_alike(repeated, out, to_string(strides) + " " + to_string(dtype));
    }
  }
}

TEST(StridedCopy, OtherDTypesAreConvertedAsConvertDoes) {
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const Shape& shape : {Shape{65, 131}, Shape{200, 90}, Shape{3, 200}}) {
        for (const std::vector<std::size_t>& order :
             {std::vector<std::size_t>{0, 1}, std::vector<std::size_t>{1, 0}}) {
          Array in(from, shape, order, 1);
          fill_with_random_bits(in.memory, 4);
          for (int level = 0; level <= static_cast<int>(best_isa()); ++level) {
            const IsaGuard guard(static_cast<Isa>(level));
            expect_copies_alike(in.show(), Array(to, shape, {0, 1}, 1),
                                to_string(from) + " to " + to_string(to) + " " + to_string(shape));
          }
        }
      }
    }
  }
}

TEST(StridedCopy, ThreadsChangeNothing) {
  Array in(DType::bf16, {500, 700}, {1, 0}, 1);
  fill_with_random_bits(in.memory, 6);
  for (const int threads : {1, 2, 5}) {
    const mezzo::test::ThreadGuard guard(threads);
    expect_copies_alike(in.show(), Array(DType::bf16, {500, 700}, {0, 1}, 1),
                        std::to_string(threads) + " threads");
  }
}

}  // namespace
}  // namespace mezzo::kernels::cpu
