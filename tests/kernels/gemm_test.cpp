// Matrix products of every dtype, layout and size against the product in f64, for every engine and
// instruction set that this machine has; and the promises of gemm.h: what is read, how often is rounded,
// which bits come out.
#include "mezzo/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/test_matrix.h"
#include "mezzo/core/error.h"
#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/isa.h"
#include "support/thread_guard.h"

namespace mezzo::kernels {
namespace {

using cpu::Bf16Gemm;
using cpu::GemmEngine;
using cpu::Isa;
using test::Exact;
using test::has_native_bf16;
using test::kNativeEngine;
using test::Layout;
using test::Matrix;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Runs `body` with every engine, way of bf16 products and instruction set of this machine. oneDNN chooses
/// its instructions itself.
template <class F>
void for_each_engine(F body) {
  for (const Isa variant : {Isa::base, Isa::v3, Isa::v4}) {
    if (variant > cpu::best_isa()) continue;
    const cpu::IsaGuard guard(variant);
    for (const GemmEngine engine : {GemmEngine::eigen, GemmEngine::onednn, GemmEngine::automatic}) {
      if (!cpu::has_gemm_engine(engine) || (engine != GemmEngine::eigen && variant != cpu::best_isa()))
        continue;
      cpu::set_gemm_engine(engine);
      SCOPED_TRACE(cpu::gemm_description());
      body();
      if (engine == kNativeEngine && has_native_bf16()) {
        cpu::set_bf16_gemm(Bf16Gemm::native);
        SCOPED_TRACE("native bf16");
        body();
        cpu::set_bf16_gemm(Bf16Gemm::automatic);
      }
      cpu::set_gemm_engine(GemmEngine::automatic);
    }
  }
}

DType computed_in(DType a, DType b, DType c) {
  return a == DType::f64 || b == DType::f64 || c == DType::f64 ? DType::f64 : DType::f32;
}

std::string shape(const Matrix& a, const Matrix& c) {
  return std::to_string(c.batch()) + " x [" + std::to_string(c.rows()) + ", " + std::to_string(c.cols()) +
         ", " + std::to_string(a.cols()) + "]";
}

/// Every element of `c` is within the promised bound of `exact`, and nothing outside of C was written.
void expect_close(Matrix& a, Matrix& b, Matrix& c, const std::vector<Exact>& exact) {
  const DType compute = computed_in(a.dtype(), b.dtype(), c.dtype());
  std::size_t at = 0;
  int wrong = 0;
  c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
    const Exact& want = exact[at++];
    const double bound = is_floating(c.dtype()) ? test::error_bound(want, a.cols(), compute, c.dtype()) : 0;
    if (!(std::fabs(c.get(q, i, j) - want.value) <= bound) && ++wrong <= 3) {
      ADD_FAILURE() << shape(a, c) << " at (" << q << ", " << i << ", " << j << "): " << c.get(q, i, j)
                    << ", exact " << want.value << ", bound " << bound;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(c.guards_intact()) << "written outside of C";
}

/// Runs C = alpha * A.B + beta * C in every engine and compares; C starts as `c` every time.
void check_product(Matrix& a, Matrix& b, const Matrix& c, double alpha = 1, double beta = 0) {
  const std::vector<Exact> exact = test::exact_product(a, b, c, alpha, beta);
  for_each_engine([&] {
    Matrix result = c;
    cpu::gemm(test::make_args(a, b, result, alpha, beta));
    expect_close(a, b, result, exact);
  });
}

TEST(Gemm, EveryDtypeCombination) {
  for (const DType da : kComputeDTypes) {
    for (const DType db : kComputeDTypes) {
      for (const DType dc : kComputeDTypes) {
        SCOPED_TRACE(to_string(da) + " . " + to_string(db) + " -> " + to_string(dc));
        Matrix a(da, 1, 17, 29), b(db, 1, 29, 33), c(dc, 1, 17, 33);
        a.randomize(1), b.randomize(2), c.randomize(3);
        if (is_floating(da) != is_floating(db) || is_floating(da) != is_floating(dc)) {
          EXPECT_THROW(cpu::gemm(test::make_args(a, b, c)), DTypeError);
        } else if (is_floating(da)) {
          check_product(a, b, c);
          check_product(a, b, c, 0.75, -1.5);
        } else if (dc == DType::i32 || dc == DType::i64) {
          check_product(a, b, c);
          check_product(a, b, c, -2, 3);
        }
      }
    }
  }
}

TEST(Gemm, EveryLayout) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i64}) {
    for (const Layout la : test::kLayouts) {
      for (const Layout lb : test::kLayouts) {
        for (const Layout lc : test::kLayouts) {
          Matrix a(dtype, 1, 19, 23, la), b(dtype, 1, 23, 37, lb), c(dtype, 1, 19, 37, lc);
          a.randomize(1), b.randomize(2), c.randomize(3);
          SCOPED_TRACE(to_string(dtype) + ", layouts " + std::to_string(static_cast<int>(la)) +
                       std::to_string(static_cast<int>(lb)) + std::to_string(static_cast<int>(lc)));
          check_product(a, b, c);
          check_product(a, b, c, 2, 3);
        }
      }
    }
  }
}

TEST(Gemm, EveryOddSize) {
  for (const std::int64_t m : {1, 2, 3, 7, 16, 17, 33, 65}) {
    for (const std::int64_t n : {1, 2, 3, 7, 16, 17, 33, 65}) {
      for (const std::int64_t k : {1, 2, 3, 8, 31, 65}) {
        Matrix a(DType::f32, 1, m, k), b(DType::f32, 1, k, n, Layout::by_cols), c(DType::f32, 1, m, n);
        check_product(a.randomize(1), b.randomize(2), c);
        Matrix narrow(DType::bf16, 1, m, k, Layout::by_cols), wide(DType::bf16, 1, k, n),
            out(DType::bf16, 1, m, n);
        check_product(narrow.randomize(3), wide.randomize(4), out);
      }
    }
  }
}

TEST(Gemm, SeveralTilesAndBlocksOfDepth) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const Layout layout : {Layout::by_rows, Layout::by_cols, Layout::spread}) {
      SCOPED_TRACE(to_string(dtype) + ", layout " + std::to_string(static_cast<int>(layout)));
      Matrix a(dtype, 1, 300, 1100, layout), b(dtype, 1, 1100, 530, layout), c(dtype, 1, 300, 530, layout);
      a.randomize(1), b.randomize(2), c.randomize(3);
      check_product(a, b, c, 1, 1);
    }
  }
}

TEST(Gemm, LongThinProducts) {
  const std::int64_t sizes[][3] = {{1, 3000, 700}, {3000, 1, 700}, {1, 1, 5000},
                                   {2000, 3, 1},   {1, 1, 1},      {5, 2000, 2}};
  for (const auto& size : sizes) {
    for (const Layout layout : test::kLayouts) {
      Matrix a(DType::f32, 1, size[0], size[2], layout), b(DType::f32, 1, size[2], size[1], layout);
      Matrix c(DType::f32, 1, size[0], size[1], layout);
      a.randomize(1), b.randomize(2), c.randomize(3);
      check_product(a, b, c, 0.5, 2);
    }
  }
}

TEST(Gemm, BatchesAndBroadcasts) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
    for (int broadcast = 0; broadcast < 3; ++broadcast) {
      for (const Layout layout : {Layout::by_rows, Layout::by_cols, Layout::padded_rows}) {
        Matrix a(dtype, 5, 21, 34, layout), b(dtype, 5, 34, 18, layout), c(dtype, 5, 21, 18, layout);
        a.randomize(1), b.randomize(2), c.randomize(3);
        if (broadcast == 1) a.broadcast();
        if (broadcast == 2) b.broadcast();
        SCOPED_TRACE(to_string(dtype) + ", broadcast " + std::to_string(broadcast));
        check_product(a, b, c, 1, 2);
      }
    }
  }
}

TEST(Gemm, OneMatrixForAWholeContiguousBatch) {
  // Dense batches, with which the batch can become part of m (or of n): A [b, m, k] . B, and A . B [b, k, n]
  // by columns.
  std::vector<float> left(4 * 6 * 5), right(4 * 5 * 7), shared(35), result(4 * 6 * 7);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i % 11) - 5;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<float>(i % 5) - 2;
  GemmArgs tall{.batch = 4, .m = 6, .n = 7, .k = 5};
  tall.a = left.data(), tall.a_batch_stride = 30, tall.a_row_stride = 5;
  tall.b = shared.data(), tall.b_row_stride = 7;
  tall.c = result.data(), tall.c_batch_stride = 42, tall.c_row_stride = 7;
  GemmArgs wide{.batch = 4, .m = 6, .n = 7, .k = 5};
  wide.a = shared.data(), wide.a_row_stride = 5;
  wide.b = right.data(), wide.b_batch_stride = 35, wide.b_row_stride = 1, wide.b_col_stride = 5;
  wide.c = result.data(), wide.c_batch_stride = 42, wide.c_row_stride = 1, wide.c_col_stride = 6;
  for (const GemmArgs& args : {tall, wide}) {
    cpu::gemm(args);
    const auto* const a = static_cast<const float*>(args.a);
    const auto* const b = static_cast<const float*>(args.b);
    for (std::int64_t q = 0; q < 4; ++q) {
      for (std::int64_t i = 0; i < 6; ++i) {
        for (std::int64_t j = 0; j < 7; ++j) {
          float sum = 0;  // of small whole numbers: exact
          for (std::int64_t p = 0; p < 5; ++p) {
            sum += a[q * args.a_batch_stride + i * args.a_row_stride + p * args.a_col_stride] *
                   b[q * args.b_batch_stride + p * args.b_row_stride + j * args.b_col_stride];
          }
          EXPECT_EQ(result[static_cast<std::size_t>(q * 42 + i * args.c_row_stride + j * args.c_col_stride)],
                    sum);
        }
      }
    }
  }
}

TEST(Gemm, BetaZeroDoesNotReadC) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const Layout layout : test::kLayouts) {
      for (const std::int64_t k : {0, 3, 600}) {
        Matrix a(dtype, 1, 20, k), b(dtype, 1, k, 30), c(dtype, 1, 20, 30, layout);
        check_product(a.randomize(1), b.randomize(2), c.fill(kNan));
        check_product(a, b, c, 0.5);
      }
    }
  }
}

TEST(Gemm, NothingToAddUpScalesC) {
  for (const DType dtype : {DType::f16, DType::f32, DType::i32}) {
    for (const double beta : {0.0, 1.0, -3.0}) {
      SCOPED_TRACE(to_string(dtype) + ", beta " + std::to_string(beta));
      Matrix none(dtype, 2, 20, 0), nothing(dtype, 2, 0, 700), c(dtype, 2, 20, 700);
      check_product(none, nothing, c.randomize(3), 1, beta);
      // alpha == 0 is the same: A and B are not read, whatever they hold.
      Matrix a(dtype, 2, 20, 4), b(dtype, 2, 4, 700);
      for_each_engine([&] {
        Matrix result = c;
        cpu::gemm(test::make_args(a, b, result, 0, beta));
        result.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
          const double x = beta * c.get(q, i, j);
          const double want = dtype == DType::f16   ? static_cast<double>(Half(x))
                              : dtype == DType::f32 ? static_cast<double>(static_cast<float>(x))
                                                    : x;
          ASSERT_EQ(result.get(q, i, j), want);
        });
      });
    }
  }
}

TEST(Gemm, EmptyResultIsLeftAlone) {
  for (const auto& [batch, m, n] : {std::array{0, 2, 2}, std::array{2, 0, 2}, std::array{2, 2, 0}}) {
    Matrix a(DType::f32, batch, m, 3), b(DType::f32, batch, 3, n), c(DType::f32, batch, m, n);
    cpu::gemm(test::make_args(a, b, c));
    EXPECT_TRUE(c.guards_intact());
  }
}

TEST(Gemm, InfinityAndNanInTheOperandsArrive) {
  for_each_engine([] {
    for (const DType dtype : {DType::f16, DType::f32}) {
      Matrix a(dtype, 1, 40, 50), b(dtype, 1, 50, 60), c(dtype, 1, 40, 60);
      a.fill(1), b.fill(1);
      a.set(0, 7, 9, std::numeric_limits<double>::infinity());
      b.set(0, 11, 13, kNan);
      cpu::gemm(test::make_args(a, b, c));
      c.for_each([&](std::int64_t, std::int64_t i, std::int64_t j) {
        if (j == 13)
          ASSERT_TRUE(std::isnan(c.get(0, i, j)));
        else
          ASSERT_EQ(c.get(0, i, j), i == 7 ? std::numeric_limits<double>::infinity() : 50.0);
      });
    }
  });
}

TEST(Gemm, SixteenBitResultsAreRoundedOnce) {
  // 4099 ones: a sum kept in f16 would stop at 2048, in bf16 at 256; rounded once it is the value nearest to
  // 4099. More than one block of depth, so blocks must not be rounded either.
  for_each_engine([] {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Matrix a(dtype, 1, 3, 4099), b(dtype, 1, 4099, 5), c(dtype, 1, 3, 5);
      a.fill(1), b.fill(1);
      cpu::gemm(test::make_args(a, b, c));
      const double want =
          dtype == DType::f16 ? 4100 : 4096;  // 4099 lies between 4096 and 4100, or 4096 and 4128
      c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) { ASSERT_EQ(c.get(q, i, j), want); });
    }
  });
}

TEST(Gemm, SixteenBitResultEqualsTheF32ResultRounded) {
  for_each_engine([] {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      Matrix a(dtype, 1, 70, 600), b(dtype, 1, 600, 90), c(dtype, 1, 70, 90), wide(DType::f32, 1, 70, 90);
      a.randomize(1), b.randomize(2);
      cpu::gemm(test::make_args(a, b, c));
      cpu::gemm(test::make_args(a, b, wide));
      c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
        const auto x = static_cast<float>(wide.get(q, i, j));
        const double rounded =
            dtype == DType::f16 ? static_cast<double>(Half(x)) : static_cast<double>(BFloat16(x));
        ASSERT_EQ(c.get(q, i, j), rounded);
      });
    }
  });
}

TEST(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  const std::int64_t sizes[][4] = {{1, 300, 700, 600}, {1, 64, 64, 3000}, {1, 1, 2000, 900}, {7, 90, 70, 80}};
  for_each_engine([&] {
    for (const auto& size : sizes) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        for (const Layout layout : {Layout::by_rows, Layout::by_cols}) {
          Matrix a(dtype, size[0], size[1], size[3], layout), b(dtype, size[0], size[3], size[2]);
          a.randomize(1), b.randomize(2);
          const auto run = [&](int threads) {
            const mezzo::test::ThreadGuard guard(threads);
            Matrix c(dtype, size[0], size[1], size[2]);
            cpu::gemm(test::make_args(a, b, c));
            return c;
          };
          const Matrix one = run(1);
          for (const int threads : {2, 3, 8}) {
            ASSERT_EQ(run(threads).bytes(), one.bytes()) << shape(a, one) << ", " << threads << " threads";
          }
        }
      }
    }
  });
}

TEST(Gemm, IntegersAreExactModuloTheirSize) {
  constexpr std::int64_t kBig = (std::int64_t{1} << 62) + 12345;
  const std::int64_t a[] = {kBig, 7, -3, kBig}, b[] = {5, -9};
  std::int64_t wide[2] = {};
  std::int32_t narrow[2] = {};
  std::uint8_t byte[2] = {}, truth[2] = {7, 7};
  GemmArgs args{.m = 2, .n = 1, .k = 2};
  args.a = a, args.a_dtype = DType::i64, args.a_row_stride = 2;
  args.b = b, args.b_dtype = DType::i64, args.b_row_stride = 1;
  args.c_row_stride = 1;
  std::uint64_t expected[2];
  for (int i = 0; i < 2; ++i) {
    expected[i] = static_cast<std::uint64_t>(a[2 * i]) * 5U +
                  static_cast<std::uint64_t>(a[2 * i + 1]) * std::uint64_t(-9);
  }
  args.c = wide, args.c_dtype = DType::i64;
  cpu::gemm(args);
  args.c = narrow, args.c_dtype = DType::i32;
  cpu::gemm(args);
  args.c = byte, args.c_dtype = DType::u8;
  cpu::gemm(args);
  args.c = truth, args.c_dtype = DType::boolean;
  cpu::gemm(args);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(static_cast<std::uint64_t>(wide[i]), expected[i]);
    EXPECT_EQ(static_cast<std::uint32_t>(narrow[i]), static_cast<std::uint32_t>(expected[i]));
    EXPECT_EQ(byte[i], static_cast<std::uint8_t>(expected[i]));
    EXPECT_EQ(truth[i], 1);
  }
}

TEST(Gemm, RefusesWhatMakesNoSense) {
  Matrix a(DType::i32, 1, 2, 2), b(DType::i32, 1, 2, 2), c(DType::i32, 1, 2, 2);
  EXPECT_THROW(cpu::gemm(test::make_args(a, b, c, 0.5, 0)), ValueError);
  EXPECT_THROW(cpu::gemm(test::make_args(a, b, c, 1, 0.5)), ValueError);
  GemmArgs args = test::make_args(a, b, c);
  args.k = -1;
  EXPECT_THROW(cpu::gemm(args), ValueError);
}

}  // namespace
}  // namespace mezzo::kernels
