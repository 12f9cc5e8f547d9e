// Without a usable device: what is said, what it costs, and that the CPU runs. Skipped where a device is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "mezzo/core/allocator.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"

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
    const bool names_cause =
        text.find("cudaError") != std::string::npos || text.find("built without CUDA") != std::string::npos;
    EXPECT_TRUE(names_cause) << text;
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
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::clock_t begin = std::clock();
        const bool found = cuda::is_available();
        const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        std::exit(!found && ms < 5.0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(CudaSummary, WorksForTheCpu) {
  const std::string text = cuda::memory_summary(Device::cpu());
  EXPECT_EQ(text.rfind("cpu: ", 0), 0U) << text;
}

}  // namespace
}  // namespace mezzo
