// Streams, events and graphs of a build without CUDA, in the place of core/cuda/: making one throws.
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/stream_mark.h"

namespace mezzo::cuda {

namespace {

[[noreturn]] void refuse(Device device) {
  static_cast<void>(backend(device.is_cuda() ? device : Device::cuda(0)));  // throws: there is none
  throw DeviceError("cuda", "a build with CUDA", "one without", "configure with -DMEZZO_CUDA=ON");
}

}  // namespace

// Without CUDA no Stream and no Graph can exist, so the members that need one are never reached.
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

struct Graph::State {};
Graph::Graph(Device device, const std::function<void()>& /*work*/) { refuse(device); }
Graph::~Graph() = default;
void Graph::replay() {}

}  // namespace mezzo::cuda

mezzo::Ref<mezzo::detail::StreamMark> mezzo::detail::StreamMark::of_default_stream(Device /*device*/) {
  return {};
}
