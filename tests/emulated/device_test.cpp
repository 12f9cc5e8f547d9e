// Devices of the emulated runtime, and machines without.
#include <cstring>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Devices = Emulated;

TEST_F(Devices, WhatADeviceIs) {
  cudaDeviceProp properties;
  MEZZO_OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT_NE(std::strstr(properties.name, "Emulated"), nullptr);
  EXPECT_EQ(properties.totalGlobalMem, std::size_t{2} << 30);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.warpSize, warpSize);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
}

TEST_F(Devices, AMachineWithoutADevice) {
  start_with("MEZZO_EMULATED_DEVICES", "0");
  int count = -7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorNoDevice);
}

TEST_F(Devices, AMachineWithoutADriver) {
  start_with("MEZZO_EMULATED_DEVICES", "-1");
  int count = -7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, -7);
  EXPECT_EQ(launch({1, 1}, store_value, nullptr, 1), cudaErrorInsufficientDriver);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorInsufficientDriver);
}

TEST_F(Devices, ErrorsHaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(1000)), "unrecognized error code");
}

}  // namespace
}  // namespace emulated_test
