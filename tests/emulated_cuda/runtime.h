// The state behind the calls of the emulated runtime, and the way every call goes.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "emulated_cuda/api.h"
#include "emulated_cuda/control.h"
#include "emulated_cuda/launch.h"
#include "graph.h"
#include "memory.h"
#include "streams.h"

namespace emulated_cuda {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
/// A block of page-locked host memory.
struct Pinned {
  std::unique_ptr<void, FreeMemory> memory;
  std::size_t bytes;
};

struct Runtime {
  cudaError_t absent = cudaSuccess;  ///< what every call returns on a machine without driver or device
  cudaError_t broken = cudaSuccess;  ///< what every call returns after a failure on the device
  bool in_task = false;              ///< a kernel, copy or host function runs
  int waiting = 0;                   ///< threads that wait for others, see meeting.h
  int multiprocessors = 2;           ///< few: kernels whose grids depend on it walk over arrays of tests
  int capability = 90;               ///< compute capability, times ten
  std::uint64_t submissions = 0, captures = 0;
  std::vector<std::unique_ptr<DeviceMemory>> devices;
  std::set<int> contexts;                             ///< devices that have one
  std::vector<std::unique_ptr<CUstream_st>> streams;  ///< in order of creation, one default per device first
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::vector<std::weak_ptr<Capture>> open_captures;
  std::unordered_map<cudaGraph_t, std::shared_ptr<CUgraph_st>> graphs;
  std::unordered_map<cudaGraphExec_t, std::shared_ptr<CUgraphExec_st>> executables;
  std::map<const std::byte*, Pinned, std::greater<>> pinned;  ///< by address, highest first
  Counts counts{};
  std::optional<std::set<detail::AnyKernel>> loaded;  ///< kernels; nothing: all are

  /// Reads the environment.
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

/// The one there is, made at the first call. Hold the mutex.
Runtime& runtime();
std::recursive_mutex& runtime_mutex();
/// Of the calling thread.
int& current_device();
cudaError_t& last_error();
/// The memory of the calling thread's device.
DeviceMemory& current_memory();
/// The device with this address; -1 for the host's.
int device_of(const void* pointer);

/// Takes over page faults in device memory to say what they are.
void install_fault_handler();

/// The frame of every call: one at a time, not from work in a stream, not without a device or after a
/// failure. It makes a context on the thread's device, unless it only asks what devices there are. What it
/// returns is kept for cudaGetLastError.
template <bool kMakesContext = true, class Body>
cudaError_t call(Body&& body) {
  const std::lock_guard lock(runtime_mutex());
  Runtime& state = runtime();
  cudaError_t result = state.in_task ? cudaErrorNotPermitted : state.absent;
  if (result == cudaSuccess) result = state.broken;
  if (kMakesContext && result == cudaSuccess) state.contexts.insert(current_device());
  if (result == cudaSuccess) result = body();
  if (result == cudaSuccess) result = state.broken;
  if (result != cudaSuccess) last_error() = result;
  return result;
}

}  // namespace emulated_cuda
