// Private pools: what a captured graph uses goes to nobody else, and a graph replays with its own memory.
#include "mezzo/core/cuda/memory_pool.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cuda/device_fixture.h"
#include "mezzo/core/cuda/caching_allocator.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::cuda {
namespace {

using test::Bytes;
using test::pattern;

const Device kDevice = Device::cuda(0);

std::byte* take(std::size_t bytes) {
  return static_cast<std::byte*>(mezzo::detail::allocate_bytes(bytes, kDevice));
}
void put(void* memory, std::size_t bytes) { mezzo::detail::deallocate_bytes(memory, bytes, kDevice); }
MemoryStats stats() { return memory_stats(kDevice); }

class CudaMemoryPool : public test::CudaCacheTest {
 protected:
  void SetUp() override {
    CudaCacheTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(stats().reserved, 0);
  }
};

// A graph with an owner.
class Graph {
 public:
  explicit Graph(const Stream& stream) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  void end() {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(native(stream_), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  void launch() { ASSERT_EQ(cudaGraphLaunch(executable_, native(stream_)), cudaSuccess); }
  ~Graph() {
    if (executable_ != nullptr) static_cast<void>(cudaGraphExecDestroy(executable_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

 private:
  const Stream& stream_;
  cudaGraphExec_t executable_ = nullptr;
};

TEST_F(CudaMemoryPool, FreedMemoryStaysInThePool) {
  const auto pool = std::make_unique<MemoryPool>();
  std::byte* inside = nullptr;
  {
    const MemoryPoolScope scope(*pool);
    inside = take(2000);
    put(inside, 2000);
    std::byte* const again = take(2000);
    EXPECT_EQ(again, inside);
    put(again, 2000);
  }
  std::byte* const outside = take(2000);
  EXPECT_NE(outside, inside);
  put(outside, 2000);
  {
    const MemoryPoolScope scope(*pool);
    std::byte* const later = take(2000);
    EXPECT_EQ(later, inside);
    put(later, 2000);
  }
}

TEST_F(CudaMemoryPool, GoesBackToTheDeviceWithThePool) {
  auto pool = std::make_unique<MemoryPool>();
  std::byte* memory = nullptr;
  {
    const MemoryPoolScope scope(*pool);
    memory = take(30 << 20);
  }
  put(memory, 30 << 20);
  empty_cache(kDevice);
  EXPECT_GE(stats().reserved, 30 << 20) << "a graph could still replay into it";
  pool.reset();
  EXPECT_EQ(stats().reserved, 0);
}

TEST_F(CudaMemoryPool, MayEndDuringTheCaptureOfAnother) {
  auto old = std::make_unique<MemoryPool>();
  {
    const MemoryPoolScope scope(*old);
    put(take(5000), 5000);
  }
  const Stream stream;
  const StreamGuard guard(stream);
  std::byte* const memory = take(100);
  MemoryPool pool;
  {
    const MemoryPoolScope scope(pool);
    Graph graph(stream);
    old.reset();
    device().set_zero(memory, 100, 0);
    graph.end();
    graph.launch();
    EXPECT_EQ(read(memory, 100), Bytes(100, 0));
    EXPECT_EQ(stats().reserved, 2 * (2 << 20));
  }
  EXPECT_EQ(stats().reserved, 2 << 20);  // the old pool's went with the end of the capture
  put(memory, 100);
}

TEST_F(CudaMemoryPool, TensorsOutliveIt) {
  auto pool = std::make_unique<MemoryPool>();
  std::byte* memory = nullptr;
  {
    const MemoryPoolScope scope(*pool);
    memory = take(3000);
  }
  const Bytes expected = pattern(3000, 8);
  write(memory, expected);
  pool.reset();
  EXPECT_EQ(stats().current, 3000);
  EXPECT_EQ(read(memory, 3000), expected);
  put(memory, 3000);
  std::byte* const again = take(3000);
  EXPECT_EQ(again, memory);  // everybody's now
  put(again, 3000);
  empty_cache(kDevice);
  EXPECT_EQ(stats().reserved, 0);
}

TEST_F(CudaMemoryPool, TwoPoolsAreApart) {
  MemoryPool first;
  MemoryPool second;
  std::byte* memory = nullptr;
  {
    const MemoryPoolScope scope(first);
    memory = take(1000);
    put(memory, 1000);
    const MemoryPoolScope inner(second);
    std::byte* const other = take(1000);
    EXPECT_NE(other, memory);
    put(other, 1000);
  }
  EXPECT_EQ(active_pool(0), nullptr);
}

TEST_F(CudaMemoryPool, EmptyCacheIsRefusedInACapture) {
  MemoryPool pool;
  const MemoryPoolScope scope(pool);
  EXPECT_THROW(empty_cache(kDevice), StateError);
}

// An event recorded in a stream that captures belongs to the graph and can never be asked.
TEST_F(CudaMemoryPool, UsersOfOtherStreamsWaitForTheEndOfACapture) {
  const Stream other;
  std::byte* const block = take(1000);
  caching_allocator(0).record_stream(block, other);
  MemoryPool pool;
  {
    const MemoryPoolScope scope(pool);
    Graph graph(other);
    put(block, 1000);
    graph.end();
  }
  std::byte* const first = take(1000);
  put(first, 1000);
  other.synchronize();
  std::byte* const second = take(1000);
  EXPECT_TRUE(first == block || second == block) << "the block never came back";
  put(second, 1000);
}

TEST_F(CudaMemoryPool, ACaptureAllocatesCopiesAndReplays) {
  constexpr std::size_t kSize = 10'000;
  const Stream stream;
  const StreamGuard guard(stream);
  MemoryPool pool;
  std::byte* const result = take(kSize);
  Bytes constant = pattern(kSize, 1);
  const Bytes expected = constant;
  device().set_zero(result, kSize, 0);
  stream.synchronize();
  const auto graph = [&] {
    const MemoryPoolScope scope(pool);
    auto captured = std::make_unique<Graph>(stream);
    std::byte* const scratch = take(kSize);
    write(scratch, constant);
    device().copy_within(result, scratch, kSize, 0);
    put(scratch, kSize);
    captured->end();
    return captured;
  }();
  std::fill(constant.begin(), constant.end(), static_cast<unsigned char>(0));  // the graph has a copy
  EXPECT_EQ(read(result, kSize), Bytes(kSize, 0)) << "captured work must not run";
  for (int replay = 0; replay < 2; ++replay) {
    device().set_zero(result, kSize, 0);
    graph->launch();
    EXPECT_EQ(read(result, kSize), expected);
  }
  put(result, kSize);
}

TEST_F(CudaMemoryPool, WhatCannotBeCapturedIsRefusedAndTheCaptureGoesOn) {
  const Stream stream;
  const StreamGuard guard(stream);
  MemoryPool pool;
  std::byte* const memory = take(100);
  const Bytes expected = pattern(100, 2);
  write(memory, expected);
  stream.synchronize();
  {
    const MemoryPoolScope scope(pool);
    Graph graph(stream);
    EXPECT_TRUE(stream.is_capturing());
    EXPECT_THROW(static_cast<void>(read(memory, 100)), StateError);
    EXPECT_THROW(stream.synchronize(), StateError);
    EXPECT_THROW(static_cast<void>(stream.query()), StateError);
    EXPECT_THROW(synchronize(kDevice), StateError);
    device().set_zero(memory, 100, 0);
    graph.end();
    EXPECT_FALSE(stream.is_capturing());
    EXPECT_EQ(read(memory, 100), expected);
    graph.launch();
    EXPECT_EQ(read(memory, 100), Bytes(100, 0));
  }
  put(memory, 100);
}

TEST_F(CudaMemoryPool, ACopyFromTheHostNeedsAPool) {
  const Stream stream;
  const StreamGuard guard(stream);
  std::byte* const memory = take(100);
  {
    Graph graph(stream);
    EXPECT_THROW(write(memory, Bytes(100, 1)), StateError);
    device().set_zero(memory, 100, 0);
    graph.end();
  }
  put(memory, 100);
}

}  // namespace
}  // namespace mezzo::cuda
