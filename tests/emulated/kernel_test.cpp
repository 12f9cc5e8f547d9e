// Launches on the emulated device: indices, arguments, configurations, and what a kernel must not do.
#include <cstdint>
#include <stdexcept>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Kernels = Emulated;
using KernelsDeathTest = Emulated;

__global__ void write_indices(uint4* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] = {threadIdx.x + 100 * blockIdx.x, threadIdx.y + 100 * blockIdx.y,
                                   threadIdx.z + 100 * blockIdx.z, threads};
}

TEST_F(Kernels, EveryThreadSeesItsIndices) {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  const std::size_t count = 12 * 60;
  uint4* const memory = device_array<uint4>(count);
  MEZZO_OK(launch({grid, block}, write_indices, memory));
  const auto seen = to_host(memory, count);
  std::size_t at = 0;
  for (unsigned b = 0; b < 12; ++b) {
    for (unsigned t = 0; t < 60; ++t, ++at) {
      ASSERT_EQ(seen[at].x, t % 5 + 100 * (b % 3)) << at;
      ASSERT_EQ(seen[at].y, t / 5 % 4 + 100 * (b / 3 % 2)) << at;
      ASSERT_EQ(seen[at].z, t / 20 + 100 * (b / 6)) << at;
      ASSERT_EQ(seen[at].w, 60U);
    }
  }
}

/// Indices are the thread's own again after it has waited.
__global__ void indices_around_barriers(unsigned* wrong) {
  const unsigned before = threadIdx.x, row = threadIdx.y;
  for (int i = 0; i < 3; ++i) {
    __syncthreads();
    if (threadIdx.x != before || threadIdx.y != row) atomicAdd(wrong, 1U);
  }
}

TEST_F(Kernels, IndicesSurviveBarriers) {
  unsigned* const wrong = to_device<unsigned>({0});
  MEZZO_OK(launch({2, dim3(40, 3)}, indices_around_barriers, wrong));
  EXPECT_EQ(to_host(wrong, 1)[0], 0U);
}

struct Record {
  std::int64_t a;
  double b;
  char c;
};
__global__ void take_arguments(double* out, const std::int64_t small, Record record, float4 vector,
                               const float* none) {
  out[0] = static_cast<double>(small);
  out[1] = static_cast<double>(record.a) + record.b + record.c;
  out[2] = static_cast<double>(vector.w);
  out[3] = none == nullptr ? 1 : 0;
  record.a = 0;  // a thread's own copy
}

TEST_F(Kernels, ArgumentsAreConvertedAndCopiedAtTheCall) {
  double* const memory = device_array<double>(4);
  Record record{40, 2.5, 1};
  MEZZO_OK(launch({1, 2}, take_arguments, memory, 3, record, float4{1, 2, 3, 4}, nullptr));
  record.a = -1000;
  const auto seen = to_host(memory, 4);
  EXPECT_EQ(seen, (std::vector<double>{3, 43.5, 4, 1}));
}

__global__ void nothing() {}

TEST_F(Kernels, ImpossibleConfigurationsAreRefused) {
  EXPECT_EQ(launch({1, 0}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({0, 1}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({1, 1025}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({1, dim3(64, 32)}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({1, dim3(1, 1, 65)}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({dim3(1, 65536), 1}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch({1, 1, 48 * 1024 + 1}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(launch({dim3(1, 65535), dim3(32, 32), 48 * 1024}, nothing), cudaSuccess);
}

TEST_F(Kernels, ThreadsThatDoNotWaitShareOneSwitch) {
  MEZZO_OK(launch({1, 1024}, nothing));
  MEZZO_OK(cudaDeviceSynchronize());
  const emulated_cuda::Counts counts = emulated_cuda::counts();
  EXPECT_EQ(counts.launches, 1U);
  EXPECT_EQ(counts.threads, 1024U);
  EXPECT_LE(counts.switches, 2U);  // to the fiber and back
}

__global__ void throws(int fail_at) {
  if (static_cast<int>(threadIdx.x) == fail_at) throw std::runtime_error("out of milk");
}

TEST_F(KernelsDeathTest, AnExceptionIsNamedWithKernelAndThread) {
  EXPECT_DEATH(
      {
        (void)launch({1, 8}, throws, 5);
        (void)cudaDeviceSynchronize();
      },
      "throws.int., block .0, 0, 0., thread .5, 0, 0.*out of milk");
}

__global__ void deep(int* out, int depth) {
  volatile char frame[8192] = {};
  frame[0] = static_cast<char>(depth);
  if (depth > 0) deep(out, depth - 1);
  *out += frame[0];
}

TEST_F(KernelsDeathTest, StackOverflowIsNamed) {
  int* const out = to_device<int>({0});
  EXPECT_DEATH(
      {
        (void)launch({1, 1}, deep, out, 1000);
        (void)cudaDeviceSynchronize();
      },
      "stack overflow");
}

}  // namespace
}  // namespace emulated_test
