// Devices, streams and events: guards restore, and an event puts two streams in order.
#include "mezzo/core/cuda/stream.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/device_fixture.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/ops.h"

namespace mezzo::cuda {
namespace {

using test::Bytes;
using test::pattern;

class CudaStream : public test::CudaTest {};

int selected() {
  int index = -1;
  EXPECT_EQ(cudaGetDevice(&index), cudaSuccess);
  return index;
}

TEST_F(CudaStream, DeviceGuardRestores) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices, there is " << device_count();
  ASSERT_EQ(selected(), 0);
  {
    const DeviceGuard outer(1);
    EXPECT_EQ(selected(), 1);
    {
      const DeviceGuard same(1);
      const DeviceGuard inner(0);
      EXPECT_EQ(selected(), 0);
    }
    EXPECT_EQ(selected(), 1);
  }
  EXPECT_EQ(selected(), 0);
}

TEST_F(CudaStream, AnIndexBeyondTheLastIsRefused) {
  const Device beyond = Device::cuda(device_count());
  EXPECT_THROW(static_cast<void>(backend(beyond)), DeviceError);
  EXPECT_THROW(static_cast<void>(current_stream(beyond)), DeviceError);
  EXPECT_THROW(Stream stream(beyond), DeviceError);
  EXPECT_THROW(static_cast<void>(backend(Device::cuda(-1))), DeviceError);
}

TEST_F(CudaStream, TheCpuHasNone) {
  EXPECT_THROW(Stream stream(Device::cpu()), DeviceError);
  EXPECT_THROW(static_cast<void>(current_stream(Device::cpu())), DeviceError);
}

TEST_F(CudaStream, DescriptionNamesDeviceCapabilityAndMemory) {
  const std::string text = device().description();
  EXPECT_NE(text.find(", compute capability "), std::string::npos) << text;
  EXPECT_NE(text.find(" GiB"), std::string::npos) << text;
}

TEST_F(CudaStream, GuardsSwitchTheCurrentStreamOfThisThread) {
  const Stream& usual = current_stream();
  EXPECT_EQ(usual.id(), 0U);
  const Stream first;
  const Stream second(Device::cuda(0), Priority::high);
  EXPECT_NE(first.id(), second.id());
  EXPECT_NE(first.handle(), second.handle());
  {
    const StreamGuard outer(first);
    EXPECT_EQ(&current_stream(), &first);
    {
      const StreamGuard inner(second);
      EXPECT_EQ(&current_stream(Device::cuda(0)), &second);
      const Stream* elsewhere = nullptr;
      std::thread([&] { elsewhere = &current_stream(); }).join();
      EXPECT_EQ(elsewhere, &usual);
    }
    EXPECT_EQ(&current_stream(), &first);
  }
  EXPECT_EQ(&current_stream(), &usual);
}

// The copy in the second stream would find other bytes if it did not wait. It is put in while the first
// stream has much to do, and the emulated device runs the younger stream first.
TEST_F(CudaStream, AnEventOrdersTwoStreams) {
  constexpr std::size_t kSize = std::size_t{4} << 20;
  const Bytes expected = pattern(kSize, 1);
  void* const source = mezzo::detail::allocate_bytes(kSize, Device::cuda(0));
  void* const result = mezzo::detail::allocate_bytes(kSize, Device::cuda(0));
  write(source, Bytes(kSize, 0));
  write(result, Bytes(kSize, 0));
  device().synchronize(0);
  {
    const Stream first;
    const Stream second;
    Event ready;
    {
      const StreamGuard guard(first);
      for (int i = 0; i < 20; ++i) device().set_zero(source, kSize, 0);
      write(source, expected);
      ready.record(first);
    }
    ready.wait(second);
    const StreamGuard guard(second);
    device().copy_within(result, source, kSize, 0);
    EXPECT_EQ(read(result, kSize), expected);
    EXPECT_TRUE(ready.query());
  }
  mezzo::detail::deallocate_bytes(source, kSize, Device::cuda(0));
  mezzo::detail::deallocate_bytes(result, kSize, Device::cuda(0));
}

TEST_F(CudaStream, SynchronizeLeavesNothingToDo) {
  const Stream stream;
  void* const memory = mezzo::detail::allocate_bytes(4096, Device::cuda(0));
  {
    const StreamGuard guard(stream);
    device().set_zero(memory, 4096, 0);
  }
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  EXPECT_FALSE(stream.is_capturing());
  mezzo::detail::deallocate_bytes(memory, 4096, Device::cuda(0));
}

// The runtime keeps it for cudaGetLastError, of its own copy or of a common one.
TEST_F(CudaStream, AnErrorOfTheProgramIsNotTakenForOneOfALaterOp) {
  EXPECT_EQ(cudaSetDevice(device_count()), cudaErrorInvalidDevice);
  const Tensor x = full({3}, 2, {.device = Device::cuda(0)});
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(3, 4));
  EXPECT_NO_THROW(synchronize(Device::cuda(0)));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice) << "the program's to ask for";
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaStream, EventsMeasureTimeWhenAskedTo) {
  Event start(Timing::on);
  Event stop(Timing::on);
  const Event never(Timing::on);
  const Stream& stream = current_stream();
  start.record(stream);
  stop.record(stream);
  stop.synchronize();
  EXPECT_GE(stop.elapsed_ms(start), 0.0F);
  EXPECT_THROW(static_cast<void>(stop.elapsed_ms(never)), StateError);
  Event plain;
  plain.record(stream);
  EXPECT_THROW(static_cast<void>(plain.elapsed_ms(start)), StateError);
}

TEST_F(CudaStream, EventsMove) {
  Event first;
  first.record(current_stream());
  void* const handle = first.handle();
  ASSERT_NE(handle, nullptr);
  Event second(std::move(first));
  EXPECT_EQ(second.handle(), handle);
  Event third;
  third = std::move(second);
  EXPECT_EQ(third.handle(), handle);
  third.synchronize();
  EXPECT_TRUE(third.query());
}

TEST_F(CudaStream, AnEventBelongsToOneDevice) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices, there is " << device_count();
  Event event;
  event.record(current_stream(0));
  EXPECT_THROW(event.record(current_stream(1)), ValueError);
}

}  // namespace
}  // namespace mezzo::cuda
