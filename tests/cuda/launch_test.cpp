// Launches. Kernels need nvcc on a GPU, where the tests of the kernels go through `launch`; here they are
// plain functions on the emulated device, which can also fail on demand.
#include <gtest/gtest.h>

#include "cuda/device_fixture.h"

#if defined(MEZZO_CUDA_EMULATED)

#include <cuda_runtime.h>
#include <emulated_cuda/control.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::cuda {
namespace {

using mezzo::detail::OpScope;

__global__ void count_up(int* out, int first, int size) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < size) out[i] = first + i;
}

class CudaLaunch : public test::CudaTest {};

TEST_F(CudaLaunch, RunsWithItsArgumentsAndIsCounted) {
  constexpr int kSize = 1000;
  void* const memory = mezzo::detail::allocate_bytes(kSize * sizeof(int), Device::cuda(0));
  const std::uint64_t before = launches();
  launch(count_up, dim3(8), dim3(128), 0, current_stream(), static_cast<int*>(memory), 5, kSize);
  EXPECT_EQ(launches() - before, 1U);
  const test::Bytes bytes = read(memory, kSize * sizeof(int));
  std::vector<int> values(kSize);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (int i = 0; i < kSize; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], 5 + i);
  mezzo::detail::deallocate_bytes(memory, kSize * sizeof(int), Device::cuda(0));
}

TEST_F(CudaLaunch, AGridWithoutBlocksStartsNothing) {
  const std::uint64_t before = launches();
  launch(count_up, dim3(0), dim3(128), 0, current_stream(), static_cast<int*>(nullptr), 0, 0);
  EXPECT_EQ(launches(), before);
}

TEST_F(CudaLaunch, AnImpossibleLaunchNamesTheOp) {
  const OpScope scope("layer_norm");
  try {
    launch(count_up, dim3(1), dim3(4096), 0, current_stream(), static_cast<int*>(nullptr), 0, 0);
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.op(), "layer_norm");
    EXPECT_NE(error.got().find("cudaErrorInvalidConfiguration"), std::string::npos);
  }
  EXPECT_NO_THROW(current_stream().synchronize());  // the next call is not blamed
}

TEST_F(CudaLaunch, AKernelThatARecordingMeetsFirstIsLoaded) {
  void* const memory = mezzo::detail::allocate_bytes(sizeof(int), Device::cuda(0));
  emulated_cuda::load_kernels_at_first_launch(true);
  Graph graph(Device::cuda(0), [&] {
    launch(count_up, dim3(1), dim3(1), 0, current_stream(), static_cast<int*>(memory), 42, 1);
  });
  emulated_cuda::load_kernels_at_first_launch(false);
  graph.replay();
  const test::Bytes bytes = read(memory, sizeof(int));
  int value = 0;
  std::memcpy(&value, bytes.data(), sizeof(int));
  EXPECT_EQ(value, 42);
  mezzo::detail::deallocate_bytes(memory, sizeof(int), Device::cuda(0));
}

TEST_F(CudaLaunch, GoesToTheDeviceOfItsStream) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices, there is " << device_count();
  const Stream& second = current_stream(1);
  void* const memory = mezzo::detail::allocate_bytes(sizeof(int), Device::cuda(1));
  launch(count_up, dim3(1), dim3(1), 0, second, static_cast<int*>(memory), 42, 1);
  int value = 0;
  backend(Device::cuda(1)).copy_to_host(&value, memory, sizeof(value), 1);
  EXPECT_EQ(value, 42);
  mezzo::detail::deallocate_bytes(memory, sizeof(int), Device::cuda(1));
}

// What a failing kernel leaves behind ends only with the process, so these two run in one of their own. The
// message goes to stderr, where the test looks for it.
void launch_under(std::string_view op) {
  const OpScope scope(op);
  launch(count_up, dim3(1), dim3(1), 0, current_stream(), static_cast<int*>(nullptr), 0, 0);
}

[[noreturn]] void fail_in_between(bool synchronous) {
  set_synchronous_launches(synchronous);
  try {
    launch_under("relu");
    emulated_cuda::enqueue_failure(native(current_stream()), cudaErrorIllegalAddress);
    launch_under("softmax");
    launch_under("matmul");
    current_stream().synchronize();
  } catch (const DeviceError& error) {
    std::fputs(error.what(), stderr);
    std::exit(7);
  }
  std::exit(0);
}

TEST_F(CudaLaunch, ALateFailureNamesTheLaunchesThatMayHaveCausedIt) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(fail_in_between(false), ::testing::ExitedWithCode(7),
              "cuda: expected cudaStreamSynchronize to succeed.*cudaErrorIllegalAddress.*"
              "launched last: relu, softmax, matmul.*MEZZO_CUDA_SYNC=1");
}

TEST_F(CudaLaunch, SynchronousLaunchesNameTheOpItself) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(fail_in_between(true), ::testing::ExitedWithCode(7),
              "^softmax: expected its kernel to succeed");
}

// Memory is freed and the process ends orderly, whatever the device says.
TEST_F(CudaLaunch, ALostDeviceLetsTheProcessEnd) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        void* const memory = mezzo::detail::allocate_bytes(1000, Device::cuda(0));
        {
          const Stream other;
          emulated_cuda::enqueue_failure(native(other), cudaErrorLaunchFailure);
          EXPECT_THROW(other.synchronize(), DeviceError);
        }
        mezzo::detail::deallocate_bytes(memory, 1000, Device::cuda(0));
        EXPECT_THROW(empty_cache(Device::cuda(0)), DeviceError);
        std::exit(::testing::Test::HasFailure() ? 1 : 7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mezzo::cuda

#else

TEST(CudaLaunch, NeedsTheEmulatedDevice) {
  GTEST_SKIP() << "kernels as plain functions run on the emulated device only (preset cuda-emulated)";
}

#endif
