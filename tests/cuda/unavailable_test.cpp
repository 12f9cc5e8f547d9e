// Without a usable device: what is said, what it costs, and that the CPU runs. Where a device is usable, this
// is tested in processes that cannot see it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "support/child.h"

namespace mezzo {
namespace {

class CudaUnavailable : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::is_available()) GTEST_SKIP() << "a CUDA device is usable: " << cuda::device_count();
  }
};

TEST_F(CudaUnavailable, SaysWhyInOneLine) {
  const std::string why = cuda::why_unavailable();
  std::cout << why << '\n';  // read by CudaMachine
  EXPECT_EQ(why.rfind("CUDA is not used: ", 0), 0U) << why;
  EXPECT_NE(why.find("running on the CPU"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos);
  EXPECT_EQ(cuda::device_count(), 0);
}

TEST_F(CudaUnavailable, BestDeviceIsTheCpu) { EXPECT_EQ(Device::best(), Device::cpu()); }

TEST_F(CudaUnavailable, UsingADeviceNamesTheCause) {
  try {
    static_cast<void>(backend(Device::cuda(0)));
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.got(), "cuda:0");
    const std::string text = error.what();
    EXPECT_NE(text.find(cuda::why_unavailable()), std::string::npos) << text;
  }
}

TEST_F(CudaUnavailable, EveryEntryThrowsADeviceError) {
  EXPECT_THROW(cuda::Stream stream, DeviceError);
  EXPECT_THROW(static_cast<void>(cuda::current_stream()), DeviceError);
  EXPECT_THROW(static_cast<void>(cuda::memory_summary(Device::cuda(0))), DeviceError);
  EXPECT_THROW(static_cast<void>(memory_stats(Device::cuda(0))), DeviceError);
  EXPECT_THROW(static_cast<void>(detail::allocate_bytes(16, Device::cuda(0))), DeviceError);
  EXPECT_THROW(synchronize(Device::cuda(0)), DeviceError);
}

TEST_F(CudaUnavailable, AnUnrecordedEventIsPast) {
  const cuda::Event event;
  EXPECT_TRUE(event.query());
  EXPECT_NO_THROW(event.synchronize());
}

// In a process of its own, so that the look for a device is the first one. Processor time, because the
// machine may be busy with other tests.
TEST_F(CudaUnavailable, TheLookForADeviceIsQuick) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const std::clock_t begin = std::clock();
        const bool found = cuda::is_available();
        const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        std::exit(!found && ms < 5.0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

struct Machine {
  std::string environment;
  std::vector<std::string> said;
};

/// Machines on which the look fails; with a real driver only one without a device can be had.
std::vector<Machine> machines() {
#if MEZZO_CUDA_EMULATED
  return {{"MEZZO_EMULATED_DEVICES=-1", {"cudaErrorInsufficientDriver", "install or update it", "13.0"}},
          {"MEZZO_EMULATED_DEVICES=0", {"cudaErrorNoDevice", "nvidia-smi", "CUDA_VISIBLE_DEVICES"}},
          {"MEZZO_EMULATED_DEVICES=-803", {"not the installed one", "restart the machine"}},
          {"MEZZO_EMULATED_DEVICES=-804", {"do not serve this GPU", "LD_LIBRARY_PATH"}},
          {"MEZZO_EMULATED_DEVICES=-999", {"cudaErrorUnknown", "nvidia-smi"}}};
#else
  if (!cuda::is_available()) return {};
  return {{"CUDA_VISIBLE_DEVICES=", {"cudaErrorNoDevice", "nvidia-smi", "CUDA_VISIBLE_DEVICES"}}};
#endif
}

TEST(CudaMachine, WithoutDriverOrDevice) {
  if (machines().empty()) GTEST_SKIP() << "this machine is one: " << cuda::why_unavailable();
  for (const Machine& machine : machines()) {
    const test::Ran ran = test::run_tests("CudaUnavailable.*", machine.environment);
    EXPECT_EQ(ran.status, 0) << machine.environment << '\n' << ran.text;
    EXPECT_EQ(ran.text.find("SKIPPED"), std::string::npos) << machine.environment << " has a device";
    for (const std::string& part : machine.said)
      EXPECT_NE(ran.text.find(part), std::string::npos) << '"' << part << "\" is not in\n" << ran.text;
  }
}

TEST(CudaSummary, WorksForTheCpu) {
  const std::string text = cuda::memory_summary(Device::cpu());
  EXPECT_EQ(text.rfind("cpu: ", 0), 0U) << text;
}

}  // namespace
}  // namespace mezzo
