// What a product does on its way on the CPU: a bias, and row sums.
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
      SCOPED_TRACE(to_string(dtype) + " " + std::to_string(static_cast<int>(layout)));
      Matrix a(dtype, 3, 5, 7), b(dtype, 3, 7, 6), c(dtype, 3, 5, 6, layout), bias(dtype, 1, 1, 6);
      a.randomize(1), b.randomize(2), c.randomize(3), bias.randomize(4);
      Matrix start = c;
      start.for_each(
          [&](std::int64_t q, std::int64_t i, std::int64_t j) { start.set(q, i, j, bias.get(0, 0, j)); });
      cpu::gemm(test::make_args(a, b, start, 2, 1));
      GemmArgs args = test::make_args(a, b, c, 2, 0);
      args.bias = bias.data();
      cpu::gemm(args);
      EXPECT_EQ(c.bytes(), start.bytes()) << "the bits of a product that is added to the bias";
    }
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

}  // namespace
}  // namespace mezzo::kernels
