// Streams over their CUDA handles, the current one of each thread and device, and what a capture
// forbids.
#include "mezzo/core/cuda/stream.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/allocator_events.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/tickets.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/scope_list.h"
#include "mezzo/core/memory/stream_mark.h"
#include "mezzo/core/tensor.h"

namespace mezzo::cuda {

namespace {

// CUDA takes the smallest number as the most urgent and clamps what is beyond its range.
constexpr int kMostUrgent = -100;

// Whether this process is a child that was forked after the library was loaded, without an exec since. CUDA
// cannot be used in it when the parent has used it: the driver's state is the parent's.
std::atomic<bool> forked{false};
[[maybe_unused]] const int fork_noted = pthread_atfork(nullptr, nullptr, [] { forked = true; });

std::atomic<std::uint64_t> streams_made{0};
constinit thread_local mezzo::detail::ScopeList<const Stream*> current_streams;

void* make_stream(Device device, Priority priority) {
  const DeviceGuard guard(device.index);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == Priority::high ? kMostUrgent : 0),
        "cudaStreamCreateWithPriority");
  return stream;
}

Device required(Device device) {
  if (!device.is_cuda())
    throw DeviceError("Stream", "a CUDA device", to_string(device), "the CPU has no streams");
  static_cast<void>(backend(device));  // throws when it is not there
  return device;
}

}  // namespace

Stream::Stream(Device device, Priority priority)
    : device_(required(device)), id_(++streams_made), handle_(make_stream(device, priority)) {}

Stream::Stream(Device device, Default /*tag*/)
    : device_(required(device)), id_(0), handle_(make_stream(device, Priority::normal)) {}

Stream::~Stream() {
  // A destructor cannot throw errors of work that ran in the stream; the next check reports them.
  const DeviceGuard guard(device_.index, std::nothrow);
  const RelaxedCapture relaxed;
  static_cast<void>(cudaStreamSynchronize(native(*this)));
  stream_gone(device_.index, *this);
  free_tickets(*this);
  static_cast<void>(cudaStreamDestroy(native(*this)));
}

void Stream::synchronize() const {
  refuse_in_capture(*this, "waiting for a stream");
  const Activity wait(ActivityKind::host_wait, "Stream.synchronize");
  const DeviceGuard guard(device_.index);
  check(cudaStreamSynchronize(native(*this)), "cudaStreamSynchronize");
}

bool Stream::query() const {
  refuse_in_capture(*this, "asking whether a stream is done");
  const DeviceGuard guard(device_.index);
  const cudaError_t status = cudaStreamQuery(native(*this));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, "cudaStreamQuery");
  return true;
}

bool Stream::is_capturing() const {
  const DeviceGuard guard(device_.index);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(native(*this), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

namespace {

std::atomic<pid_t> process_of_streams{0};  // which made the first one

// CUDA's driver does not survive a fork().
void refuse_driver_of_parent() {
  const pid_t process = process_of_streams.load(std::memory_order_relaxed);
  if (process == 0 || process == getpid()) return;
  throw StateError("CUDA", "the process that used the GPU first", "a child of its fork()",
                   "start processes by exec, as posix_spawn does, or fork before the GPU is used");
}

}  // namespace

const Stream& default_stream(int index) {
  // Never destroyed: tensors in static objects are freed on these streams after everything else.
  static auto* const streams = new std::array<std::atomic<const Stream*>, kMaxDevices>{};
  static auto* const mutex = new std::mutex;
  if (index < 0 || index >= kMaxDevices) required(Device::cuda(index));  // throws
  std::atomic<const Stream*>& slot = (*streams)[static_cast<std::size_t>(index)];
  if (const Stream* const made = slot.load(std::memory_order_acquire)) return *made;
  const std::scoped_lock lock(*mutex);
  if (slot.load(std::memory_order_relaxed) == nullptr) {
    process_of_streams = getpid();
    slot.store(new Stream(Device::cuda(index), Stream::Default{}), std::memory_order_release);
  }
  return *slot.load(std::memory_order_relaxed);
}

const Stream& current_stream(int index) {
  if (forked.load(std::memory_order_relaxed)) refuse_driver_of_parent();
  const auto* scope = current_streams.newest();
  while (scope != nullptr && scope->value->device().index != index) scope = scope->older;
  if (scope != nullptr) return *scope->value;
  return default_stream(index);
}

const Stream& current_stream(Device device) {
  if (!device.is_cuda()) required(device);  // throws
  return current_stream(device.index);
}

StreamGuard::StreamGuard(const Stream& stream) : scope_(current_streams.begin(&stream)) {}
StreamGuard::~StreamGuard() { current_streams.end(scope_); }

void record_stream(const Tensor& tensor, const Stream& stream) {
  const Storage& storage = *tensor.impl().storage;
  if (!storage.device().is_cuda()) return;
  record_memory_use(storage.device().index, storage.data(), stream);
}

void refuse_in_capture(const Stream& stream, std::string_view what) {
  if (!stream.is_capturing()) [[likely]]
    return;
  const std::string_view op = mezzo::detail::current_op;
  throw StateError(op.empty() ? std::string_view("cuda") : op,
                   "work that can be captured on " + to_string(stream.device()), what,
                   "do this before or after the captured step; values can be read when it has run");
}

}  // namespace mezzo::cuda

namespace mezzo::detail {

Ref<StreamMark> StreamMark::of_default_stream(Device device) {
  return make_ref<StreamMark>(cuda::default_stream(device.index));
}

}  // namespace mezzo::detail
