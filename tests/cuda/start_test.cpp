// What a program that links a build with CUDA pays when it computes on the CPU: nothing of CUDA is loaded,
// and nobody asks for a driver.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "mezzo/mezzo.h"
#include "support/child.h"

namespace mezzo {
namespace {

constexpr const char* kChild = "MEZZO_START_CHILD";
constexpr const char* kRan = "a step ran";

// The program; it has a process of its own.
TEST(CudaStart, Child) {
  if (std::getenv(kChild) == nullptr) GTEST_SKIP() << "started by the test below";
  nn::Sequential net(nn::make<nn::Linear>(8, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 1));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor loss = mse_loss(net.forward(randn({4, 8})), randn({4, 1}));
  loss.backward();
  optimizer.step();
  EXPECT_TRUE(net.parameters().front().grad().defined());
  std::cout << kRan << '\n';
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
  EXPECT_NE(ran.text.find(kRan), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace mezzo
