// Copies and fills.
#include "copies.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "capture.h"
#include "runtime.h"

namespace emulated_cuda {

void fail_operation(const char* message) {
  std::fprintf(stderr, "emulated CUDA: %s\n", message);
  std::abort();
}

namespace {

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  int to_device, from_device;  ///< -1 for the host
};

bool live(int device, const void* pointer, std::size_t bytes) {
  return device < 0 || runtime().devices[static_cast<std::size_t>(device)]->owns(pointer, bytes);
}

/// cudaSuccess if `kind` fits the pointers and device memory is allocated.
cudaError_t check_copy(const Copy& copy, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault) {
    if (to_device != (copy.to_device >= 0) || from_device != (copy.from_device >= 0)) {
      return cudaErrorInvalidValue;
    }
  }
  const bool both =
      live(copy.to_device, copy.to, copy.bytes) && live(copy.from_device, copy.from, copy.bytes);
  return both ? cudaSuccess : cudaErrorInvalidValue;
}

void run_copy(const Copy& copy) {
  if (!live(copy.to_device, copy.to, copy.bytes) || !live(copy.from_device, copy.from, copy.bytes)) {
    fail_operation("cudaMemcpyAsync: the device memory was freed before the copy's turn");
  }
  std::memmove(copy.to, copy.from, copy.bytes);
}

/// The device beside `device` whose memory a copy touches; -1 for none, -2 for more than one.
int peer_of(const Copy& copy, int device) {
  int peer = -1;
  for (const int other : {copy.to_device, copy.from_device}) {
    if (other < 0 || other == device || other == peer) continue;
    peer = peer == -1 ? other : -2;
  }
  return peer;
}

TaskPtr make_task(const Copy& copy, bool staged, int peer) {
  auto task = std::make_shared<Task>();
  task->peer = peer;
  if (!staged) {
    task->run = [copy] { run_copy(copy); };
    return task;
  }
  const auto* const bytes = static_cast<const std::byte*>(copy.from);
  auto kept = std::make_shared<std::vector<std::byte>>(bytes, bytes + copy.bytes);
  task->run = [copy, kept] {
    Copy from_kept = copy;
    from_kept.from = kept->data();
    run_copy(from_kept);
  };
  return task;
}

/// Copies between the host's pageable memory and a device are staged: the source is read at the call, and a
/// copy to the host is waited for. In a capture the addresses are kept, as in CUDA.
cudaError_t copy_async(const Copy& copy, cudaStream_t stream) {
  const int peer = peer_of(copy, stream->device);
  if (peer == -2) return cudaErrorNotSupported;
  const bool capturing = stream->capture != nullptr;
  const bool staged = !capturing && copy.from_device < 0 && !is_pinned(copy.from, copy.bytes);
  const bool waits = !capturing && copy.to_device < 0 && !is_pinned(copy.to, copy.bytes);
  const cudaError_t error = submit(stream, make_task(copy, staged, peer));
  if (error == cudaSuccess && waits) run_stream(stream);
  return error;
}

}  // namespace
}  // namespace emulated_cuda

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
    if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
    const cudaStream_t stream = find_stream(nullptr);
    const Copy copy{to, from, bytes, device_of(to), device_of(from)};
    if (bytes == 0) return cudaSuccess;
    cudaError_t error = check_copy(copy, kind);
    if (error == cudaSuccess) error = copy_async(copy, stream);
    // A copy within devices is only ordered, as in CUDA.
    if (error == cudaSuccess && (copy.to_device < 0 || copy.from_device < 0)) run_stream(stream);
    return error;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    const Copy copy{to, from, bytes, device_of(to), device_of(from)};
    const cudaError_t error = check_copy(copy, kind);
    return error == cudaSuccess ? copy_async(copy, target) : error;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    const int device = device_of(to);
    if (device < 0 || !live(device, to, bytes)) return cudaErrorInvalidValue;
    auto work = [to, value, bytes, device] {
      if (!live(device, to, bytes)) {
        fail_operation("cudaMemsetAsync: the device memory was freed before its turn");
      }
      std::memset(to, value, bytes);
    };
    auto task = std::make_shared<Task>(Task{work});
    task->peer = device == target->device ? -1 : device;
    return submit(target, std::move(task));
  });
}
