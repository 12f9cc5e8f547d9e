// The allocator of devices whose backend has none of its own, which is the CPU: freed blocks are cached by
// exact rounded size and never split. Blocks of up to 4 KiB go through lists per thread without a lock.
// CUDA brings its own allocator.
#include "mezzo/core/memory/allocator.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/fork_order.h"
#include "mezzo/core/memory/memory_limit.h"
#include "mezzo/core/memory/per_thread.h"

namespace mezzo {

namespace detail {
constinit ForkHandlers handlers_around_allocator;
}

namespace {

// Blocks are kept by rounded size and reused for requests of the same rounded size only. A training step
// repeats its sizes, so exact classes hit from the second step on, and no block is ever split or wasted on a
// smaller request.
class CachingAllocator {
 public:
  explicit CachingAllocator(Device device) : device_(device), backend_(backend(device)) {}

  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* const memory = take(rounded(bytes), bytes);
    count_in(bytes);
    return memory;
  }

  void deallocate(void* memory, std::size_t bytes) noexcept {
    if (memory == nullptr) return;
    count_out(bytes);
    put(memory, rounded(bytes));
  }

  /// A block of a rounded size, of which `asked` bytes will be used.
  void* take(std::size_t size, std::size_t asked) {
    const std::scoped_lock lock(mutex_);
    void* const memory = from_cache(size);
    return memory != nullptr ? memory : from_system(size, asked);
  }
  void put(void* memory, std::size_t size) noexcept {
    const std::scoped_lock lock(mutex_);
    // Under AddressSanitizer memory goes straight back, so that a use after free is seen.
#if !defined(__SANITIZE_ADDRESS__)
    try {
      cache_[size].push_back(memory);
      return;
    } catch (const std::bad_alloc&) {  // no room to remember it: give it back below
    }
#endif
    return_to_system(memory, size);
  }
  void count_in(std::size_t bytes) noexcept {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const auto change = static_cast<std::int64_t>(bytes);
    const std::int64_t current = current_.fetch_add(change, std::memory_order_relaxed) + change;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (current > peak && !peak_.compare_exchange_weak(peak, current, std::memory_order_relaxed)) {
    }
  }
  void count_out(std::size_t bytes) noexcept {
    current_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

  /// Around a fork(), because a child has no other thread that could release the lock.
  void hold() { mutex_.lock(); }
  void release() { mutex_.unlock(); }

  void empty_cache() {
    const std::scoped_lock lock(mutex_);
    for (auto& [size, blocks] : cache_) {
      for (void* memory : blocks) return_to_system(memory, size);
    }
    cache_.clear();
  }

  MemoryStats stats() {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats = stats_;
    stats.allocations = allocations_.load(std::memory_order_relaxed);
    stats.current = current_.load(std::memory_order_relaxed);
    stats.peak = peak_.load(std::memory_order_relaxed);
    return stats;
  }
  void reset_peak() noexcept {
    peak_.store(current_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

  // 64 bytes to 4 KiB, pages to 1 MiB, 64 KiB beyond: at most 7 % lost to rounding above the smallest
  // sizes.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t step = bytes <= 4096 ? 64 : bytes <= (1U << 20) ? 4096 : 65536;
    return (bytes + step - 1) / step * step;
  }

 private:
  void* from_cache(std::size_t size) {
    const auto found = cache_.find(size);
    if (found == cache_.end() || found->second.empty()) return nullptr;
    void* memory = found->second.back();
    found->second.pop_back();
    return memory;
  }
  void* from_system(std::size_t size, std::size_t asked) {
    ++stats_.system_allocations;
    void* memory = exceeds_limit(size) ? nullptr : backend_.allocate(size, device_.index);
    if (memory == nullptr) {
      for (auto& [cached_size, blocks] : cache_) {
        for (void* block : blocks) return_to_system(block, cached_size);
        blocks.clear();
      }
      if (!exceeds_limit(size)) memory = backend_.allocate(size, device_.index);
    }
    if (memory == nullptr) throw_out_of_memory(asked);
    stats_.reserved += static_cast<std::int64_t>(size);
    return memory;
  }
  /// Whether the system would kill the process for using so much more: malloc returns memory that the cgroup
  /// does not grant. Read from a file, so only once per 64 MiB.
  [[nodiscard]] bool exceeds_limit(std::size_t size) const {
    constexpr std::int64_t kStep = std::int64_t{64} << 20U;
    if (!device_.is_cpu()) return false;
    const auto more = static_cast<std::int64_t>(std::min(size, std::size_t{1} << 60U));
    if ((stats_.reserved + more) / kStep == stats_.reserved / kStep) return false;
    const std::int64_t limit = detail::memory_of_cgroups();
    return limit > 0 && stats_.reserved + more > limit;
  }
  [[noreturn]] void throw_out_of_memory(std::size_t asked) const {
    const std::int64_t limit = device_.is_cpu() ? detail::memory_of_cgroups() : 0;
    throw OutOfMemoryError("allocate", std::to_string(asked) + " free bytes on " + to_string(device_),
                           std::to_string(current_.load()) + " bytes held by tensors (peak " +
                               std::to_string(peak_.load()) + ", reserved " +
                               std::to_string(stats_.reserved) + ")" +
                               (limit > 0 ? " of " + std::to_string(limit) + " granted by the cgroup" : ""),
                           "use a smaller batch or model, or free tensors first");
  }
  void return_to_system(void* memory, std::size_t size) noexcept {
    backend_.deallocate(memory, size, device_.index);
    stats_.reserved -= static_cast<std::int64_t>(size);
  }

  Device device_;
  Backend& backend_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cache_;
  MemoryStats stats_;  // reserved and system_allocations; the others are counted without the lock
  std::atomic<std::int64_t> allocations_{0}, current_{0}, peak_{0};
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

/// Calls a handler that is there.
void call(void (*handler)()) {
  if (handler != nullptr) handler();
}
[[maybe_unused]] const int held_over_fork = pthread_atfork(
    [] {
      call(detail::handlers_around_allocator.prepare);
      allocator(Device::cpu()).hold();
    },
    [] {
      allocator(Device::cpu()).release();
      call(detail::handlers_around_allocator.parent);
    },
    [] {
      allocator(Device::cpu()).release();
      call(detail::handlers_around_allocator.child);
    });

// Small blocks of CPU memory, per thread: an op on a few numbers must not wait for a lock and a search. One
// list per multiple of 64 bytes. Blocks beyond a list's limit, and those of a thread that ends, go to the
// common cache.
class SmallBlocks {
 public:
  static constexpr std::size_t kLargest = 4096;

  SmallBlocks() noexcept { of_thread = this; }
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;
  ~SmallBlocks() {
    flush();
    of_thread = nullptr;
    closed = true;
  }
  void* take(std::size_t size) {
    FreeBlock*& head = heads_[size / kStep];
    if (head == nullptr) return nullptr;
    --counts_[size / kStep];
    return std::exchange(head, head->next);
  }
  [[nodiscard]] bool put(void* memory, std::size_t size) noexcept {
    if (counts_[size / kStep] == kMaxKept) return false;
    ++counts_[size / kStep];
    heads_[size / kStep] = ::new (memory) FreeBlock{heads_[size / kStep]};
    return true;
  }
  void flush() noexcept {
    for (std::size_t size = kStep; size <= kLargest; size += kStep) {
      while (void* const memory = take(size)) allocator(Device::cpu()).put(memory, size);
    }
  }

  /// The lists of this thread: nullptr before its first block, and again when it ends.
  static constinit thread_local SmallBlocks* of_thread;
  /// Tensors in other thread-local and static objects may be destroyed later than these lists.
  static constinit thread_local bool closed;

 private:
  static constexpr std::size_t kStep = 64;
  static constexpr std::uint32_t kMaxKept = 256;
  struct FreeBlock {
    FreeBlock* next;
  };
  std::array<FreeBlock*, kLargest / kStep + 1> heads_{};
  std::array<std::uint32_t, kLargest / kStep + 1> counts_{};
};

// AddressSanitizer must see every free, so under it nothing is kept.
#if defined(__SANITIZE_ADDRESS__)
constinit thread_local bool SmallBlocks::closed = true;
#else
constinit thread_local bool SmallBlocks::closed = false;
#endif
constinit thread_local SmallBlocks* SmallBlocks::of_thread = nullptr;
constinit detail::PerThread<SmallBlocks> small_blocks;

bool is_small(std::size_t bytes, Device device) { return bytes <= SmallBlocks::kLargest && device.is_cpu(); }

}  // namespace

MemoryStats memory_stats(Device device) {
  DeviceAllocator* const own = detail::device_allocator(device);
  return own != nullptr ? own->stats() : allocator(device).stats();
}
void reset_peak_memory_stats(Device device) {
  if (DeviceAllocator* const own = detail::device_allocator(device)) return own->reset_peak();
  allocator(device).reset_peak();
}
void empty_cache(Device device) {
  if (DeviceAllocator* const own = detail::device_allocator(device)) return own->empty_cache();
  if (device.is_cpu() && SmallBlocks::of_thread != nullptr) SmallBlocks::of_thread->flush();
  allocator(device).empty_cache();
}

namespace detail {
DeviceAllocator* device_allocator(Device device) {
  if (device.is_cpu()) return nullptr;
  // Remembered, because asking the backend for its devices is more work than a block from a cache.
  static constinit std::array<std::atomic<DeviceAllocator*>, 64> known{};
  const bool fits = device.index >= 0 && static_cast<std::size_t>(device.index) < known.size();
  if (fits) {
    const auto index = static_cast<std::size_t>(device.index);
    if (DeviceAllocator* const found = known[index].load(std::memory_order_acquire)) return found;
  }
  DeviceAllocator* const own = backend(device).allocator(device.index);
  if (fits) known[static_cast<std::size_t>(device.index)].store(own, std::memory_order_release);
  return own;
}

void* allocate_bytes(std::size_t bytes, Device device) {
  if (!device.is_cpu()) [[unlikely]] {
    DeviceAllocator* const own = device_allocator(device);
    if (own != nullptr) return bytes == 0 ? nullptr : own->allocate(bytes);
  }
  CachingAllocator& common = allocator(device);
  if (bytes > 0 && is_small(bytes, device)) {
    SmallBlocks* const own = SmallBlocks::of_thread;
    void* const memory = own != nullptr ? own->take(CachingAllocator::rounded(bytes)) : nullptr;
    if (memory != nullptr) {
      common.count_in(bytes);
      return memory;
    }
    if (own == nullptr && !SmallBlocks::closed) static_cast<void>(small_blocks.get());
  }
  return common.allocate(bytes);
}
void deallocate_bytes(void* memory, std::size_t bytes, Device device) noexcept {
  if (!device.is_cpu()) [[unlikely]] {
    if (memory == nullptr) return;
    if (DeviceAllocator* const own = device_allocator(device)) return own->deallocate(memory, bytes);
  }
  CachingAllocator& common = allocator(device);
  if (memory != nullptr && is_small(bytes, device) && SmallBlocks::of_thread != nullptr &&
      SmallBlocks::of_thread->put(memory, CachingAllocator::rounded(bytes))) {
    common.count_out(bytes);
    return;
  }
  common.deallocate(memory, bytes);
}
}  // namespace detail

}  // namespace mezzo
