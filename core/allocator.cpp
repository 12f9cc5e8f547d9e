#include "mezzo/core/allocator.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"

namespace mezzo {

namespace {

// Blocks are kept by rounded size and reused for requests of the same rounded size only. A training step
// repeats its sizes, so exact classes hit from the second step on, and no block is ever split or wasted on a
// smaller request.
class CachingAllocator {
 public:
  explicit CachingAllocator(Device device) : device_(device), backend_(backend(device)) {}

  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const std::size_t size = rounded(bytes);
    const std::scoped_lock lock(mutex_);
    void* memory = from_cache(size);
    if (memory == nullptr) memory = from_system(size, bytes);
    ++stats_.allocations;
    stats_.current += static_cast<std::int64_t>(bytes);
    stats_.peak = std::max(stats_.peak, stats_.current);
    return memory;
  }

  void deallocate(void* memory, std::size_t bytes) noexcept {
    if (memory == nullptr) return;
    const std::scoped_lock lock(mutex_);
    stats_.current -= static_cast<std::int64_t>(bytes);
    // Under AddressSanitizer memory goes straight back, so that a use after free is seen.
#if !defined(__SANITIZE_ADDRESS__)
    try {
      cache_[rounded(bytes)].push_back(memory);
      return;
    } catch (const std::bad_alloc&) {  // no room to remember it: give it back below
    }
#endif
    return_to_system(memory, rounded(bytes));
  }

  void empty_cache() {
    const std::scoped_lock lock(mutex_);
    for (auto& [size, blocks] : cache_) {
      for (void* memory : blocks) return_to_system(memory, size);
    }
    cache_.clear();
  }

  MemoryStats stats() {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::scoped_lock lock(mutex_);
    stats_.peak = stats_.current;
  }

 private:
  // 64 bytes below 4 KiB, pages to 1 MiB, 64 KiB beyond: at most 7 % lost to rounding above the smallest
  // sizes.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t step = bytes <= 4096 ? 64 : bytes <= (1U << 20) ? 4096 : 65536;
    return (bytes + step - 1) / step * step;
  }
  void* from_cache(std::size_t size) {
    const auto found = cache_.find(size);
    if (found == cache_.end() || found->second.empty()) return nullptr;
    void* memory = found->second.back();
    found->second.pop_back();
    return memory;
  }
  void* from_system(std::size_t size, std::size_t asked) {
    ++stats_.system_allocations;
    void* memory = backend_.allocate(size, device_.index);
    if (memory == nullptr) {
      for (auto& [cached_size, blocks] : cache_) {
        for (void* block : blocks) return_to_system(block, cached_size);
        blocks.clear();
      }
      memory = backend_.allocate(size, device_.index);
    }
    if (memory == nullptr) {
      throw OutOfMemoryError("allocate", std::to_string(asked) + " free bytes on " + to_string(device_),
                             std::to_string(stats_.current) + " bytes held by tensors (peak " +
                                 std::to_string(stats_.peak) + ", reserved " +
                                 std::to_string(stats_.reserved) + ")",
                             "use a smaller batch or model, or free tensors first");
    }
    stats_.reserved += static_cast<std::int64_t>(size);
    return memory;
  }
  void return_to_system(void* memory, std::size_t size) noexcept {
    backend_.deallocate(memory, size, device_.index);
    stats_.reserved -= static_cast<std::int64_t>(size);
  }

  Device device_;
  Backend& backend_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cache_;
  MemoryStats stats_;
};

// Allocators are never destroyed: tensors in static objects may outlive every other static.
CachingAllocator& allocator(Device device) {
  if (device == Device::cpu()) {
    static auto* const cpu = new CachingAllocator(Device::cpu());
    return *cpu;
  }
  static auto* const mutex = new std::mutex;
  static auto* const others = new std::map<std::pair<DeviceType, int>, std::unique_ptr<CachingAllocator>>;
  const std::scoped_lock lock(*mutex);
  auto& slot = (*others)[{device.type, device.index}];
  if (!slot) slot = std::make_unique<CachingAllocator>(device);
  return *slot;
}

}  // namespace

MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
void reset_peak_memory_stats(Device device) { allocator(device).reset_peak(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }

namespace detail {
void* allocate_bytes(std::size_t bytes, Device device) { return allocator(device).allocate(bytes); }
void deallocate_bytes(void* memory, std::size_t bytes, Device device) noexcept {
  allocator(device).deallocate(memory, bytes);
}
}  // namespace detail

}  // namespace mezzo
