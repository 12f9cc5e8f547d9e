// Stream capture and graphs of the emulated device.
#include <thread>

#include "emulated/support.h"

namespace emulated_test {
namespace {

class Captures : public Emulated {
 protected:
  void SetUp() override {
    Emulated::SetUp();
    stream_ = new_stream();
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  /// Ends the capture, and gives its graph ready to launch.
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
  cudaError_t end_result() {
    cudaGraph_t graph = nullptr;
    const cudaError_t result = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(graph == nullptr, result != cudaSuccess);
    return result;
  }
  cudaStream_t stream_ = nullptr;
};

TEST_F(Captures, ReplaysWithTheRecordedArguments) {
  int* const value = to_device<int>({1});
  begin();
  int step = 3;
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, value, step));
  step = 100;
  MEZZO_OK(launch({1, 1, 0, stream_}, multiply_value, value, 2));
  MEZZO_OK(emulated_cuda::enqueue(stream_, [value] { *value += 1; }));
  const cudaGraphExec_t graph = end();
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(value, 1)[0], 1) << "capturing does not run";
  MEZZO_OK(cudaGraphLaunch(graph, stream_));
  MEZZO_OK(cudaGraphLaunch(graph, stream_));
  EXPECT_EQ(to_host(value, 1)[0], 1) << "launching queues";
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(value, 1)[0], ((1 + 3) * 2 + 1 + 3) * 2 + 1);
  MEZZO_OK(cudaGraphExecDestroy(graph));
  EXPECT_EQ(cudaGraphLaunch(graph, stream_), cudaErrorInvalidValue);
}

TEST_F(Captures, CopiesAndFillsReadTheirSourcesAtEachLaunch) {
  int* const value = to_device<int>({0});
  int host = 1;
  begin();
  MEZZO_OK(cudaMemcpyAsync(value, &host, sizeof(int), cudaMemcpyHostToDevice, stream_));
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, value, 1));
  int* const second = value;
  int back = 0;
  MEZZO_OK(cudaMemcpyAsync(&back, second, sizeof(int), cudaMemcpyDeviceToHost, stream_));
  const cudaGraphExec_t graph = end();
  for (host = 10; host < 12; ++host) {
    MEZZO_OK(cudaGraphLaunch(graph, stream_));
    MEZZO_OK(cudaStreamSynchronize(stream_));
    EXPECT_EQ(back, host + 1);
  }
}

TEST_F(Captures, LoadingAKernelIsForbiddenUnlessTheThreadIsRelaxed) {
  int* const value = to_device<int>({0});
  emulated_cuda::load_kernels_at_first_launch(true);
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(launch({1, 1, 0, stream_}, add_value, value, 1), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end_result(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeThreadLocal);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  MEZZO_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, value, 1));
  MEZZO_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, value, 1));
  MEZZO_OK(cudaGraphLaunch(end(), stream_));
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(value, 1)[0], 2);
}

/// A second stream that is forked from the capture by one event and joined to it by another.
TEST_F(Captures, ForkAndJoin) {
  int* const values = to_device<int>({1, 0});
  const cudaStream_t side = new_stream();
  const cudaEvent_t fork = new_event(), join = new_event();
  begin();
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, values, 1));
  MEZZO_OK(cudaEventRecord(fork, stream_));
  MEZZO_OK(cudaStreamWaitEvent(side, fork));
  cudaStreamCaptureStatus status{};
  MEZZO_OK(cudaStreamIsCapturing(side, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  MEZZO_OK(launch({1, 1, 0, side}, copy_value, values + 1, values));
  MEZZO_OK(cudaEventRecord(join, side));
  MEZZO_OK(cudaStreamWaitEvent(stream_, join));
  MEZZO_OK(launch({1, 1, 0, stream_}, multiply_value, values + 1, 10));
  const cudaGraphExec_t graph = end();
  MEZZO_OK(cudaStreamIsCapturing(side, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  MEZZO_OK(cudaGraphLaunch(graph, stream_));
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(values, 2), (std::vector<int>{2, 20}));
  EXPECT_EQ(cudaEventQuery(join), cudaErrorCapturedEvent);
}

/// Branches that only the join puts in order run the later one first.
TEST_F(Captures, UnorderedBranchesAreNotInOrderOfSubmission) {
  int* const value = to_device<int>({1});
  const cudaStream_t side = new_stream();
  const cudaEvent_t fork = new_event(), join = new_event();
  begin();
  MEZZO_OK(cudaEventRecord(fork, stream_));
  MEZZO_OK(cudaStreamWaitEvent(side, fork));
  MEZZO_OK(launch({1, 1, 0, stream_}, add_value, value, 1));
  MEZZO_OK(launch({1, 1, 0, side}, multiply_value, value, 10));
  MEZZO_OK(cudaEventRecord(join, side));
  MEZZO_OK(cudaStreamWaitEvent(stream_, join));
  const cudaGraphExec_t graph = end();
  MEZZO_OK(cudaGraphLaunch(graph, stream_));
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(value, 1)[0], 11) << "10 times, then plus 1";
}

TEST_F(Captures, AnUnjoinedBranchIsAnError) {
  const cudaStream_t side = new_stream();
  const cudaEvent_t fork = new_event();
  int* const value = to_device<int>({1});
  begin();
  MEZZO_OK(cudaEventRecord(fork, stream_));
  MEZZO_OK(cudaStreamWaitEvent(side, fork));
  MEZZO_OK(launch({1, 1, 0, side}, add_value, value, 1));
  EXPECT_EQ(end_result(), cudaErrorStreamCaptureUnjoined);
  MEZZO_OK(launch({1, 1, 0, side}, add_value, value, 5));
  MEZZO_OK(cudaStreamSynchronize(side));
  EXPECT_EQ(to_host(value, 1)[0], 6) << "both streams are out of the capture";
}

TEST_F(Captures, ForbiddenCallsInvalidate) {
  int* const value = to_device<int>({1});
  const cudaEvent_t before = new_event(), during = new_event();
  MEZZO_OK(cudaEventRecord(before, stream_));
  int host = 0;
  void* memory = nullptr;
  const auto expect = [&](cudaError_t result, auto&& forbidden) {
    begin();
    MEZZO_OK(cudaEventRecord(during, stream_));
    EXPECT_EQ(forbidden(), result);
    EXPECT_EQ(launch({1, 1, 0, stream_}, add_value, value, 1), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(end_result(), cudaErrorStreamCaptureInvalidated);
  };
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(stream_); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(stream_); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&memory, 8); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(value); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaEventQuery(before); });
  expect(cudaErrorStreamCaptureUnsupported,
         [&] { return cudaMemcpy(&host, value, sizeof(int), cudaMemcpyDeviceToHost); });
  expect(cudaErrorCapturedEvent, [&] { return cudaEventSynchronize(during); });
  expect(cudaErrorCapturedEvent, [&] { return cudaEventQuery(during); });
  expect(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(stream_, before); });
  MEZZO_OK(cudaDeviceSynchronize());
  EXPECT_EQ(to_host(value, 1)[0], 1) << "nothing of it ran";
}

TEST_F(Captures, RelaxedModeAllowsAllocation) {
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  MEZZO_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  int* const memory = device_array<int>(1);
  MEZZO_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  MEZZO_OK(launch({1, 1, 0, stream_}, store_value, memory, 6));
  const cudaGraphExec_t graph = end();
  MEZZO_OK(cudaGraphLaunch(graph, stream_));
  MEZZO_OK(cudaStreamSynchronize(stream_));
  EXPECT_EQ(to_host(memory, 1)[0], 6);
}

TEST_F(Captures, ModesDecideWhatOtherThreadsMay) {
  const auto malloc_elsewhere = [] {
    cudaError_t result = cudaSuccess;
    std::thread([&result] {
      void* memory = nullptr;
      result = cudaMalloc(&memory, 8);
    }).join();
    return result;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(malloc_elsewhere(), cudaSuccess);
  EXPECT_EQ(end_result(), cudaSuccess);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(malloc_elsewhere(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end_result(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(end_result(), cudaSuccess);
}

TEST_F(Captures, TheDefaultStreamAndABlockingStream) {
  cudaStream_t blocking = nullptr;
  MEZZO_OK(cudaStreamCreate(&blocking));
  int* const value = to_device<int>({1});
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  MEZZO_OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(launch({1, 1}, add_value, value, 1), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  MEZZO_OK(launch({1, 1}, add_value, value, 1));
}

TEST_F(Captures, InfoIsTold) {
  cudaStreamCaptureStatus status{};
  unsigned long long first = 0, second = 0;
  MEZZO_OK(cudaStreamGetCaptureInfo(stream_, &status, &first));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  begin();
  MEZZO_OK(launch({1, 1, 0, stream_}, store_value, nullptr, 1));
  cudaGraph_t graph = nullptr;
  MEZZO_OK(cudaStreamGetCaptureInfo(stream_, &status, &first, &graph));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(graph, nullptr);
  std::size_t nodes = 0;
  MEZZO_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1U);
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  MEZZO_OK(cudaStreamEndCapture(stream_, &graph));
  nodes = 0;
  MEZZO_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1U);
  begin();
  MEZZO_OK(cudaStreamGetCaptureInfo(stream_, &status, &second));
  EXPECT_NE(first, second);
  EXPECT_EQ(end_result(), cudaSuccess);
  EXPECT_EQ(end_result(), cudaErrorIllegalState);
}

}  // namespace
}  // namespace emulated_test
