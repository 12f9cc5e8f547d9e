// Device memory and page-locked host memory: getting it, giving it back, asking about it.
#include "capture.h"
#include "copies.h"
#include "runtime.h"

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

namespace {

/// Memory that is freed in stream order becomes free only when the streams have run.
void* allocate(std::size_t bytes) {
  void* memory = current_memory().allocate(bytes);
  if (memory == nullptr) {
    run_device(current_device());
    memory = current_memory().allocate(bytes);
  }
  if (memory != nullptr) ++runtime().counts.mallocs;
  return memory;
}

}  // namespace

namespace emulated_cuda {

bool is_pinned(const void* pointer, std::size_t bytes) {
  const auto& all = runtime().pinned;
  const auto* const at = static_cast<const std::byte*>(pointer);
  const auto found = all.lower_bound(at);  // the highest block that begins at or below
  return found != all.end() && at + bytes <= found->first + found->second.bytes;
}

}  // namespace emulated_cuda

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call([&] {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
    run_device(current_device());
    *pointer = bytes == 0 ? nullptr : allocate(bytes);
    return *pointer == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* pointer) {
  return call([&] {
    if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
    if (pointer == nullptr) return cudaSuccess;
    const int device = device_of(pointer);
    if (device < 0) return cudaErrorInvalidValue;
    run_device(device);
    if (!runtime().devices[static_cast<std::size_t>(device)]->release(pointer)) return cudaErrorInvalidValue;
    ++runtime().counts.frees;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (target == nullptr || target->device != current_device()) return cudaErrorInvalidResourceHandle;
    if (target->capture != nullptr) return cudaErrorNotSupported;
    *pointer = bytes == 0 ? nullptr : allocate(bytes);
    return *pointer == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr) return cudaErrorInvalidResourceHandle;
    if (target->capture != nullptr) return cudaErrorNotSupported;
    if (pointer == nullptr) return cudaSuccess;
    const int device = device_of(pointer);
    if (device < 0 || !runtime().devices[static_cast<std::size_t>(device)]->is_block(pointer)) {
      return cudaErrorInvalidValue;
    }
    auto work = [pointer, device] {
      if (!runtime().devices[static_cast<std::size_t>(device)]->release(pointer)) {
        fail_operation("cudaFreeAsync: the memory was freed twice");
      }
      ++runtime().counts.frees;
    };
    return submit(target, std::make_shared<Task>(Task{work}));
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&] {
    if (pointer == nullptr ||
        flags > (cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)) {
      return cudaErrorInvalidValue;
    }
    if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    constexpr std::size_t kPage = 4096;
    const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    std::unique_ptr<void, FreeMemory> memory(rounded < bytes ? nullptr : std::aligned_alloc(kPage, rounded));
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    *pointer = memory.get();
    runtime().pinned[static_cast<std::byte*>(*pointer)] = {std::move(memory), bytes};
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call([&] {
    if (const cudaError_t error = forbid_unsafe(); error != cudaSuccess) return error;
    if (pointer == nullptr) return cudaSuccess;
    const auto found = runtime().pinned.find(static_cast<const std::byte*>(pointer));
    if (found == runtime().pinned.end()) return cudaErrorInvalidValue;
    // Copies that wait may use it.
    for (std::size_t i = 0; i < runtime().devices.size(); ++i) run_device(static_cast<int>(i));
    runtime().pinned.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *total = current_memory().capacity();
    *free = current_memory().capacity() - current_memory().used();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    void* const address = const_cast<void*>(pointer);
    const int device = device_of(pointer);
    if (device >= 0 && runtime().devices[static_cast<std::size_t>(device)]->owns(pointer, 1)) {
      *attributes = {cudaMemoryTypeDevice, device, address, nullptr};
    } else if (is_pinned(pointer, 1)) {
      *attributes = {cudaMemoryTypeHost, current_device(), address, address};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
    }
    return cudaSuccess;
  });
}
