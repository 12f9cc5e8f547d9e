// Collectives on a CUDA device: in a stream of their own, behind the work that makes what they read.
#include <map>
#include <memory>
#include <mutex>

#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/dist/detail/group_state.h"

namespace mezzo::dist {

namespace {

class StreamWork final : public WorkState {
 public:
  explicit StreamWork(Device device) : device_(device) {}
  void record(const cuda::Stream& stream) {
    is_captured_ = stream.is_capturing();
    done_.record(stream);
  }
  void wait() override {
    const cuda::Stream& stream = cuda::current_stream(device_);
    // CUDA would spoil the capture.
    if (stream.is_capturing() != is_captured_) {
      throw StateError("Work.wait",
                       is_captured_ ? "a wait in the capture that the collective is part of"
                                    : "a collective of this capture",
                       is_captured_ ? "one outside of it" : "one from before it",
                       "wait for collectives where they were begun: before the capture, or in it");
    }
    done_.wait(stream);
  }
  bool is_completed() override {
    if (is_captured_) {
      throw StateError("Work.is_completed", "a collective that runs", "one that was recorded",
                       "use wait() in the captured step");
    }
    return done_.query();
  }

 private:
  Device device_;
  bool is_captured_ = false;
  cuda::Event done_;
};

/// All groups of a device share one, as two collectives of NCCL at once could wait for each other.
const cuda::Stream& communication_stream(Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<int, std::unique_ptr<cuda::Stream>>();  // never destroyed
  const std::scoped_lock lock(mutex);
  auto& stream = streams[device.index];
  if (stream == nullptr) stream = std::make_unique<cuda::Stream>(device, cuda::Priority::high);
  return *stream;
}

/// Replays of a graph with collectives, and the collectives begun before and after them: one after the other,
/// as ranks that began those of two groups in different orders would wait for each other for ever.
class ReplayInOrder final : public mezzo::detail::ReplayedState {
 public:
  explicit ReplayInOrder(Device device) : device_(device) {}
  void recorded() override {}
  void before_replay() override { put_behind(communication_stream(device_), cuda::current_stream(device_)); }
  void after_replay() noexcept override {
    try {
      put_behind(cuda::current_stream(device_), communication_stream(device_));
    } catch (const Error&) {
      return;  // the device has failed: the next call for it says so
    }
  }

 private:
  static void put_behind(const cuda::Stream& first, const cuda::Stream& then) {
    cuda::Event event;
    event.record(first);
    event.wait(then);
  }

  Device device_;
};
constexpr char kOrderKey = 0;  // its address is the key of ReplayInOrder in a Recording

}  // namespace

Work start_on_device(Transport& transport, const std::vector<Tensor>& keep,
                     const mezzo::detail::Function<void(Transport&)>& job) {
  const Device device = transport.device();
  const cuda::Stream& stream = communication_stream(device);
  // First, as a job that throws may have put some of its work into the stream.
  for (const Tensor& tensor : keep) cuda::record_stream(tensor, stream);
  // In a capture these two let the stream join it, and Work::wait brings it back.
  cuda::Event ready;
  ready.record(cuda::current_stream(device));
  ready.wait(stream);
  auto work = make_ref<StreamWork>(device);
  {
    const cuda::StreamGuard guard(stream);
    job(transport);
  }
  work->record(stream);
  if (auto* const recording = mezzo::detail::Recording::of(device))
    recording->state<ReplayInOrder>(&kOrderKey, device);
  return Work(std::move(work));
}

}  // namespace mezzo::dist
