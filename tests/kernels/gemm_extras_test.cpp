// What a product does on its way on the CPU: a bias, row sums, and operands packed once or by every tile.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/test_matrix.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels {
namespace {

using test::Layout;
using test::Matrix;

TEST(GemmExtras, BiasIsAddedToEveryRowBeforeTheRounding) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32}) {
    for (const Layout layout : test::kLayouts) {
      for (const double alpha : {1.0, 2.0}) {
        for (const std::int64_t n : {1, 6, 40}) {
          SCOPED_TRACE(to_string(dtype) + " " + std::to_string(static_cast<int>(layout)) + ", alpha " +
                       std::to_string(alpha) + ", n " + std::to_string(n));
          Matrix a(dtype, 3, 5, 7), b(dtype, 3, 7, n), c(dtype, 3, 5, n, layout), bias(dtype, 1, 1, n);
          a.randomize(1), b.randomize(2), c.randomize(3), bias.randomize(4);
          Matrix start = c;
          start.for_each(
              [&](std::int64_t q, std::int64_t i, std::int64_t j) { start.set(q, i, j, bias.get(0, 0, j)); });
          cpu::gemm(test::make_args(a, b, start, alpha, 1));
          GemmArgs args = test::make_args(a, b, c, alpha, 0);
          args.bias = bias.data();
          cpu::gemm(args);
          EXPECT_EQ(c.bytes(), start.bytes()) << "the bits of a product that is added to the bias";
        }
      }
    }
  }
}

TEST(GemmExtras, BiasOfSeveralTilesAndBlocksOfDepth) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const Layout layout : {Layout::by_rows, Layout::padded_rows, Layout::by_cols}) {
      Matrix a(dtype, 1, 300, 1100), b(dtype, 1, 1100, 530), c(dtype, 1, 300, 530, layout);
      Matrix bias(dtype, 1, 1, 530), start(dtype, 1, 300, 530, layout);
      a.randomize(1), b.randomize(2), c.fill(std::nan("")), bias.randomize(4);
      start.for_each([&](auto q, auto i, auto j) { start.set(q, i, j, bias.get(0, 0, j)); });
      GemmArgs args = test::make_args(a, b, c);
      args.bias = bias.data();
      cpu::gemm(args);
      const std::vector<test::Exact> exact = test::exact_product(a, b, start, 1, 1);
      std::size_t at = 0;
      c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
        const test::Exact& want = exact[at++];
        ASSERT_NEAR(c.get(q, i, j), want.value, test::error_bound(want, 1100, DType::f32, dtype));
      });
      EXPECT_TRUE(c.guards_intact());
    }
  }
}

TEST(GemmExtras, BiasOfABatchThatIsOneWideMatrix) {
  // A . B[q] for the parts q of a matrix [2, 3 * 4], each of which gets the bias.
  const std::vector<float> left{1, 2, 3, 4}, bias{10, 20, 30, 40};
  std::vector<float> right(24), result(24);
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i);
  GemmArgs args{.batch = 3, .m = 2, .n = 4, .k = 2};
  args.a = left.data(), args.a_row_stride = 2;
  args.b = right.data(), args.b_batch_stride = 4, args.b_row_stride = 12;
  args.c = result.data(), args.c_batch_stride = 4, args.c_row_stride = 12;
  args.bias = bias.data();
  cpu::gemm(args);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 12; ++j)
      EXPECT_EQ(result[i * 12 + j], left[i * 2] * right[j] + left[i * 2 + 1] * right[12 + j] + bias[j % 4]);
  }
}

TEST(GemmExtras, BiasAloneWhereNothingIsMultiplied) {
  Matrix a(DType::f32, 1, 3, 0), b(DType::f32, 1, 0, 2), c(DType::f32, 1, 3, 2), bias(DType::f32, 1, 1, 2);
  c.fill(std::nan("")), bias.fill(5);
  GemmArgs args = test::make_args(a, b, c);
  args.bias = bias.data();
  cpu::gemm(args);
  c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) { EXPECT_EQ(c.get(q, i, j), 5); });
}

TEST(GemmExtras, RowSumsOfEveryLayout) {
  for (const DType dtype : {DType::f16, DType::f32, DType::f64, DType::i32}) {
    for (const Layout layout : test::kLayouts) {
      SCOPED_TRACE(to_string(dtype) + " " + std::to_string(static_cast<int>(layout)));
      Matrix a(dtype, 1, 5, 7, layout), b(dtype, 1, 7, 6), c(dtype, 1, 5, 6), sums(dtype, 1, 1, 5);
      a.randomize(1), b.randomize(2);
      if (is_floating(dtype))
        a.for_each([&](auto q, auto i, auto p) { a.set(q, i, p, std::round(4 * a.get(q, i, p))); });
      GemmArgs args = test::make_args(a, b, c);
      args.row_sums = sums.data();
      cpu::gemm(args);
      EXPECT_TRUE(sums.guards_intact());
      for (std::int64_t i = 0; i < 5; ++i) {
        double want = 0;
        for (std::int64_t p = 0; p < 7; ++p) want += a.get(0, i, p);
        EXPECT_EQ(sums.get(0, 0, i), want);
      }
    }
  }
}

TEST(GemmExtras, RowSumsOfNothingAreZero) {
  Matrix a(DType::f32, 1, 3, 0), b(DType::f32, 1, 0, 2), c(DType::f32, 1, 3, 2), sums(DType::f32, 1, 1, 3);
  GemmArgs args = test::make_args(a, b, c);
  args.row_sums = sums.data();
  cpu::gemm(args);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(sums.get(0, 0, i), 0);
}

TEST(GemmExtras, WhatMakesNoSenseIsRefused) {
  Matrix a(DType::f32, 2, 3, 3), b(DType::f32, 2, 3, 3), c(DType::f32, 2, 3, 3), vector(DType::f32, 1, 1, 3);
  GemmArgs args = test::make_args(a, b, c, 1, 1);
  args.bias = vector.data();
  EXPECT_THROW(cpu::gemm(args), ValueError);
  args = test::make_args(a, b, c);
  args.row_sums = vector.data();
  EXPECT_THROW(cpu::gemm(args), ValueError);
}

/// Small whole numbers, whose products are exact in f32 in any order.
void fill_with_whole_numbers(Matrix& x, int seed) {
  int at = seed;
  x.for_each([&](auto q, auto i, auto j) { x.set(q, i, j, (at = (at * 37 + 11) % 101) % 7 - 3); });
}

/// All engines agree with the exact product.
void check_exact(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, Layout layout_a,
                 Layout layout_b) {
  Matrix a(dtype, 1, m, k, layout_a), b(dtype, 1, k, n, layout_b), c(DType::f32, 1, m, n);
  fill_with_whole_numbers(a, 3), fill_with_whole_numbers(b, 8);
  const std::vector<test::Exact> exact = test::exact_product(a, b, c);
  for (const cpu::GemmEngine engine : {cpu::GemmEngine::eigen, cpu::GemmEngine::onednn}) {
    if (!cpu::has_gemm_engine(engine)) continue;
    cpu::set_gemm_engine(engine);
    c.fill(std::nan(""));
    cpu::gemm(test::make_args(a, b, c));
    cpu::set_gemm_engine(cpu::GemmEngine::automatic);
    std::size_t at = 0;
    c.for_each([&](auto q, auto i, auto j) { ASSERT_EQ(c.get(q, i, j), exact[at++].value); });
    EXPECT_TRUE(c.guards_intact());
  }
}

TEST(GemmPacking, OnceForAllTilesWithAndWithoutGaps) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const Layout layout_a : {Layout::by_rows, Layout::by_cols, Layout::spread}) {
      for (const Layout layout_b : {Layout::by_rows, Layout::by_cols}) {
        check_exact(dtype, 512, 256, 20, layout_a, layout_b);
        check_exact(dtype, 300, 64, 80, layout_a, layout_b);
      }
    }
  }
}

// Lines of 2 KB in f32, in matrices that are too large to be packed at once.
TEST(GemmPacking, ByEveryTileWithGaps) {
  check_exact(DType::f16, 64, 512, 4100, Layout::by_rows, Layout::by_rows);
  check_exact(DType::f32, 512, 64, 4100, Layout::by_cols, Layout::by_cols);
}

}  // namespace
}  // namespace mezzo::kernels
