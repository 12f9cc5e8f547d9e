// The part of mezzo::cuda that every build has: whether CUDA can be used, why not, and the TF32 and
// benchmark switches. All else is in core/cuda/, or in core/no_cuda/ for a build without CUDA.
#include "mezzo/core/cuda.h"

#include <atomic>

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

}  // namespace mezzo::cuda
