// Device memory of the emulated device: capacity, contents, order of frees, and accesses that have to fail.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "emulated/support.h"
#include "emulated_cuda/blocks.h"

namespace emulated_test {
namespace {

using Memory = Emulated;
using MemoryDeathTest = Emulated;

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST_F(Memory, NewMemoryHoldsNaN) {
  for (int round = 0; round < 2; ++round) {
    float* const memory = device_array<float>(1000);
    for (const float value : to_host(memory, 1000)) ASSERT_TRUE(std::isnan(value));
    MEZZO_OK(cudaMemsetAsync(memory, 0, 4000));
    MEZZO_OK(cudaFree(memory));
  }
}

TEST_F(Memory, FullMemoryIsAnErrorAndGoesOn) {
  start_with("MEZZO_EMULATED_MEMORY", "1048576");
  EXPECT_EQ(free_bytes(), 1048576U);
  void* first = nullptr;
  void* second = &first;
  MEZZO_OK(cudaMalloc(&first, 1000000));
  EXPECT_EQ(cudaMalloc(&second, 100000), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&second, SIZE_MAX - 100), cudaErrorMemoryAllocation);
  MEZZO_OK(cudaMalloc(&second, 40000));
  MEZZO_OK(cudaFree(first));
  MEZZO_OK(cudaFree(second));
  EXPECT_EQ(free_bytes(), 1048576U);
  EXPECT_EQ(cudaFree(first), cudaErrorInvalidValue) << "twice";
  MEZZO_OK(cudaFree(nullptr));
}

TEST_F(Memory, AsynchronousFreesTakeEffectInOrder) {
  start_with("MEZZO_EMULATED_MEMORY", "1048576");
  const cudaStream_t stream = new_stream();
  int* memory = nullptr;
  MEZZO_OK(cudaMallocAsync(&memory, 600000, stream));
  MEZZO_OK(launch({1, 1, 0, stream}, store_value, memory, 5));
  MEZZO_OK(cudaFreeAsync(memory, stream));
  EXPECT_LT(free_bytes(), 500000U);
  // What waits to be freed is freed when memory is needed.
  int* next = nullptr;
  MEZZO_OK(cudaMallocAsync(&next, 700000, stream));
  EXPECT_EQ(emulated_cuda::pending(stream), 0U);
  MEZZO_OK(cudaFreeAsync(next, stream));
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(free_bytes(), 1048576U);
  EXPECT_EQ(emulated_cuda::counts().mallocs, 2U);
  EXPECT_EQ(emulated_cuda::counts().frees, 2U);
}

/// Random allocations keep their contents: no two live blocks overlap.
TEST_F(Memory, RandomBlocksDoNotOverlap) {
  struct Held {
    unsigned char* memory;
    std::size_t bytes;
    unsigned char mark;
  };
  std::mt19937 random(7);
  std::vector<Held> held;
  for (int round = 0; round < 300; ++round) {
    if (held.size() > 20 || (!held.empty() && random() % 3 == 0)) {
      const std::size_t which = random() % held.size();
      const Held block = held[which];
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      const auto bytes = to_host(block.memory, block.bytes);
      ASSERT_EQ(static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), block.mark)), block.bytes);
      MEZZO_OK(cudaFree(block.memory));
    } else {
      const std::size_t bytes = 1 + random() % 5000;
      const auto mark = static_cast<unsigned char>(round);
      held.push_back({device_array<unsigned char>(bytes), bytes, mark});
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(held.back().memory) % 512, 0U);
      MEZZO_OK(cudaMemsetAsync(held.back().memory, mark, bytes));
    }
  }
}

TEST_F(MemoryDeathTest, TheHostCannotTouchDeviceMemory) {
  volatile int* const memory = device_array<int>(1);
  EXPECT_DEATH((void)*memory, "host access to emulated device memory");
  EXPECT_DEATH(*memory = 1, "host access to emulated device memory");
  MEZZO_OK(launch({1, 1}, store_value, const_cast<int*>(memory), 1));
  MEZZO_OK(cudaDeviceSynchronize());
  EXPECT_DEATH((void)*memory, "host access to emulated device memory") << "after work has run";
}

void store_and_run(int* to) {
  (void)launch({1, 1}, store_value, to, 1);
  (void)cudaDeviceSynchronize();
}

TEST_F(MemoryDeathTest, AddressSanitizerSeesDeviceMemory) {
#if !defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "built without AddressSanitizer";
#endif
  int* const memory = device_array<int>(3);
  int* const freed = device_array<int>(3);
  MEZZO_OK(cudaFree(freed));
  store_and_run(memory + 2);
  EXPECT_DEATH(store_and_run(memory + 3), "AddressSanitizer: use-after-poison");
  EXPECT_DEATH(store_and_run(memory - 1), "AddressSanitizer: use-after-poison");
  EXPECT_DEATH(store_and_run(freed), "AddressSanitizer: use-after-poison");
}

/// Blocks that an allocator cuts out of a segment are told apart, in stream order.
TEST_F(Memory, MarkedBlocksHoldNaNWhenTaken) {
  int* const segment = to_device<int>(std::vector<int>(64, 5));
  MEZZO_OK(emulated_cuda::block_taken(segment + 32, 8, 128, nullptr));
  EXPECT_EQ(to_host(segment + 31, 3), (std::vector<int>{5, -1, -1}));
  EXPECT_EQ(emulated_cuda::block_taken(segment + 32, 129, 128, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(emulated_cuda::block_returned(segment + 33, 128, nullptr), cudaErrorInvalidValue);
}

TEST_F(MemoryDeathTest, AddressSanitizerSeesMarkedBlocks) {
#if !defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "built without AddressSanitizer";
#endif
  int* const segment = device_array<int>(64);
  MEZZO_OK(emulated_cuda::block_taken(segment, 8, 128, nullptr));
  store_and_run(segment + 1);
  EXPECT_DEATH(store_and_run(segment + 2), "AddressSanitizer: use-after-poison");
  MEZZO_OK(launch({1, 1}, store_value, segment, 1));
  MEZZO_OK(emulated_cuda::block_returned(segment, 128, nullptr));
  MEZZO_OK(cudaDeviceSynchronize());  // the kernel came first
  EXPECT_DEATH(store_and_run(segment), "AddressSanitizer: use-after-poison");
  MEZZO_OK(emulated_cuda::block_taken(segment, 128, 128, nullptr));
  store_and_run(segment + 31);
}

TEST_F(MemoryDeathTest, FarBeyondAllMemory) {
  int* const memory = device_array<int>(3);
  EXPECT_DEATH(store_and_run(memory + (std::size_t{64} << 20)), "memory that was never allocated");
}

TEST_F(Memory, DevicesHaveMemoryOfTheirOwn) {
  start_with("MEZZO_EMULATED_DEVICES", "2");
  int count = 0;
  MEZZO_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  int* const first = to_device<int>({1});
  MEZZO_OK(cudaSetDevice(1));
  int* const second = to_device<int>({2});
  const cudaStream_t stream = new_stream();
  MEZZO_OK(cudaMemcpyAsync(second, first, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(to_host(second, 1)[0], 1);
  cudaPointerAttributes attributes{};
  MEZZO_OK(cudaPointerGetAttributes(&attributes, second));
  EXPECT_EQ(attributes.device, 1);
  EXPECT_DEATH(store_and_run(first), "a kernel touched device memory that was never allocated, or another");
  MEZZO_OK(cudaSetDevice(0));
  EXPECT_EQ(launch({1, 1, 0, stream}, store_value, first, 1), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace emulated_test
