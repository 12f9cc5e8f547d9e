// Which engine multiplies, and which way products of bf16 go: what was set, what the environment says, and
// what is refused.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/test_matrix.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels {
namespace {

using cpu::Bf16Gemm;
using cpu::GemmEngine;
using test::has_native_bf16;
using test::kNativeEngine;
using test::Matrix;

TEST(GemmEngine, IsTheOneThatWasSet) {
  cpu::set_gemm_engine(GemmEngine::eigen);
  EXPECT_EQ(cpu::gemm_engine(), GemmEngine::eigen);
  EXPECT_EQ(cpu::gemm_description().rfind("Eigen 3.", 0), 0U) << cpu::gemm_description();
  EXPECT_NE(cpu::gemm_description().find(cpu::isa_name()), std::string::npos);
  if (cpu::has_gemm_engine(GemmEngine::onednn)) {
    cpu::set_gemm_engine(GemmEngine::onednn);
    EXPECT_EQ(cpu::gemm_engine(), GemmEngine::onednn);
    EXPECT_EQ(cpu::gemm_description().rfind("oneDNN ", 0), 0U) << cpu::gemm_description();
  } else {
    EXPECT_THROW(cpu::set_gemm_engine(GemmEngine::onednn), ValueError);
  }
  cpu::set_gemm_engine(GemmEngine::automatic);
  EXPECT_NE(cpu::gemm_engine(), GemmEngine::automatic) << "reports who computes";
}

/// A subnormal number is 0 to native products and a number to widened ones: the two ways do differ.
double product_of_subnormals() {
  Matrix a(DType::bf16, 1, 64, 64), b(DType::bf16, 1, 64, 64), c(DType::f32, 1, 64, 64);
  a.fill(0x1p-130), b.fill(1);
  cpu::gemm(test::make_args(a, b, c));
  return c.get(0, 0, 0);
}

TEST(GemmEngine, Bf16ProductsGoTheWayThatWasSet) {
  cpu::set_bf16_gemm(Bf16Gemm::widened);
  EXPECT_EQ(cpu::bf16_gemm(), Bf16Gemm::widened);
  EXPECT_EQ(cpu::bf16_gemm_description().rfind("widened", 0), 0U) << cpu::bf16_gemm_description();
  EXPECT_EQ(product_of_subnormals(), 0x1p-124);
  if (has_native_bf16()) {
    cpu::set_gemm_engine(kNativeEngine);
    cpu::set_bf16_gemm(Bf16Gemm::native);
    EXPECT_EQ(cpu::bf16_gemm_description().rfind("native", 0), 0U) << cpu::bf16_gemm_description();
    EXPECT_EQ(product_of_subnormals(), 0);
    cpu::set_gemm_engine(GemmEngine::eigen);
    EXPECT_EQ(cpu::bf16_gemm(), Bf16Gemm::widened) << "Eigen has no other way";
    EXPECT_EQ(product_of_subnormals(), 0x1p-124);
    cpu::set_gemm_engine(GemmEngine::automatic);
  } else {
    EXPECT_THROW(cpu::set_bf16_gemm(Bf16Gemm::native), ValueError);
    EXPECT_EQ(cpu::bf16_gemm(), Bf16Gemm::widened) << "what was refused changes nothing";
    EXPECT_EQ(product_of_subnormals(), 0x1p-124);
  }
  cpu::set_bf16_gemm(Bf16Gemm::automatic);
  EXPECT_NE(cpu::bf16_gemm(), Bf16Gemm::automatic) << "reports the way that is taken";
  EXPECT_EQ(product_of_subnormals(), cpu::bf16_gemm() == Bf16Gemm::native ? 0 : 0x1p-124);
}

#if defined(__x86_64__)
TEST(GemmEngine, NativeBf16ProductsAreThereWhereTheProcessorHasThem) {
  const bool possible = cpu::has_gemm_engine(GemmEngine::onednn) && __builtin_cpu_supports("avx512bf16") != 0;
  const bool forbidden = std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr && !has_native_bf16();
  EXPECT_EQ(has_native_bf16(), possible && !forbidden);
}
#endif

/// The variables are read once per process, so these run in a process of their own, started anew
/// ("threadsafe").
class GemmEnvironment : public testing::Test {
 protected:
  void SetUp() override { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  void TearDown() override {
    unsetenv("MEZZO_CPU_GEMM");
    unsetenv("MEZZO_CPU_BF16");
  }
  [[noreturn]] static void print_engine_and_exit() {
    try {
      std::fprintf(stderr, "engine %s, bf16 %s\n", cpu::gemm_description().c_str(),
                   cpu::bf16_gemm_description().c_str());
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  }
};

TEST_F(GemmEnvironment, NamesTheEngine) {
  setenv("MEZZO_CPU_GEMM", "eigen", 1);
  EXPECT_EXIT(print_engine_and_exit(), testing::ExitedWithCode(0), "engine Eigen");
}

TEST_F(GemmEnvironment, UnknownEngineIsRefused) {
  setenv("MEZZO_CPU_GEMM", "blas", 1);
  EXPECT_EXIT(print_engine_and_exit(), testing::ExitedWithCode(1), "expected eigen or onednn, got 'blas'");
}

TEST_F(GemmEnvironment, NamesTheWayOfBf16Products) {
  setenv("MEZZO_CPU_BF16", "widened", 1);
  EXPECT_EXIT(print_engine_and_exit(), testing::ExitedWithCode(0), "bf16 widened");
}

TEST_F(GemmEnvironment, UnknownWayOfBf16ProductsIsRefused) {
  setenv("MEZZO_CPU_BF16", "fast", 1);
  if (kNativeEngine == GemmEngine::onednn) setenv("MEZZO_CPU_GEMM", "onednn", 1);
  if (!cpu::has_gemm_engine(kNativeEngine)) GTEST_SKIP() << "only oneDNN has two ways";
  EXPECT_EXIT(print_engine_and_exit(), testing::ExitedWithCode(1),
              "MEZZO_CPU_BF16: expected widened or native, got 'fast'");
}

TEST_F(GemmEnvironment, NativeBf16ProductsNeedTheProcessors) {
  if (kNativeEngine != GemmEngine::onednn || !cpu::has_gemm_engine(kNativeEngine))
    GTEST_SKIP() << "oneDNN's ways are not there";
  const auto run = [] {
    setenv("MEZZO_CPU_GEMM", "onednn", 1), setenv("MEZZO_CPU_BF16", "native", 1);
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
    print_engine_and_exit();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1), "processor with AVX512_BF16 or AMX");
}

}  // namespace
}  // namespace mezzo::kernels
