// Contexts of devices: work on one device makes none on another, on any thread. Each test has a process of
// its own, as a context stays; the emulated machine gets two devices for it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/ops/ops.h"
#include "support/child.h"

namespace mezzo::cuda {
namespace {

class CudaContexts : public ::testing::Test {
 protected:
  void SetUp() override {
#if !MEZZO_CUDA_EMULATED
    if (device_count() < 2) GTEST_SKIP() << "needs two devices, there is " << device_count();
#endif
  }
  /// Whether the test's work is to be done here; else it was, in a process of its own.
  [[nodiscard]] static bool is_child() {
    if (std::getenv("MEZZO_TEST_CONTEXTS") != nullptr) return true;
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const test::Ran ran = test::run_tests("CudaContexts." + std::string(test->name()),
                                          "MEZZO_TEST_CONTEXTS=1 MEZZO_EMULATED_DEVICES=2");
    EXPECT_EQ(ran.status, 0) << ran.text;
    EXPECT_NE(ran.text.find("1 test"), std::string::npos) << ran.text;
    return false;
  }
};

const Device kSecond = Device::cuda(1);

TEST_F(CudaContexts, WorkOnTheSecondDeviceMakesNoneOnTheFirst) {
  if (!is_child()) return;
  EXPECT_FALSE(has_context(0) || has_context(1));
  const Tensor x = zeros({3}, {.device = kSecond});
  const Tensor y = ones({3}).to(kSecond);
  EXPECT_EQ(sum(x + y).item(), 3);
  x.requires_grad_();
  sum(x * y).backward();
  EXPECT_EQ(x.grad().to(Device::cpu()).to_vector<double>(), std::vector<double>(3, 1));
  EXPECT_FALSE(has_context(0));
  EXPECT_TRUE(has_context(1));
}

TEST_F(CudaContexts, AThreadThatHasSelectedNoDeviceMakesNone) {
  if (!is_child()) return;
  std::optional<Stream> stream(kSecond);
  std::optional<Event> start(Timing::on), end(Timing::on), other(Timing::off);
  start->record(*stream);
  other->record(*stream);
  end->record(*stream);
  const auto in_new_thread = [](const auto& call) { std::thread(call).join(); };
  in_new_thread([&] { static_cast<void>(stream->query()); });
  in_new_thread([&] { static_cast<void>(end->query()); });
  in_new_thread([&] { end->synchronize(); });
  in_new_thread([&] { stream->synchronize(); });
  in_new_thread([&] { EXPECT_GE(end->elapsed_ms(*start), 0); });
  in_new_thread([&] { EXPECT_FALSE(stream->is_capturing()); });
  in_new_thread([&] { other.reset(); });
  in_new_thread([&] { stream.reset(); });
  auto pool = std::make_shared<MemoryPool>(kSecond);
  static_cast<void>(pool->keep("kept", 4));
  in_new_thread([&] { pool.reset(); });
  EXPECT_FALSE(has_context(0));
}

TEST_F(CudaContexts, TheThreadsDeviceIsGivenBackWhereItHasAContext) {
  if (!is_child()) return;
  const Tensor first = ones({2}, {.device = Device::cuda(0)});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(sum(ones({2}, {.device = kSecond})).item(), 2);
  int device = -1;
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(sum(first).item(), 2);
}

}  // namespace
}  // namespace mezzo::cuda
