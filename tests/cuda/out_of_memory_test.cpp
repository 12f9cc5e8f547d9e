// No memory left: cached memory is given back first, the error says what is held, and the process goes on.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/device_fixture.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo {
namespace {

const Device kDevice = Device::cuda(0);

class CudaOutOfMemory : public test::CudaCacheTest {
 protected:
  void SetUp() override {
    CudaCacheTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(cudaMemGetInfo(&free_, &total_), cudaSuccess);
  }
  std::size_t free_ = 0, total_ = 0;
};

TEST_F(CudaOutOfMemory, TheErrorSaysWhatIsHeldAndTheProcessGoesOn) {
  void* const held = detail::allocate_bytes(3000, kDevice);
  const test::Bytes expected = test::pattern(3000, 1);
  write(held, expected);
  try {
    const detail::OpScope scope("matmul");
    static_cast<void>(detail::allocate_bytes(total_ * 2, kDevice));
    FAIL() << "no error";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.op(), "matmul");
    EXPECT_NE(error.expected().find(std::to_string(total_ * 2) + " bytes"), std::string::npos);
    EXPECT_NE(error.expected().find("cuda:0"), std::string::npos);
    for (const char* const part :
         {"held by tensors", "reserved", "free on the device", "largest free", "small"}) {
      EXPECT_NE(error.got().find(part), std::string::npos) << part << " is not in\n" << error.got();
    }
    EXPECT_NE(error.fix().find("smaller batch"), std::string::npos);
  }
  EXPECT_EQ(memory_stats(kDevice).current, 3000);
  EXPECT_EQ(read(held, 3000), expected);
  void* const more = detail::allocate_bytes(5 << 20, kDevice);
  EXPECT_NE(more, nullptr);
  detail::deallocate_bytes(more, 5 << 20, kDevice);
  detail::deallocate_bytes(held, 3000, kDevice);
}

TEST_F(CudaOutOfMemory, AnAbsurdNumberOfBytesIsTheSameError) {
  EXPECT_THROW(static_cast<void>(detail::allocate_bytes(SIZE_MAX - 5, kDevice)), OutOfMemoryError);
  EXPECT_THROW(static_cast<void>(detail::allocate_bytes(SIZE_MAX / 2, kDevice)), OutOfMemoryError);
}

// Two cached blocks, neither of which is enough, leave too little on the device: they must go back.
TEST_F(CudaOutOfMemory, CachedMemoryIsGivenBackFirst) {
  const std::size_t third = free_ / 100 * 30;
  const std::size_t more = free_ / 100 * 55;
  void* const first = detail::allocate_bytes(third, kDevice);
  void* const second = detail::allocate_bytes(third, kDevice);
  detail::deallocate_bytes(first, third, kDevice);
  detail::deallocate_bytes(second, third, kDevice);
  ASSERT_GE(memory_stats(kDevice).reserved, static_cast<std::int64_t>(2 * third));
  void* const large = detail::allocate_bytes(more, kDevice);
  EXPECT_NE(large, nullptr);
  EXPECT_LT(memory_stats(kDevice).reserved, static_cast<std::int64_t>(more + third));
  detail::deallocate_bytes(large, more, kDevice);
  empty_cache(kDevice);
  EXPECT_EQ(memory_stats(kDevice).reserved, 0);
}

// Cached memory must stay during a capture; the error says so, and afterwards all is as before.
TEST_F(CudaOutOfMemory, InACapture) {
  const std::size_t half = free_ / 100 * 60;
  void* const first = detail::allocate_bytes(half, kDevice);
  detail::deallocate_bytes(first, half, kDevice);
  {
    cuda::MemoryPool pool;
    const cuda::MemoryPoolScope scope(pool);
    try {
      static_cast<void>(detail::allocate_bytes(half, kDevice));
      FAIL() << "no error";
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(error.fix().find("empty_cache() before it"), std::string::npos) << error.fix();
    }
  }
  void* const again = detail::allocate_bytes(half, kDevice);
  EXPECT_EQ(again, first);
  detail::deallocate_bytes(again, half, kDevice);
}

TEST_F(CudaOutOfMemory, TheDeviceHasItsMemoryBackInTheEnd) {
  void* const memory = detail::allocate_bytes(std::size_t{100} << 20, kDevice);
  detail::deallocate_bytes(memory, std::size_t{100} << 20, kDevice);
  empty_cache(kDevice);
  std::size_t free_now = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(free_now, free_);
}

}  // namespace
}  // namespace mezzo
