// Barriers and dynamic shared memory of the emulated device: right uses, and each wrong use it has to find.
#include "mezzo/kernels/cuda/shared.h"

#include <numeric>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using mezzo::kernels::cuda::Shared;
using Barrier = Emulated;
using SharedMemory = Emulated;
using BarrierDeathTest = Emulated;
using SharedMemoryDeathTest = Emulated;

/// Sum over each block by halving; for powers of two.
__global__ void sum_blocks(const int* in, long long* out) {
  Shared<long long> partial(blockDim.x);
  const unsigned t = threadIdx.x;
  partial.set(t, in[blockIdx.x * blockDim.x + t]);
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) partial.set(t, partial.get(t) + partial.get(t + half));
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial.get(0);
}

TEST_F(SharedMemory, ReductionEqualsPlainSum) {
  for (const unsigned threads : {1U, 2U, 32U, 256U, 1024U}) {
    std::vector<int> values(3 * threads);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * i % 1009) - 500;
    long long* const out = device_array<long long>(3);
    MEZZO_OK(launch({3, threads, threads * sizeof(long long)}, sum_blocks, to_device(values), out));
    const auto sums = to_host(out, 3);
    for (std::size_t b = 0; b < 3; ++b) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(b * threads);
      EXPECT_EQ(sums[b], std::accumulate(begin, begin + threads, 0LL)) << threads << " threads, block " << b;
    }
  }
}

/// Two arrays behind each other, and the same bytes as another type after a barrier.
__global__ void two_arrays(double* out) {
  const unsigned t = threadIdx.x, n = blockDim.x;
  Shared<double> wide(n);
  Shared<char> narrow(n, n * sizeof(double));
  wide.set(t, t);
  narrow.set(t, static_cast<char>(n - t));
  __syncthreads();
  const double sum = wide.get(n - 1 - t) + narrow.get(t);
  __syncthreads();
  Shared<float> again(2 * n);
  again.set(2 * t, 1);
  again.set(2 * t + 1, 2);
  __syncthreads();
  out[t] = sum + static_cast<double>(again.get((2 * t + 3) % (2 * n)));
}

TEST_F(SharedMemory, ArraysAtOffsetsAndReuse) {
  double* const out = device_array<double>(48);
  MEZZO_OK(launch({1, 48, 48 * 9}, two_arrays, out));
  const auto seen = to_host(out, 48);
  for (unsigned t = 0; t < 48; ++t) EXPECT_EQ(seen[t], (47 - t) + (48 - t) + 2);
}

/// Lanes of one warp hand on values by __syncwarp alone.
__global__ void within_warp(int* out) {
  Shared<int> values(blockDim.x);
  const unsigned t = threadIdx.x;
  values.set(t, static_cast<int>(t));
  __syncwarp();
  const int next = values.get(t / 32 * 32 + (t + 1) % 32);
  __syncwarp();
  values.set(t, next * 10);
  __syncwarp();
  out[t] = values.get(t / 32 * 32 + (t + 31) % 32);
}

TEST_F(SharedMemory, WarpBarrierOrdersItsLanes) {
  int* const out = device_array<int>(64);
  MEZZO_OK(launch({1, 64, 256}, within_warp, out));
  const auto seen = to_host(out, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(seen[static_cast<std::size_t>(t)], t * 10);
}

__global__ void half_returns() {
  if (threadIdx.x >= blockDim.x / 2) return;
  __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void warp_stays_away() {
  if (threadIdx.x >= 32) {
    if (threadIdx.x < 40) __syncwarp();
  } else {
    __syncthreads();
  }
}

TEST_F(BarrierDeathTest, DivergenceIsNamed) {
  EXPECT_DEATH(run({2, 64}, half_returns),
               "half_returns.*block .0, 0, 0., thread .0, 0, 0.*divergent barrier.*"
               "thread .32, 0, 0. has returned");
  EXPECT_DEATH(run({1, 8}, two_barriers),
               "two_barriers.*thread .1, 0, 0.*divergent barrier.*while thread .0,");
  EXPECT_DEATH(run({1, 64}, warp_stays_away),
               "warp_stays_away.*thread .32, 0, 0.*__syncwarp at .*names lane 8, but that lane has returned");
}

__global__ void reads_unset(int* out, unsigned at) {
  Shared<int> values(64);
  values.set(threadIdx.x, 1);
  __syncthreads();
  *out = values.get(at);
}

TEST_F(SharedMemoryDeathTest, UnsetAndOutOfRange) {
  int* const out = device_array<int>(1);
  EXPECT_DEATH(run({1, 32, 256}, reads_unset, out, 32U), "reads_unset.*byte 128 .*no thread .* has written");
  EXPECT_DEATH(run({1, 32, 256}, reads_unset, out, 64U),
               "index 64 of an array of 64 at .*shared_memory_test");
  EXPECT_DEATH(run({1, 64, 128}, reads_unset, out, 0U),
               "thread .32, 0, 0.*bytes 128 to 132.*launch gave 128");
}

/// What an earlier block has written does not count.
__global__ void first_block_writes(int* out) {
  Shared<int> value(1);
  if (blockIdx.x == 0) value.set(0, 1);
  *out = value.get(0);
}

TEST_F(SharedMemoryDeathTest, EachBlockStartsUnset) {
  int* const out = device_array<int>(1);
  EXPECT_DEATH(run({2, 1, 4}, first_block_writes, out), "block .1, 0, 0.*no thread of the block has written");
}

__global__ void read_without_barrier(int* out) {
  Shared<int> values(32);
  values.set(threadIdx.x, 1);
  out[threadIdx.x] = values.get(threadIdx.x / 2);
}
__global__ void write_without_barrier(int* out) {
  Shared<int> values(32);
  values.set(threadIdx.x, 1);
  __syncthreads();
  out[threadIdx.x] = values.get((threadIdx.x + 1) % 32);
  values.set(threadIdx.x, 2);
}
__global__ void write_twice() {
  Shared<int> value(1);
  value.set(0, 1);
}
__global__ void other_warp(int* out) {
  Shared<int> values(64);
  values.set(threadIdx.x, 1);
  __syncwarp();
  *out = values.get(threadIdx.x ^ 32U);
}

TEST_F(SharedMemoryDeathTest, MissingBarriers) {
  int* const out = device_array<int>(64);
  EXPECT_DEATH(run({1, 32, 128}, read_without_barrier, out), "is read at .*without a barrier since thread");
  EXPECT_DEATH(run({1, 32, 128}, write_without_barrier, out), "is written at .*since another thread read it");
  EXPECT_DEATH(run({1, 32, 4}, write_twice), "is written at .*without a barrier since thread number 0 wrote");
  EXPECT_DEATH(run({1, 64, 256}, other_warp, out), "read at");
}

}  // namespace
}  // namespace emulated_test
