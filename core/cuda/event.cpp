// Events: marks in the order of streams.
#include <utility>

#include "mezzo/core/activity.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"

namespace mezzo::cuda {

// A thread that has selected no device would make a context on the first by asking about another's event.

Event::~Event() {
  if (handle_ == nullptr) return;
  const DeviceGuard guard(index_, std::nothrow);
  static_cast<void>(cudaEventDestroy(native(*this)));
}

Event::Event(Event&& other) noexcept
    : timing_(other.timing_),
      index_(std::exchange(other.index_, -1)),
      handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(timing_, other.timing_);
  std::swap(index_, other.index_);
  std::swap(handle_, other.handle_);
  return *this;
}

void Event::record(const Stream& stream) {
  const int index = stream.device().index;
  const DeviceGuard guard(index);
  if (handle_ == nullptr) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timing_ == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    handle_ = event;
    index_ = index;
  }
  if (index != index_) {
    throw ValueError("Event::record", "a stream of " + to_string(Device::cuda(index_)),
                     "one of " + to_string(stream.device()), "use one event per device");
  }
  check(cudaEventRecord(native(*this), native(stream)), "cudaEventRecord");
}

void Event::wait(const Stream& stream) const {
  if (handle_ == nullptr) return;
  const DeviceGuard guard(stream.device().index);
  check(cudaStreamWaitEvent(native(stream), native(*this), 0), "cudaStreamWaitEvent");
}

void Event::synchronize() const {
  if (handle_ == nullptr) return;
  const Activity wait(ActivityKind::host_wait, "Event.synchronize");
  const DeviceGuard guard(index_);
  check(cudaEventSynchronize(native(*this)), "cudaEventSynchronize");
}

bool Event::query() const {
  if (handle_ == nullptr) return true;
  const DeviceGuard guard(index_);
  const cudaError_t status = cudaEventQuery(native(*this));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

float Event::elapsed_ms(const Event& start) const {
  if (handle_ == nullptr || start.handle_ == nullptr || timing_ == Timing::off ||
      start.timing_ == Timing::off) {
    throw StateError("Event::elapsed_ms", "two recorded events with Timing::on", "one that is not",
                     "make both with Event(Timing::on) and record them");
  }
  const DeviceGuard guard(index_);
  float milliseconds = 0.0F;
  const cudaError_t status = cudaEventElapsedTime(&milliseconds, native(start), native(*this));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    throw StateError("Event::elapsed_ms", "two events that were reached", "one that was not",
                     "synchronize() the later one first");
  }
  check(status, "cudaEventElapsedTime");
  return milliseconds;
}

}  // namespace mezzo::cuda
