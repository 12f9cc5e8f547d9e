// The CUDA backend: memory, copies and ordering of CUDA devices, behind core/backend.h. Nothing of CUDA is
// called before the first question for a device.
#include "mezzo/core/backend.h"

#include <cuda_runtime.h>

#include <string>

#include "mezzo/core/cuda/allocator_events.h"
#include "mezzo/core/cuda/caching_allocator.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/fault.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/cuda/staging.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"

namespace mezzo::cuda {

namespace {

std::string describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " +
         fixed_text(static_cast<double>(properties.totalGlobalMem) / (1024.0 * 1024.0 * 1024.0), 1) + " GiB";
}

// The device that memory lies on.
int device_of(const void* memory, int fallback) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : fallback;
}

// The copy runs in `stream`, after what made the source and before what follows in the source's stream, which
// may use that memory again.
void copy_between_devices(void* to, const void* from, std::size_t bytes, const Stream& stream,
                          const Stream& source) {
  Event made;
  Event copied;
  made.record(source);
  made.wait(stream);
  const DeviceGuard guard(stream.device().index);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "the copy between devices");
  copied.record(stream);
  copied.wait(source);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend() { register_backend(DeviceType::cuda, *this); }

  [[nodiscard]] int device_count() const override { return probe().count; }

  [[nodiscard]] std::string description() const override {
    if (probe().count == 0) return probe().reason;
    std::string text;
    for (int i = 0; i < probe().count; ++i) text += (i > 0 ? "; " : "") + describe_device(i);
    return text;
  }

  [[nodiscard]] void* allocate(std::size_t bytes, int index) override {
    const DeviceGuard guard(index);
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    check(status, "cudaMalloc");
    return memory;
  }

  void deallocate(void* memory, std::size_t /*bytes*/, int /*index*/) noexcept override {
    // At the end of the program CUDA may be gone before the last tensor; its memory is then gone too.
    static_cast<void>(cudaFree(memory));
  }

  [[nodiscard]] DeviceAllocator* allocator(int index) override { return &caching_allocator(index); }

  void copy_from_host(void* device, const void* host, std::size_t bytes, int index) override {
    if (bytes == 0) return;
    const Stream& stream = current_stream(index);
    if (!stream.is_capturing()) {
      staging(index).upload(device, host, bytes, stream);
      return;
    }
    // Every replay copies again, so the bytes as they are now have to live as long as the graph.
    MemoryPool* const pool = active_pool(index);
    if (pool == nullptr) refuse_in_capture(stream, "a copy from the host outside of a MemoryPoolScope");
    const DeviceGuard guard(index);
    check(cudaMemcpyAsync(device, pool->keep(host, bytes), bytes, cudaMemcpyHostToDevice, native(stream)),
          "the captured copy to the device");
  }

  void copy_to_host(void* host, const void* device, std::size_t bytes, int index) override {
    if (bytes == 0) return;
    const Stream& stream = current_stream(index);
    refuse_in_capture(stream, "a value read back to the host");
    fetch_fault(stream);
    staging(index).download(host, device, bytes, stream);
    throw_fault(stream);
  }

  void copy_within(void* to, const void* from, std::size_t bytes, int index) override {
    if (bytes == 0) return;
    const Stream& stream = current_stream(index);
    const int source = probe().count > 1 ? device_of(from, index) : index;
    if (source != index) {
      copy_between_devices(to, from, bytes, stream, current_stream(source));
      return;
    }
    const DeviceGuard guard(index);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)),
          "the copy on the device");
  }

  void set_zero(void* memory, std::size_t bytes, int index) override {
    if (bytes == 0) return;
    const DeviceGuard guard(index);
    check(cudaMemsetAsync(memory, 0, bytes, native(current_stream(index))), "cudaMemsetAsync");
  }

  void synchronize(int index) override {
    const Stream& stream = current_stream(index);
    refuse_in_capture(stream, "waiting for the device");
    if (is_captured(index))  // CUDA would refuse as well, and break that recording
      throw StateError("synchronize", "no recording on " + to_string(Device::cuda(index)),
                       "one of another thread", "wait for a stream, or for the recording to end");
    const DeviceGuard guard(index);
    fetch_fault(stream);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    throw_fault(stream);
  }
};

// Made and registered when the library is loaded; that calls nothing of CUDA. Never destroyed, because
// tensors in static objects may be freed after it would be.
[[maybe_unused]] const CudaBackend* const registered = new CudaBackend;

}  // namespace

}  // namespace mezzo::cuda
