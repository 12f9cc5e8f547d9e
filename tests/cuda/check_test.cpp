// The errors made from CUDA's status codes. No device is needed: the codes are given.
#include "mezzo/core/cuda/check.h"

#include <gtest/gtest.h>

#include <string>

#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {
namespace {

template <class E>
E caught(cudaError_t status, std::string_view what) {
  try {
    check(status, what);
  } catch (const E& error) {
    return error;
  }
  ADD_FAILURE() << "nothing of the expected kind was thrown";
  return E("", "", "", "");
}

TEST(CudaCheck, SuccessIsSilent) { EXPECT_NO_THROW(check(cudaSuccess, "anything")); }

TEST(CudaCheck, NamesOpCallAndError) {
  const mezzo::detail::OpScope scope("softmax");
  const auto error = caught<DeviceError>(cudaErrorInvalidConfiguration, "the kernel launch");
  EXPECT_EQ(error.op(), "softmax");
  EXPECT_EQ(error.expected(), "the kernel launch to succeed");
  EXPECT_NE(error.got().find("cudaErrorInvalidConfiguration"), std::string::npos);
  EXPECT_FALSE(error.fix().empty());
}

TEST(CudaCheck, ScopesNestAndRestore) {
  const mezzo::detail::OpScope outer("linear");
  {
    const mezzo::detail::OpScope inner("matmul");
    EXPECT_EQ(mezzo::detail::current_op, "matmul");
  }
  EXPECT_EQ(mezzo::detail::current_op, "linear");
}

TEST(CudaCheck, AnAsynchronousErrorNamesTheLastLaunches) {
  for (const std::string_view name :
       {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}) {
    const mezzo::detail::OpScope scope(name);
    note_launch();
  }
  const auto error = caught<DeviceError>(cudaErrorLaunchFailure, "cudaStreamSynchronize");
  // Eight are remembered: the first of the nine is gone.
  EXPECT_NE(error.got().find("two, three, four, five, six, seven, eight, nine"), std::string::npos)
      << error.got();
  EXPECT_EQ(error.got().find("one, two"), std::string::npos);
  EXPECT_NE(error.fix().find("MEZZO_CUDA_SYNC=1"), std::string::npos);
}

TEST(CudaCheck, AKernelErrorIsAsynchronousAndAWrongArgumentIsNot) {
  EXPECT_TRUE(is_asynchronous(cudaErrorIllegalAddress));
  EXPECT_TRUE(is_asynchronous(cudaErrorLaunchFailure));
  EXPECT_FALSE(is_asynchronous(cudaErrorInvalidValue));
  EXPECT_FALSE(is_asynchronous(cudaErrorMemoryAllocation));
  const auto error = caught<DeviceError>(cudaErrorInvalidValue, "cudaMemsetAsync");
  EXPECT_EQ(error.got().find("launched last"), std::string::npos);
}

TEST(CudaCheck, KindsOfErrors) {
  static_cast<void>(caught<OutOfMemoryError>(cudaErrorMemoryAllocation, "cudaHostAlloc"));
  const auto error = caught<StateError>(cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize");
  EXPECT_NE(error.fix().find("captured step"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::cuda
