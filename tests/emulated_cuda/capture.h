// Captures: work of some streams that is kept in a graph and not run, and what is forbidden meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "graph.h"
#include "streams.h"

namespace emulated_cuda {

struct Capture {
  std::uint64_t id;
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  std::shared_ptr<CUgraph_st> graph;
  bool invalid = false;  ///< something forbidden happened: only ending it is left
  bool ended = false;
};

/// Adds a node to the stream's capture.
cudaError_t capture_task(CUstream_st& stream, TaskPtr task);
/// Whether a capture that goes on makes this graph.
bool is_captured(cudaGraph_t graph);
/// Ends a capture for all its streams.
void end_capture(Capture& capture);
/// The default stream must not be used while a stream that takes turns with it captures.
cudaError_t check_implicit(cudaStream_t stream);
/// For calls that may wait for a device in ways that no capture sees, as cudaMalloc: an error if the mode of
/// this thread forbids them now; captures that it would disturb become invalid.
cudaError_t forbid_unsafe();
/// For calls that wait for `stream`: an error if it captures; the capture becomes invalid.
cudaError_t forbid_capturing(const CUstream_st& stream);
/// For calls that ask an event: an error if it was last recorded in a capture.
cudaError_t forbid_captured(const CUevent_st& event);
/// `stream` shall wait for an event of a capture, or captures itself: joins and edges instead of waiting.
cudaError_t capture_wait(CUstream_st& stream, const CUevent_st& event);

}  // namespace emulated_cuda
