// Streams and events of the emulated device: nothing runs before somebody asks, and orders that were not
// asked for do not hold.
#include <thread>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Streams = Emulated;
using Events = Emulated;
using StreamsDeathTest = Emulated;

TEST_F(Streams, NothingRunsBeforeASynchronise) {
  int* const value = to_device<int>({1});
  const cudaStream_t stream = new_stream();
  MEZZO_OK(launch({1, 1, 0, stream}, store_value, value, 2));
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 3));
  EXPECT_EQ(emulated_cuda::pending(stream), 2U);
  EXPECT_EQ(emulated_cuda::counts().launches, 0U);
  EXPECT_EQ(to_host(value, 1)[0], 1) << "a copy in another stream must not wait for this one";
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(emulated_cuda::pending(stream), 0U);
  EXPECT_EQ(to_host(value, 1)[0], 5);
}

TEST_F(Streams, SynchroniseRunsItsOwnStreamOnly) {
  int* const values = to_device<int>({0, 0});
  const cudaStream_t a = new_stream(), b = new_stream();
  MEZZO_OK(launch({1, 1, 0, a}, store_value, values, 1));
  MEZZO_OK(launch({1, 1, 0, b}, store_value, values + 1, 1));
  MEZZO_OK(cudaStreamSynchronize(a));
  EXPECT_EQ(emulated_cuda::pending(b), 1U);
  MEZZO_OK(cudaDeviceSynchronize());
  EXPECT_EQ(to_host(values, 2), (std::vector<int>{1, 1}));
}

/// A producer and a consumer in two streams, with an event between them or without.
int produce_and_consume(bool with_event) {
  int* const values = to_device<int>({0, 0});
  const cudaStream_t producer = new_stream(), consumer = new_stream();
  EXPECT_EQ(launch({1, 1, 0, producer}, store_value, values, 42), cudaSuccess);
  if (with_event) {
    const cudaEvent_t event = new_event();
    EXPECT_EQ(cudaEventRecord(event, producer), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(consumer, event), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);  // the wait stays
  }
  EXPECT_EQ(launch({1, 1, 0, consumer}, copy_value, values + 1, values), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return to_host(values + 1, 1)[0];
}

TEST_F(Streams, AMissingEventGivesTheWrongAnswer) {
  EXPECT_EQ(produce_and_consume(false), 0);
  EXPECT_EQ(produce_and_consume(true), 42);
}

TEST_F(Streams, AWaitReachesBackToTheRecordOnly) {
  int* const value = to_device<int>({0});
  const cudaStream_t first = new_stream(), second = new_stream();
  const cudaEvent_t event = new_event();
  MEZZO_OK(launch({1, 1, 0, first}, add_value, value, 1));
  MEZZO_OK(cudaEventRecord(event, first));
  MEZZO_OK(launch({1, 1, 0, first}, multiply_value, value, 100));
  MEZZO_OK(cudaStreamWaitEvent(second, event));
  MEZZO_OK(cudaEventRecord(event, second));  // recording anew does not move the wait
  MEZZO_OK(cudaStreamSynchronize(second));
  EXPECT_EQ(emulated_cuda::pending(first), 1U);
  EXPECT_EQ(to_host(value, 1)[0], 1);
}

TEST_F(Streams, EventsOrderAChainOfStreams) {
  int* const value = to_device<int>({1});
  const cudaStream_t streams[3] = {new_stream(), new_stream(), new_stream()};
  const cudaEvent_t events[2] = {new_event(), new_event()};
  MEZZO_OK(launch({1, 1, 0, streams[0]}, add_value, value, 1));
  MEZZO_OK(cudaEventRecord(events[0], streams[0]));
  MEZZO_OK(cudaStreamWaitEvent(streams[2], events[0]));
  MEZZO_OK(launch({1, 1, 0, streams[2]}, multiply_value, value, 10));
  MEZZO_OK(cudaEventRecord(events[1], streams[2]));
  MEZZO_OK(cudaStreamWaitEvent(streams[1], events[1]));
  MEZZO_OK(launch({1, 1, 0, streams[1]}, add_value, value, 3));
  MEZZO_OK(cudaStreamSynchronize(streams[1]));
  EXPECT_EQ(to_host(value, 1)[0], 23);
}

TEST_F(Streams, QueriesMakeProgress) {
  int* const value = to_device<int>({0});
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  for (int i = 0; i < 3; ++i) MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  int rounds = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++rounds;
  EXPECT_EQ(rounds, 3);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(to_host(value, 1)[0], 3);
}

TEST_F(Events, QuerySynchroniseAndTime) {
  const cudaStream_t stream = new_stream();
  cudaEvent_t start = nullptr, stop = nullptr;
  MEZZO_OK(cudaEventCreate(&start));
  MEZZO_OK(cudaEventCreate(&stop));
  EXPECT_EQ(cudaEventQuery(start), cudaSuccess) << "never recorded";
  float time = -1;
  EXPECT_EQ(cudaEventElapsedTime(&time, start, stop), cudaErrorInvalidResourceHandle);
  int* const value = to_device<int>({0});
  MEZZO_OK(cudaEventRecord(start, stream));
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  MEZZO_OK(cudaEventRecord(stop, stream));
  EXPECT_EQ(cudaEventElapsedTime(&time, start, stop), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(stop), cudaErrorNotReady);
  MEZZO_OK(cudaEventSynchronize(stop));
  EXPECT_EQ(cudaEventQuery(stop), cudaSuccess);
  MEZZO_OK(cudaEventElapsedTime(&time, start, stop));
  EXPECT_GE(time, 0);
  EXPECT_EQ(cudaEventElapsedTime(&time, start, new_event()), cudaErrorInvalidResourceHandle) << "no timing";
}

TEST_F(Streams, TheDefaultStreamTakesTurnsWithBlockingStreams) {
  int* const value = to_device<int>({1});
  cudaStream_t blocking = nullptr;
  MEZZO_OK(cudaStreamCreate(&blocking));
  const cudaStream_t other = new_stream();
  MEZZO_OK(launch({1, 1, 0, blocking}, add_value, value, 1));
  MEZZO_OK(launch({1, 1}, multiply_value, value, 10));
  MEZZO_OK(launch({1, 1, 0, blocking}, add_value, value, 3));
  MEZZO_OK(launch({1, 1, 0, other}, multiply_value, value, 100));
  MEZZO_OK(cudaStreamSynchronize(blocking));
  EXPECT_EQ(emulated_cuda::pending(nullptr), 0U);
  EXPECT_EQ(to_host(value, 1)[0], 23);
  EXPECT_EQ(emulated_cuda::pending(other), 1U);
}

TEST_F(Streams, ADestroyedStreamFinishesItsWork) {
  int* const value = to_device<int>({0});
  const cudaStream_t stream = new_stream();
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  MEZZO_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  MEZZO_OK(cudaDeviceSynchronize());
  EXPECT_EQ(to_host(value, 1)[0], 1);
}

void count_up(void* data) { ++*static_cast<int*>(data); }
void call_cuda(void* data) { *static_cast<cudaError_t*>(data) = cudaDeviceSynchronize(); }

TEST_F(Streams, HostFunctionsComeInTheirTurn) {
  const cudaStream_t stream = new_stream();
  int count = 0;
  cudaError_t inside = cudaSuccess;
  MEZZO_OK(cudaLaunchHostFunc(stream, count_up, &count));
  MEZZO_OK(cudaLaunchHostFunc(stream, call_cuda, &inside));
  EXPECT_EQ(count, 0);
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(inside, cudaErrorNotPermitted);
}

void touch(void* data) { *static_cast<volatile int*>(data) = 1; }

TEST_F(StreamsDeathTest, HostFunctionsCannotTouchDeviceMemory) {
  int* const value = to_device<int>({0});
  EXPECT_DEATH(
      {
        (void)cudaLaunchHostFunc(nullptr, touch, value);
        (void)cudaDeviceSynchronize();
      },
      "host access to emulated device memory");
}

TEST_F(Streams, EnqueuedWorkMayTouchDeviceMemory) {
  int* const value = to_device<int>({4});
  const cudaStream_t stream = new_stream();
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  MEZZO_OK(emulated_cuda::enqueue(stream, [value] { *value *= 2; }));
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  MEZZO_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(to_host(value, 1)[0], 11);
}

TEST_F(Streams, AFailureOnTheDeviceStays) {
  int* const value = to_device<int>({0});
  const cudaStream_t stream = new_stream();
  MEZZO_OK(emulated_cuda::enqueue_failure(stream, cudaErrorIllegalAddress));
  MEZZO_OK(launch({1, 1, 0, stream}, add_value, value, 1));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(value), cudaErrorIllegalAddress);
  EXPECT_EQ(emulated_cuda::counts().launches, 0U) << "what comes after the failure does not run";
  emulated_cuda::reset();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  MEZZO_OK(cudaDeviceSynchronize());
}

__global__ void add_after_barriers(int* to) {
  for (int i = 0; i < 4; ++i) __syncthreads();
  atomicAdd(to, 1);
}

TEST_F(Streams, SeveralHostThreads) {
  constexpr int kThreads = 3, kRounds = 50;
  int* const values = to_device<int>({0, 0, 0});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([to = values + t] {
      const cudaStream_t stream = new_stream();
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_EQ(launch({2, 40, 0, stream}, add_after_barriers, to), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(to_host(values, 3), std::vector<int>(3, kRounds * 80));
}

TEST_F(Streams, HandlesOfNothingAreRefused) {
  int dummy = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&dummy);
  const auto event = reinterpret_cast<cudaEvent_t>(&dummy);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch({1, 1, 0, stream}, add_value, &dummy, 1), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace emulated_test
