// The state of the emulated runtime, and what the environment says about it.
#include "runtime.h"

#include <cstdlib>
#include <new>

#include "block.h"
#include "capture.h"

namespace emulated_cuda {
namespace {

/// Programs free device memory at their very end, from destructors of static objects: this is not destroyed.
union Forever {
  Forever() { new (&state) std::unique_ptr<Runtime>(); }
  ~Forever() {}
  std::unique_ptr<Runtime> state;
};
std::unique_ptr<Runtime>& slot() {
  static Forever instance;
  return instance.state;
}

long long number_from(const char* variable, long long otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoll(text, nullptr, 10);
}

}  // namespace

Runtime::Runtime() {
  const long long count = number_from("MEZZO_EMULATED_DEVICES", 1);
  if (count < 0) absent = count == -1 ? cudaErrorInsufficientDriver : static_cast<cudaError_t>(-count);
  if (count == 0) absent = cudaErrorNoDevice;
  multiprocessors = static_cast<int>(number_from("MEZZO_EMULATED_MULTIPROCESSORS", multiprocessors));
  capability = static_cast<int>(number_from("MEZZO_EMULATED_CAPABILITY", capability));
  const long long capacity = number_from("MEZZO_EMULATED_MEMORY", 2LL << 30);
  for (int device = 0; device < count; ++device) {
    devices.push_back(std::make_unique<DeviceMemory>(static_cast<std::size_t>(capacity)));
    streams.push_back(std::make_unique<CUstream_st>(CUstream_st{device, cudaStreamDefault, true}));
  }
  install_fault_handler();
}

Runtime::~Runtime() = default;

Runtime& runtime() {
  if (slot() == nullptr) slot() = std::make_unique<Runtime>();
  return *slot();
}

std::recursive_mutex& runtime_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

DeviceMemory& current_memory() { return *runtime().devices[static_cast<std::size_t>(current_device())]; }

int device_of(const void* pointer) {
  const auto& devices = runtime().devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]->contains(pointer)) return static_cast<int>(i);
  }
  return -1;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr || target->device != current_device()) return cudaErrorInvalidResourceHandle;
    return submit(target, std::make_shared<Task>(Task{std::move(work)}));
  });
}

cudaError_t enqueue_failure(cudaStream_t stream, cudaError_t error) {
  return enqueue(stream, [error] { runtime().broken = error; });
}

void reset() {
  const std::lock_guard lock(runtime_mutex());
  slot() = nullptr;
  current_device() = 0;
  last_error() = cudaSuccess;
  block().threads_run = block().switches = 0;
  slot() = std::make_unique<Runtime>();
}

Counts counts() {
  const std::lock_guard lock(runtime_mutex());
  Counts result = runtime().counts;
  result.threads = block().threads_run;
  result.switches = block().switches;
  return result;
}

std::size_t pending(cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (runtime().absent != cudaSuccess) return 0;
  const cudaStream_t asked = find_stream(stream);
  return asked == nullptr ? 0 : asked->queue.size();
}

}  // namespace emulated_cuda
