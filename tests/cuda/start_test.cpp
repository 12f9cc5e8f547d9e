// What a program that links a build with CUDA pays when it computes on the CPU: nothing of CUDA is loaded,
// and start and first step cost next to nothing.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include "mezzo/mezzo.h"
#include "support/child.h"

namespace mezzo {
namespace {

constexpr const char* kChild = "MEZZO_START_CHILD";
constexpr const char* kSpent = "processor milliseconds: ";

/// Milliseconds that this process has computed, in all threads, loading included.
double processor_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// The program; it has a process of its own.
TEST(CudaStart, Child) {
  if (std::getenv(kChild) == nullptr) GTEST_SKIP() << "started by the tests below";
  nn::Sequential net(nn::make<nn::Linear>(8, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 1));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor loss = mse_loss(net.forward(randn({4, 8})), randn({4, 1}));
  loss.backward();
  optimizer.step();
  EXPECT_TRUE(net.parameters().front().grad().defined());
  std::cout << kSpent << processor_ms() << '\n';
  std::ifstream maps("/proc/self/maps");
  std::string line;
  bool any = false;
  while (std::getline(maps, line)) {
    any = true;
    for (const char* const library : {"libcuda.so", "libcublas", "libnvidia"})
      EXPECT_EQ(line.find(library), std::string::npos) << line;
  }
  EXPECT_TRUE(any);
}

test::Ran start() {
  return test::run_tests("CudaStart.Child", std::string(kChild).append("=1 OMP_NUM_THREADS=1"));
}

TEST(CudaStart, LoadsNothingOfCuda) {
  const test::Ran ran = start();
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(ran.text.find(kSpent), std::string::npos) << ran.text;
}

// All of it, from the load to the end of the first step, so that no second build is needed to compare with.
// The best of several: a busy machine makes caches cold, never the work less.
TEST(CudaStart, TakesLessThan20Milliseconds) {
#if MEZZO_CUDA_EMULATED
  GTEST_SKIP() << "the emulated device is built with sanitizers, whose start is slow";
#endif
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10 && best >= 20; ++i) {
    const test::Ran ran = start();
    const std::size_t found = ran.text.find(kSpent);
    ASSERT_NE(found, std::string::npos) << ran.text;
    best = std::min(best, std::stod(ran.text.substr(found + std::string(kSpent).size())));
  }
  EXPECT_LT(best, 20);
}

}  // namespace
}  // namespace mezzo
