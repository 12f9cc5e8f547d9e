// Collectives on a CUDA device: in a stream of their own, behind the work that makes what they read.
#include <map>
#include <memory>
#include <mutex>

#include "mezzo/core/cuda.h"
#include "mezzo/dist/detail/group_state.h"

namespace mezzo::dist {

namespace {

class StreamWork final : public WorkState {
 public:
  explicit StreamWork(Device device) : device_(device) {}
  void record(const cuda::Stream& stream) { done_.record(stream); }
  void wait() override { done_.wait(cuda::current_stream(device_)); }
  bool is_completed() override { return done_.query(); }

 private:
  Device device_;
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

}  // namespace

Work start_on_device(Transport& transport, std::vector<Tensor> keep,
                     const mezzo::detail::Function<void(Transport&)>& job) {
  const Device device = transport.device();
  const cuda::Stream& stream = communication_stream(device);
  cuda::Event ready;
  ready.record(cuda::current_stream(device));
  ready.wait(stream);
  auto work = make_ref<StreamWork>(device);
  {
    const cuda::StreamGuard guard(stream);
    job(transport);
  }
  for (const Tensor& tensor : keep) cuda::record_stream(tensor, stream);
  work->record(stream);
  return Work(std::move(work));
}

}  // namespace mezzo::dist
