// The runtime's functions for events.
#include <algorithm>
#include <chrono>

#include "capture.h"
#include "runtime.h"

namespace emulated_cuda {

bool is_event(cudaEvent_t handle) {
  const auto& all = runtime().events;
  return std::any_of(all.begin(), all.end(), [&](const auto& event) { return event.get() == handle; });
}

}  // namespace emulated_cuda

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
      return cudaErrorInvalidValue;
    }
    auto& all = runtime().events;
    all.push_back(std::make_unique<CUevent_st>(CUevent_st{current_device(), flags}));
    *event = all.back().get();
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] {
    const auto count = std::erase_if(runtime().events, [&](const auto& e) { return e.get() == event; });
    return count == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr || !is_event(event) || event->device != target->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (const cudaError_t error = check_implicit(target); error != cudaSuccess) return error;
    event->marker.reset();
    event->capture = target->capture;
    event->frontier = target->frontier;
    if (target->capture != nullptr) {
      return target->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    }
    event->marker = std::make_shared<Marker>(Marker{target});
    push(target, {0, nullptr, event->marker, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    if (!is_event(event)) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = forbid_captured(*event); error != cudaSuccess) return error;
    if (const auto marker = event->marker; marker != nullptr) run_until(marker, Patience::waits);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    if (!is_event(event)) return cudaErrorInvalidResourceHandle;
    cudaError_t error = forbid_captured(*event);
    if (error == cudaSuccess) error = forbid_unsafe();
    if (error != cudaSuccess || event->marker == nullptr || event->marker->done) return error;
    run_one(event->marker->stream, Patience::none);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    if (!is_event(start) || !is_event(end)) return cudaErrorInvalidResourceHandle;
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (const cudaEvent_t event : {start, end}) {
      if ((event->flags & cudaEventDisableTiming) != 0) return cudaErrorInvalidResourceHandle;
      if (const cudaError_t error = forbid_captured(*event); error != cudaSuccess) return error;
      if (event->marker == nullptr) return cudaErrorInvalidResourceHandle;
      if (!event->marker->done) return cudaErrorNotReady;
    }
    const std::chrono::duration<float, std::milli> time = end->marker->when - start->marker->when;
    *milliseconds = time.count();
    return cudaSuccess;
  });
}
