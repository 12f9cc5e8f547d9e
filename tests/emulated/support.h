// Shared by the tests of the emulated device: a device of its own for each test, arrays in device memory,
// launches.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "emulated_cuda/control.h"

namespace emulated_test {

/// For calls that have to succeed.
#define MEZZO_OK(call) ASSERT_STREQ(cudaGetErrorName(call), "cudaSuccess")

/// A test begins with a device without work, memory or errors; `variables` may change the environment first.
class Emulated : public ::testing::Test {
 protected:
  void SetUp() override { emulated_cuda::reset(); }
  void TearDown() override {
    unsetenv("MEZZO_EMULATED_DEVICES");
    unsetenv("MEZZO_EMULATED_MEMORY");
    unsetenv("MEZZO_EMULATED_MULTIPROCESSORS");
    unsetenv("MEZZO_EMULATED_CAPABILITY");
    emulated_cuda::reset();
  }
  static void start_with(const char* variable, const char* value) {
    setenv(variable, value, 1);
    emulated_cuda::reset();
  }
};

/// `count` T in device memory (null if it is full); not freed, as every test starts anew.
template <class T>
T* device_array(std::size_t count) {
  T* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
  return memory;
}

template <class T>
T* to_device(const std::vector<T>& values) {
  T* const memory = device_array<T>(values.size());
  EXPECT_EQ(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
            cudaSuccess);
  return memory;
}

/// Copies `count` values to the host, behind everything in the default stream.
template <class T>
std::vector<T> to_host(const T* memory, std::size_t count) {
  std::vector<T> values(count);
  EXPECT_EQ(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

struct Shape {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

template <class... Params, class... Args>
cudaError_t launch(const Shape& shape, void (*kernel)(Params...), Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = shape.stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// A launch, and the wait for it: for kernels that end the process.
template <class... Params, class... Args>
void run(const Shape& shape, void (*kernel)(Params...), Args&&... args) {
  (void)launch(shape, kernel, std::forward<Args>(args)...);
  (void)cudaDeviceSynchronize();
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

inline cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

/// Kernels that many tests use.
__global__ inline void store_value(int* to, int value) { *to = value; }
__global__ inline void add_value(int* to, int value) { *to += value; }
__global__ inline void copy_value(int* to, const int* from) { *to = *from; }
__global__ inline void multiply_value(int* to, int factor) { *to *= factor; }

}  // namespace emulated_test
