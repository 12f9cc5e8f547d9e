// The choice of the instruction set, and run_isa: every variant runs, and all give the same bits.
#include "mezzo/kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/multiversion.h"

namespace mezzo::kernels::cpu {
namespace {

std::vector<Isa> available() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::base, Isa::v3, Isa::v4}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

/// A bit of everything that a compiler might treat differently: select, fma, division, square root.
struct Mixed {
  float scale;
  float operator()(float x) const {
    const float positive = std::max(x * scale, 0.0f);
    return positive * positive + x * 0.3f + std::fma(positive, x, 1.0f) / (1.0f + std::sqrt(positive));
  }
};

struct MapLoop {
  static void run(const float* x, float* y, std::int64_t n, Mixed f) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  }
};

struct SumLoop {
  static float run(const float* x, std::int64_t n) {
    float sum[16] = {};
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int j = 0; j < 16; ++j) sum[j] += x[i + j];
    }
    float total = 0;
    for (const float s : sum) total += s;
    for (; i < n; ++i) total += x[i];
    return total;
  }
};

std::vector<float> ramp(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 100.0f;
  return x;
}

TEST(RunIsa, EveryVariantGivesTheBitsOfThePlainLoop) {
  const std::int64_t n = 1003;
  const std::vector<float> x = ramp(n);
  std::vector<float> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = Mixed{0.3f}(x[i]);
  for (const Isa variant : available()) {
    const IsaGuard guard(variant);
    SCOPED_TRACE(isa_name());
    std::vector<float> y(x.size());
    run_isa<MapLoop>(x.data(), y.data(), n, Mixed{0.3f});
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0);
  }
}

TEST(RunIsa, ReturnsTheResultOfTheBodyWithTheSameBits) {
  const std::vector<float> x = ramp(517);
  const float expected = SumLoop::run(x.data(), 517);
  for (const Isa variant : available()) {
    const IsaGuard guard(variant);
    EXPECT_EQ(run_isa<SumLoop>(x.data(), std::int64_t{517}), expected) << isa_name();
  }
}

TEST(RunIsa, LoopsOverF64ArraysHaveTheBaselineOnly) {
  struct Block {
    const double* data;
  };
  struct NarrowBlock {
    const float* data;
  };
  using detail::kBaselineOnly;
  EXPECT_TRUE((kBaselineOnly<const double*, std::int64_t>));
  EXPECT_TRUE((kBaselineOnly<int, std::array<const double*, 2>>));
  EXPECT_TRUE((kBaselineOnly<Block, double>));
  // A number is no array, and a double beside an f32 array is what f32 is added up in.
  EXPECT_FALSE((kBaselineOnly<const float*, double>));
  EXPECT_FALSE((kBaselineOnly<double*, std::array<const float*, 2>>));
  EXPECT_FALSE((kBaselineOnly<double*, NarrowBlock>));
}

struct PlainBody {};
struct RareBody {
  static constexpr bool kRare = true;
};
struct BodyOfF32 {
  static constexpr bool kOfF32 = true;
};

TEST(RunIsa, ABodyMayKnowBetterThanItsArrays) {
  using detail::kHasVariants;
  constexpr bool kSome = !detail::kOneVariant;
  EXPECT_EQ((kHasVariants<PlainBody, float*>), kSome);
  EXPECT_FALSE((kHasVariants<PlainBody, double*>));
  EXPECT_FALSE((kHasVariants<RareBody, float*>));
  EXPECT_EQ((kHasVariants<BodyOfF32, double*>), kSome);
}

TEST(Isa, GuardSwitchesAndRestores) {
  const Isa before = isa();
  {
    const IsaGuard outer(Isa::base);
    EXPECT_EQ(isa(), Isa::base);
    {
      const IsaGuard inner(best_isa());
      EXPECT_EQ(isa(), best_isa());
    }
    EXPECT_EQ(isa(), Isa::base);
  }
  EXPECT_EQ(isa(), before);
}

TEST(Isa, NamesDiffer) {
  std::vector<std::string> names;
  for (const Isa variant : available()) {
    const IsaGuard guard(variant);
    names.push_back(isa_name());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

#if defined(__x86_64__)
TEST(Isa, AgreesWithTheCompilersView) {
  EXPECT_EQ(best_isa() >= Isa::v3, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(best_isa() == Isa::v4, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                       __builtin_cpu_supports("avx512cd") &&
                                       __builtin_cpu_supports("avx512dq") &&
                                       __builtin_cpu_supports("avx512vl"));
}
#endif

/// The choice is made once per process, so these run in a process of their own, started anew ("threadsafe").
class IsaEnvironment : public testing::Test {
 protected:
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
    if (const char* const value = std::getenv("MEZZO_CPU_ISA")) before_ = value;
  }
  void TearDown() override {
    if (before_.empty())
      unsetenv("MEZZO_CPU_ISA");
    else
      setenv("MEZZO_CPU_ISA", before_.c_str(), 1);
  }
  [[noreturn]] static void print_isa_and_exit() {
    try {
      std::fprintf(stderr, "chosen level %d\n", static_cast<int>(isa()));
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  }

 private:
  std::string before_;
};

TEST_F(IsaEnvironment, ForcesAnInstructionSet) {
  setenv("MEZZO_CPU_ISA", "base", 1);
  EXPECT_EXIT(print_isa_and_exit(), testing::ExitedWithCode(0), "chosen level 0");
}

TEST_F(IsaEnvironment, UnknownValueIsRefusedWithTheValuesThereAre) {
  setenv("MEZZO_CPU_ISA", "v5", 1);
  EXPECT_EXIT(print_isa_and_exit(), testing::ExitedWithCode(1),
              "MEZZO_CPU_ISA: expected base, v3 or v4, got 'v5'");
}

TEST(ChooseIsa, TakesTheBestOrWhatIsAskedFor) {
  for (const Isa best : {Isa::base, Isa::v3, Isa::v4}) {
    EXPECT_EQ(detail::choose_isa(nullptr, best), best);
    EXPECT_EQ(detail::choose_isa("", best), best);
    EXPECT_EQ(detail::choose_isa("base", best), Isa::base);
  }
  EXPECT_EQ(detail::choose_isa("v3", Isa::v3), Isa::v3);
  EXPECT_EQ(detail::choose_isa("v3", Isa::v4), Isa::v3);
  EXPECT_EQ(detail::choose_isa("v4", Isa::v4), Isa::v4);
}

TEST(ChooseIsa, RefusesWhatTheCpuLacks) {
  const auto message = [](const char* value, Isa best) -> std::string {
    try {
      return "chose level " + std::to_string(static_cast<int>(detail::choose_isa(value, best)));
    } catch (const DeviceError& error) {
      return error.expected() + ", " + error.got() + ", " + error.fix();
    }
  };
#if defined(__x86_64__)
  EXPECT_EQ(message("v4", Isa::v3), "an instruction set of this CPU, v4, this CPU runs up to x86-64-v3");
  EXPECT_EQ(message("v4", Isa::base), "an instruction set of this CPU, v4, this CPU runs up to x86-64");
  EXPECT_EQ(message("v3", Isa::base), "an instruction set of this CPU, v3, this CPU runs up to x86-64");
#else
  EXPECT_EQ(message("v3", Isa::base),
            "an instruction set of this CPU, v3, this CPU runs up to " + isa_name());
#endif
}

}  // namespace
}  // namespace mezzo::kernels::cpu
