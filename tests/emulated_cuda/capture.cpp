// Captures: begin, end, joins, and what is forbidden meanwhile.
#include "capture.h"

#include <algorithm>

#include "runtime.h"

namespace emulated_cuda {
namespace {

cudaStreamCaptureMode& thread_mode() {
  static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

void merge(std::vector<std::size_t>& into, const std::vector<std::size_t>& nodes) {
  for (const std::size_t node : nodes) {
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
  }
}

/// Whether every node comes before (or is) one of `frontier`.
bool all_joined(const CUgraph_st& graph, const std::vector<std::size_t>& frontier) {
  std::vector<bool> reached(graph.nodes.size());
  for (const std::size_t node : frontier) reached[node] = true;
  // Nodes come after those that they depend on, so one pass from the end is enough.
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (const std::size_t node : graph.nodes[i].before) reached[node] = true;
  }
  return true;
}

/// Whether each stream of the capture has been joined to its origin.
bool joined(const Capture& capture) { return all_joined(*capture.graph, capture.origin->frontier); }

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace

bool is_captured(cudaGraph_t graph) {
  const auto& open = runtime().open_captures;
  return std::any_of(open.begin(), open.end(), [&](const auto& weak) {
    const auto capture = weak.lock();
    return capture != nullptr && !capture->ended && capture->graph.get() == graph;
  });
}

void end_capture(Capture& capture) {
  capture.ended = true;
  for (const auto& stream : runtime().streams) {
    if (stream->capture.get() != &capture) continue;
    stream->frontier.clear();
    stream->capture.reset();
  }
}

cudaError_t capture_task(CUstream_st& stream, TaskPtr task) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(task), stream.frontier});
  stream.frontier = {nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t check_implicit(cudaStream_t stream) {
  if (!stream->is_default) return cudaSuccess;
  cudaError_t result = cudaSuccess;
  for (const auto& other : runtime().streams) {
    if (other->device != stream->device || other->capture == nullptr) continue;
    if ((other->flags & cudaStreamNonBlocking) != 0) continue;
    other->capture->invalid = true;
    result = cudaErrorStreamCaptureImplicit;
  }
  return result;
}

cudaError_t forbid_unsafe() {
  const cudaStreamCaptureMode mode = thread_mode();
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t result = cudaSuccess;
  for (const auto& weak : runtime().open_captures) {
    const auto capture = weak.lock();
    if (capture == nullptr || capture->ended) continue;
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = own ? capture->mode != cudaStreamCaptureModeRelaxed
                             : mode == cudaStreamCaptureModeGlobal && capture->mode == mode;
    if (!forbids) continue;
    capture->invalid = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t forbid_capturing(const CUstream_st& stream) {
  if (stream.capture == nullptr) return cudaSuccess;
  stream.capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t forbid_captured(const CUevent_st& event) {
  if (event.capture == nullptr) return cudaSuccess;
  event.capture->invalid = true;
  return cudaErrorCapturedEvent;
}

cudaError_t capture_wait(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture == nullptr) {
    if (event.marker == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
    stream.capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.is_default) {
    event.capture->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream.capture == nullptr) stream.capture = event.capture;
  if (stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  merge(stream.frontier, event.frontier);
  return cudaSuccess;
}

}  // namespace emulated_cuda

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&] {
    const cudaStream_t origin = find_stream(stream);
    if (origin == nullptr) return cudaErrorInvalidResourceHandle;
    if (origin->is_default) return cudaErrorStreamCaptureUnsupported;
    if (origin->capture != nullptr) return cudaErrorIllegalState;
    Runtime& state = runtime();
    origin->capture = std::make_shared<Capture>(
        Capture{++state.captures, origin, mode, std::this_thread::get_id(), std::make_shared<CUgraph_st>()});
    origin->frontier.clear();
    std::erase_if(state.open_captures, [](const auto& weak) { return weak.expired(); });
    state.open_captures.push_back(origin->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&] {
    const cudaStream_t origin = find_stream(stream);
    if (origin == nullptr) return cudaErrorInvalidResourceHandle;
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    const auto capture = origin->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != origin) return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    cudaError_t result = cudaSuccess;
    if (capture->invalid) {
      result = cudaErrorStreamCaptureInvalidated;
    } else if (!joined(*capture)) {
      result = cudaErrorStreamCaptureUnjoined;
    }
    end_capture(*capture);
    if (result != cudaSuccess) return result;
    *graph = capture->graph.get();
    runtime().graphs.emplace(*graph, capture->graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     std::size_t* dependency_count) {
  return call([&] {
    const cudaStream_t asked = find_stream(stream);
    if (asked == nullptr) return cudaErrorInvalidResourceHandle;
    if (status == nullptr) return cudaErrorInvalidValue;
    if (dependencies != nullptr || edges != nullptr || dependency_count != nullptr) {
      return cudaErrorNotSupported;
    }
    if (const cudaError_t error = check_implicit(asked); error != cudaSuccess) return error;
    *status = status_of(*asked);
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = asked->capture->id;
    if (graph != nullptr) *graph = asked->capture->graph.get();
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call<false>([&] {
    if (mode == nullptr) return cudaErrorInvalidValue;
    std::swap(*mode, thread_mode());
    return cudaSuccess;
  });
}
