// Copies between host and device: every size comes back, and the host's bytes may change at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/core/memory/allocator.h"
#if MEZZO_CUDA_EMULATED
#include <emulated_cuda/control.h>

#include "mezzo/core/cuda/stream.h"
#endif

namespace mezzo {
namespace {

using test::Bytes;
using test::pattern;

// Device memory with an owner.
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size), data_(detail::allocate_bytes(size, Device::cuda(0))) {}
  ~Buffer() { detail::deallocate_bytes(data_, size_, Device::cuda(0)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t size_;
  void* data_;
};

class CudaCopy : public test::CudaTest {};

TEST_F(CudaCopy, EverySizeComesBack) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  // Below, at and above the size of a staged piece (1 MiB) and of the ring of pieces (8 MiB).
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{511},
                                 std::size_t{4097}, kMiB - 1, kMiB, kMiB + 1, 8 * kMiB, 19 * kMiB + 13}) {
    const Buffer buffer(size);
    const Bytes expected = pattern(size, static_cast<unsigned>(size));
    write(buffer.data(), expected);
    EXPECT_TRUE(read(buffer.data(), size) == expected) << size << " bytes";
  }
}

TEST_F(CudaCopy, NothingIsCopiedForNoBytes) {
  EXPECT_NO_THROW(device().copy_from_host(nullptr, nullptr, 0, 0));
  EXPECT_NO_THROW(device().copy_to_host(nullptr, nullptr, 0, 0));
  EXPECT_NO_THROW(device().copy_within(nullptr, nullptr, 0, 0));
  EXPECT_NO_THROW(device().set_zero(nullptr, 0, 0));
}

TEST_F(CudaCopy, OddPlacesInABuffer) {
  const Buffer buffer(1000);
  device().set_zero(buffer.data(), 1000, 0);
  const Bytes middle = pattern(77, 5);
  write(buffer.data() + 333, middle);
  Bytes expected(1000, 0);
  std::copy(middle.begin(), middle.end(), expected.begin() + 333);
  EXPECT_EQ(read(buffer.data(), 1000), expected);
}

TEST_F(CudaCopy, TheHostMayChangeItsBytesAtOnce) {
  constexpr std::size_t kSize = 100'000;
  const Buffer buffer(kSize);
  Bytes bytes = pattern(kSize, 3);
  const Bytes expected = bytes;
  write(buffer.data(), bytes);
  std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_TRUE(read(buffer.data(), kSize) == expected);
}

// More bytes wait than the staging ring holds, in pieces of many sizes, so that the end of the ring falls
// differently each time round.
TEST_F(CudaCopy, ManyCopiesInFlightKeepTheirBytes) {
  constexpr std::size_t kPlace = 900'000;
  constexpr unsigned kCopies = 150;
  const auto size = [](unsigned i) { return 1 + i * std::size_t{612'347} % kPlace; };
  const Buffer buffer(kPlace * kCopies);
  for (unsigned i = 0; i < kCopies; ++i) write(buffer.data() + i * kPlace, pattern(size(i), i));
  for (unsigned i = 0; i < kCopies; ++i) {
    ASSERT_TRUE(read(buffer.data() + i * kPlace, size(i)) == pattern(size(i), i)) << "copy " << i;
  }
}

// More than are kept count of at once.
TEST_F(CudaCopy, AThousandSmallCopies) {
  constexpr unsigned kCopies = 1000;
  const Buffer buffer(kCopies * sizeof(unsigned));
  for (unsigned i = 0; i < kCopies; ++i) {
    device().copy_from_host(buffer.data() + i * sizeof(unsigned), &i, sizeof(unsigned), 0);
  }
  std::vector<unsigned> values(kCopies);
  device().copy_to_host(values.data(), buffer.data(), kCopies * sizeof(unsigned), 0);
  for (unsigned i = 0; i < kCopies; ++i) ASSERT_EQ(values[i], i);
}

#if MEZZO_CUDA_EMULATED  // whose streams run when somebody waits for them
TEST_F(CudaCopy, AScalarDoesNotWaitForABatchOfAnotherStream) {
  constexpr std::size_t kBatch = std::size_t{8} << 20;  // all that may wait
  const Buffer batch(kBatch), scalar(8);
  const cuda::Stream loader;
  device().synchronize(0);
  {
    const cuda::StreamGuard guard(loader);
    write(batch.data(), pattern(kBatch, 1));
  }
  const std::size_t waiting = emulated_cuda::pending(cuda::native(loader));
  EXPECT_GT(waiting, 0);
  write(scalar.data(), pattern(8, 2));
  EXPECT_TRUE(read(scalar.data(), 8) == pattern(8, 2));
  EXPECT_EQ(emulated_cuda::pending(cuda::native(loader)), waiting);
  const cuda::StreamGuard guard(loader);
  EXPECT_TRUE(read(batch.data(), kBatch) == pattern(kBatch, 1));
}
#endif

TEST_F(CudaCopy, CopiesOfTwoStreamsShareTheRing) {
  constexpr std::size_t kSize = 700'001;
  const cuda::Stream other;
  const Buffer first(kSize);
  const Buffer second(kSize);
  device().synchronize(0);
  for (unsigned i = 0; i < 30; ++i) {
    write(first.data(), pattern(kSize, i));
    const cuda::StreamGuard guard(other);
    write(second.data(), pattern(kSize, i + 1000));
  }
  EXPECT_TRUE(read(first.data(), kSize) == pattern(kSize, 29));
  const cuda::StreamGuard guard(other);
  EXPECT_TRUE(read(second.data(), kSize) == pattern(kSize, 1029));
}

TEST_F(CudaCopy, WithinTheDeviceAndZeros) {
  const Buffer from(5000);
  const Buffer to(5000);
  const Bytes expected = pattern(5000, 9);
  write(from.data(), expected);
  device().copy_within(to.data(), from.data(), 5000, 0);
  device().set_zero(from.data(), 5000, 0);
  EXPECT_EQ(read(to.data(), 5000), expected);
  EXPECT_EQ(read(from.data(), 5000), Bytes(5000, 0));
}

TEST_F(CudaCopy, BetweenDevices) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two devices, there is " << cuda::device_count();
  constexpr std::size_t kSize = 3'000'001;
  const Device second = Device::cuda(1);
  const Buffer here(kSize);
  void* const there = detail::allocate_bytes(kSize, second);
  const Bytes expected = pattern(kSize, 6);
  write(here.data(), expected);
  // In the order of both devices: the source is overwritten after the copy.
  backend(second).copy_within(there, here.data(), kSize, 1);
  device().set_zero(here.data(), kSize, 0);
  EXPECT_TRUE(read(here.data(), kSize) == Bytes(kSize, 0));
  Bytes result(kSize);
  backend(second).copy_to_host(result.data(), there, kSize, 1);
  EXPECT_TRUE(result == expected);
  detail::deallocate_bytes(there, kSize, second);
}

}  // namespace
}  // namespace mezzo
