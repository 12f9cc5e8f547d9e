// Devices: how many, which is current, what they are.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "block.h"
#include "capture.h"
#include "emulated_cuda/device.h"
#include "runtime.h"
#include "shared_memory.h"

using namespace emulated_cuda;  // the functions below have CUDA's names, in no namespace

namespace {

constexpr int kThreadsOfMultiprocessor = 2048, kSharedOfMultiprocessor = 228 * 1024;

bool valid(int device) { return device >= 0 && static_cast<std::size_t>(device) < runtime().devices.size(); }

}  // namespace

int emulated_cuda::compute_capability() { return runtime().capability; }

cudaError_t cudaGetDeviceCount(int* count) {
  return call<false>([&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = static_cast<int>(runtime().devices.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call<false>([&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call<false>([&] {
    if (!valid(device)) return cudaErrorInvalidDevice;
    current_device() = device;
    runtime().contexts.insert(device);  // since CUDA 12
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call<false>([&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!valid(device)) return cudaErrorInvalidDevice;
    cudaDeviceProp& p = *properties;
    p = {};
    std::snprintf(p.name, sizeof(p.name), "Emulated CUDA device");
    p.totalGlobalMem = runtime().devices[static_cast<std::size_t>(device)]->capacity();
    p.sharedMemPerBlock = p.sharedMemPerBlockOptin = kMaxShared;
    p.warpSize = static_cast<int>(kLanes);
    p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = static_cast<int>(kMaxThreads);
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.major = runtime().capability / 10;
    p.minor = runtime().capability % 10;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call<false>([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!valid(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = runtime().multiprocessors;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMajor:
        *value = runtime().capability / 10;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = runtime().capability % 10;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return call<false>([&] {
    if (text == nullptr || size < 13) return cudaErrorInvalidValue;
    if (!valid(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device));
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          std::size_t shared_bytes) {
  return call([&] {
    if (blocks == nullptr || kernel == nullptr || threads < 1) return cudaErrorInvalidValue;
    const bool fits = threads <= static_cast<int>(kMaxThreads) && shared_bytes <= kMaxShared;
    const int by_threads = fits ? kThreadsOfMultiprocessor / threads : 0;
    *blocks = shared_bytes == 0
                  ? by_threads
                  : std::min(by_threads, kSharedOfMultiprocessor / static_cast<int>(shared_bytes));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([&] {
    cudaError_t result = cudaSuccess;
    for (const auto& stream : runtime().streams) {
      if (stream->device != current_device()) continue;
      if (const cudaError_t error = forbid_capturing(*stream); error != cudaSuccess) result = error;
    }
    if (result == cudaSuccess) run_device(current_device());
    return result;
  });
}

namespace {

/// The driver's question; its results are numbers, 101 an invalid device.
int context_state(int device, unsigned* flags, int* active) {
  const std::lock_guard lock(runtime_mutex());
  if (!valid(device)) return 101;
  *flags = 0;
  *active = runtime().contexts.contains(device) ? 1 : 0;
  return 0;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  return call<false>([&] {
    if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
    const bool found = std::string_view(symbol) == "cuDevicePrimaryCtxGetState";
    *function = found ? reinterpret_cast<void*>(&context_state) : nullptr;
    if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}
