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

TEST_F(Devices, HowManyBlocksAreAtWorkAtATime) {
  int multiprocessors = 0, blocks = 0;
  MEZZO_OK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(multiprocessors, 2);
  EXPECT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 1),
            cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetAttribute(nullptr, cudaDevAttrMultiProcessorCount, 0), cudaErrorInvalidValue);
  const auto* const kernel = reinterpret_cast<const void*>(&store_value);
  const auto resident = [&](int threads, std::size_t shared) {
    EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared), cudaSuccess);
    return blocks;
  };
  EXPECT_EQ(resident(256, 0), 8) << "2048 threads";
  EXPECT_EQ(resident(768, 0), 2);
  EXPECT_EQ(resident(128, 48 * 1024), 4) << "228 KiB of shared memory";
  EXPECT_EQ(resident(2000, 0), 0) << "more threads than a block may have";
  EXPECT_EQ(resident(32, 49 * 1024), 0) << "more shared memory than a block may have";
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 32, 0), cudaErrorInvalidValue);
  start_with("MEZZO_EMULATED_MULTIPROCESSORS", "132");
  MEZZO_OK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(multiprocessors, 132);
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
