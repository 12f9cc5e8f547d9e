// The runtime's functions for streams.
#include "capture.h"
#include "runtime.h"

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return call([&] {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto& all = runtime().streams;
    all.push_back(std::make_unique<CUstream_st>(CUstream_st{current_device(), flags}));
    *stream = all.back().get();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr || target->is_default) return cudaErrorInvalidResourceHandle;
    if (target->capture != nullptr) {
      target->capture->invalid = true;
      // No stream is left to end it in.
      if (target->capture->origin == target) end_capture(*target->capture);
    }
    target->destroyed = true;
    drop_destroyed();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    cudaError_t error = check_implicit(target);
    if (error == cudaSuccess) error = forbid_capturing(*target);
    if (error == cudaSuccess) run_stream(target);
    return error;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    cudaError_t error = check_implicit(target);
    if (error == cudaSuccess) error = forbid_capturing(*target);
    if (error != cudaSuccess || target->queue.empty()) return error;
    run_one(target, Patience::none);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr || !is_event(event)) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorNotSupported;
    if (target->capture != nullptr || event->capture != nullptr) return capture_wait(*target, *event);
    if (event->marker == nullptr || event->marker->done) return cudaSuccess;
    push(target, {0, nullptr, nullptr, event->marker});
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    if (function == nullptr) return cudaErrorInvalidValue;
    auto task = std::make_shared<Task>(Task{[function, user_data] { function(user_data); }, true});
    return submit(target, std::move(task));
  });
}
