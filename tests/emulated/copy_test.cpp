// Copies and fills of the emulated device: pageable and pinned memory, directions, ranges.
#include <cstring>
#include <numeric>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Copies = Emulated;
using CopiesDeathTest = Emulated;

int* pinned_ints(std::size_t count) {
  int* memory = nullptr;
  EXPECT_EQ(cudaMallocHost(&memory, count * sizeof(int)), cudaSuccess);
  return memory;
}

TEST_F(Copies, PageableSourcesAreReadAtTheCall) {
  const cudaStream_t stream = new_stream();
  int* const device = device_array<int>(1);
  int source = 1;
  MEZZO_OK(cudaMemcpyAsync(device, &source, sizeof(int), cudaMemcpyHostToDevice, stream));
  source = 2;
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(to_host(device, 1)[0], 1);
}

TEST_F(Copies, PinnedSourcesAreReadWhenTheirTurnComes) {
  const cudaStream_t stream = new_stream();
  int* const device = device_array<int>(1);
  int* const source = pinned_ints(4);
  source[3] = 1;
  MEZZO_OK(cudaMemcpyAsync(device, source + 3, sizeof(int), cudaMemcpyHostToDevice, stream));
  source[3] = 2;
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(to_host(device, 1)[0], 2);
  MEZZO_OK(cudaFreeHost(source));
}

TEST_F(Copies, PinnedTargetsAreWrittenWhenTheirTurnComes) {
  const cudaStream_t stream = new_stream();
  int* const device = to_device<int>({7});
  int* const pinned = pinned_ints(1);
  *pinned = 0;
  MEZZO_OK(cudaMemcpyAsync(pinned, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(*pinned, 0);
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(*pinned, 7);
  int pageable = 0;
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, device, 1));
  MEZZO_OK(cudaMemcpyAsync(&pageable, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(pageable, 8) << "a copy to pageable memory is waited for";
  MEZZO_OK(cudaFreeHost(pinned));
}

TEST_F(Copies, RoundTripsOfManySizes) {
  for (const std::size_t bytes : {0UL, 1UL, 3UL, 511UL, 512UL, 513UL, 100001UL}) {
    std::vector<unsigned char> values(bytes), back(bytes);
    std::iota(values.begin(), values.end(), static_cast<unsigned char>(bytes));
    unsigned char* a = nullptr;
    unsigned char* b = nullptr;
    MEZZO_OK(cudaMalloc(&a, bytes));
    MEZZO_OK(cudaMalloc(&b, bytes));
    MEZZO_OK(cudaMemcpyAsync(a, values.data(), bytes, cudaMemcpyHostToDevice));
    MEZZO_OK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice));
    MEZZO_OK(cudaMemcpyAsync(back.data(), b, bytes, cudaMemcpyDefault));
    MEZZO_OK(cudaDeviceSynchronize());
    EXPECT_EQ(back, values) << bytes;
  }
}

TEST_F(Copies, FillsAreBytesInOrder) {
  const cudaStream_t stream = new_stream();
  unsigned* const device = to_device<unsigned>({1, 2, 3});
  MEZZO_OK(cudaMemsetAsync(device + 1, 0xab, 4, stream));
  EXPECT_EQ(to_host(device, 3)[1], 2U);
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(to_host(device, 3), (std::vector<unsigned>{1, 0xababababU, 3}));
}

TEST_F(Copies, WrongDirectionsAndRangesAreRefused) {
  int host[4] = {};
  int* const device = device_array<int>(2);
  EXPECT_EQ(cudaMemcpyAsync(host, host + 1, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device, host, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, device, 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device, host, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "too long";
  EXPECT_EQ(cudaMemcpyAsync(device - 1, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device + 1, 0, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, device, 4, static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
  MEZZO_OK(cudaMemcpyAsync(device + 1, host, 4, cudaMemcpyHostToDevice));
}

TEST_F(CopiesDeathTest, MemoryFreedBeforeTheCopysTurn) {
  const cudaStream_t stream = new_stream(), other = new_stream();
  int* const device = device_array<int>(1);
  EXPECT_DEATH(
      {
        (void)cudaMemsetAsync(device, 0, 4, stream);
        (void)cudaFreeAsync(device, other);
        (void)cudaDeviceSynchronize();
      },
      "freed before its turn");
}

TEST_F(Copies, PointersAreTold) {
  cudaPointerAttributes attributes{};
  int* const device = device_array<int>(2);
  int* const pinned = pinned_ints(2);
  int pageable = 0;
  MEZZO_OK(cudaPointerGetAttributes(&attributes, device + 1));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  MEZZO_OK(cudaPointerGetAttributes(&attributes, pinned + 1));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  MEZZO_OK(cudaPointerGetAttributes(&attributes, &pageable));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  MEZZO_OK(cudaFreeHost(pinned));
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulated_test
