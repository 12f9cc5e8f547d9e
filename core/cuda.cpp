// The part of mezzo::cuda that every build has: whether CUDA can be used, why not, and the TF32 and
// benchmark switches. Without CUDA also stand-ins for streams and events; making a stream throws.
#include "mezzo/core/cuda.h"

#include <atomic>
#include <utility>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::cuda {

namespace {

std::atomic<bool> tf32_is_allowed{false}, benchmark_is_on{false};

}  // namespace

bool allow_tf32() { return tf32_is_allowed.load(std::memory_order_relaxed); }
void set_allow_tf32(bool allow) { tf32_is_allowed.store(allow, std::memory_order_relaxed); }
bool benchmark() { return benchmark_is_on.load(std::memory_order_relaxed); }
void set_benchmark(bool on) { benchmark_is_on.store(on, std::memory_order_relaxed); }

int device_count() {
  const Backend* const cuda = find_backend(DeviceType::cuda);
  return cuda == nullptr ? 0 : cuda->device_count();
}

bool is_available() { return device_count() > 0; }

std::string why_unavailable() {
  const Backend* const cuda = find_backend(DeviceType::cuda);
  if (cuda == nullptr)
    return "CUDA is not used: mezzo was built without it (configure with -DMEZZO_CUDA=ON where a CUDA "
           "toolkit is); running on the CPU";
  return cuda->device_count() > 0 ? std::string() : cuda->description();
}

std::string memory_summary(Device device) {
  if (DeviceAllocator* const own = mezzo::detail::device_allocator(device)) return own->summary();
  const MemoryStats stats = memory_stats(device);
  return to_string(device) + ": " + std::to_string(stats.current) + " bytes in use (peak " +
         std::to_string(stats.peak) + "), " + std::to_string(stats.reserved) + " reserved\n";
}

// In a build with CUDA all of the following is in core/cuda/.
#if !defined(MEZZO_HAVE_CUDA)

namespace {

[[noreturn]] void refuse(Device device) {
  static_cast<void>(backend(device.is_cuda() ? device : Device::cuda(0)));  // throws: there is none
  throw DeviceError("cuda", "a build with CUDA", "one without", "configure with -DMEZZO_CUDA=ON");
}

}  // namespace

// Without CUDA no Stream can exist, so the members that need one are never reached.
Stream::Stream(Device device, Priority /*priority*/) : device_(device), id_(0) { refuse(device); }
Stream::~Stream() = default;
void Stream::synchronize() const {}
bool Stream::query() const { return true; }
bool Stream::is_capturing() const { return false; }
const Stream& current_stream(Device device) { refuse(device); }
const Stream& current_stream(int index) { refuse(Device::cuda(index)); }
StreamGuard::StreamGuard(const Stream& /*stream*/) : scope_(nullptr) {}
StreamGuard::~StreamGuard() = default;

Event::~Event() = default;
Event::Event(Event&& other) noexcept : timing_(other.timing_) {}
Event& Event::operator=(Event&& other) noexcept {
  timing_ = other.timing_;
  return *this;
}
void Event::record(const Stream& stream) { refuse(stream.device()); }
void Event::wait(const Stream& /*stream*/) const {}
void Event::synchronize() const {}
bool Event::query() const { return true; }
float Event::elapsed_ms(const Event& /*start*/) const { refuse(Device::cuda(0)); }
void record_stream(const Tensor& /*tensor*/, const Stream& /*stream*/) {}

#endif

}  // namespace mezzo::cuda
