// The allocator of devices whose backend has none of its own, which is the CPU: freed blocks are kept, as
// many as the tensors of late have needed; large ones in segments (core/memory/large_blocks.h), others by
// size class (core/memory/block_cache.h). Blocks of up to 4 KiB go through lists per thread without a lock.
// CUDA brings its own allocator.
#include "mezzo/core/memory/allocator.h"

#include <pthread.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

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

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/block_cache.h"
#include "mezzo/core/memory/large_blocks.h"
#include "mezzo/core/memory/memory_limit.h"
#include "mezzo/core/memory/per_thread.h"

namespace mezzo {

namespace detail {
constinit ForkHandlers handlers_around_allocator;
}

namespace {

// Blocks below 256 KiB are kept by class and used again for requests of the same class only; larger ones are
// cut from segments (LargeBlocks). A training step repeats its sizes, so it takes nothing from the system
// from the second step on. Where sizes vary what is free goes back: all that is taken from the system is at
// most twice what tensors have held at once of late, or a floor more than they hold now.
class CachingAllocator {
 public:
  explicit CachingAllocator(Device device)
      : device_(device), backend_(backend(device)), large_(backend_, device.index) {}

  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* const memory = take(rounded(bytes), bytes);
    count_in(bytes);
    return memory;
  }

  void deallocate(void* memory, std::size_t bytes) noexcept {
    if (memory == nullptr) return;
    count_out(bytes);
    put(memory, rounded(bytes), bytes);
  }

  /// A block of a rounded size, of which `asked` bytes will be used.
  void* take(std::size_t size, std::size_t asked) {
    const std::scoped_lock lock(mutex_);
    void* memory = nullptr;
    if (detail::is_large_block(asked)) {
      memory = take_large(asked);
    } else if ((memory = cache_.take(size)) == nullptr) {
      memory = from_system(size, asked, [&] { return backend_.allocate(size, device_.index); });
      of_classes_ += static_cast<std::int64_t>(size);
    }
    note_use(asked);
    return memory;
  }
  void put(void* memory, std::size_t size, std::size_t asked) noexcept {
    const std::scoped_lock lock(mutex_);
    if (detail::is_large_block(asked)) {
      large_.put(memory);
      return trim(allowance());
    }
    // Under AddressSanitizer memory goes straight back, so that a use after free is seen.
#if !defined(__SANITIZE_ADDRESS__)
    try {
      cache_.put(memory, size);
      return trim(allowance());
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
    give_all_back();
  }

  MemoryStats stats() {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats;
    stats.system_allocations = system_allocations_;
    stats.reserved = reserved();
    stats.allocations = allocations_.load(std::memory_order_relaxed);
    stats.current = current_.load(std::memory_order_relaxed);
    stats.peak = peak_.load(std::memory_order_relaxed);
    return stats;
  }
  void reset_peak() noexcept {
    peak_.store(current_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

  static std::size_t rounded(std::size_t bytes) { return detail::BlockCache::class_size(bytes); }

 private:
  /// Keeps in mind how much tensors hold at once: in this window of requests, and in the one before.
  void note_use(std::size_t asked) {
    constexpr std::int64_t kWindow = 16384;  // more requests than a step has
    if (++requests_ % kWindow == 0) earlier_use_ = std::exchange(use_, 0);
    use_ = std::max(use_, current_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(asked));
  }
  /// Bytes that may be taken from the system, cached ones included, once tensors hold `more` bytes more.
  [[nodiscard]] std::int64_t allowance(std::int64_t more = 0) const {
    constexpr std::int64_t kFloor = std::int64_t{32} << 20U;
    const std::int64_t use = current_.load(std::memory_order_relaxed) + more;
    return std::max(2 * std::max({use, use_, earlier_use_}), use + kFloor);
  }
  /// Bytes taken from the system.
  [[nodiscard]] std::int64_t reserved() const noexcept {
    return of_classes_ + static_cast<std::int64_t>(large_.reserved());
  }
  /// Gives free memory back until no more than so many bytes are taken from the system, or none is free.
  void trim(std::int64_t bytes) noexcept {
    if (reserved() > bytes) large_.give_back(static_cast<std::size_t>(reserved() - bytes));
    while (reserved() > bytes && cache_.bytes() > 0) {
      const auto [memory, size] = cache_.take_oldest();
      return_to_system(memory, size);
    }
  }
  void give_all_back() noexcept {
    trim(0);
#if defined(__GLIBC__)
    if (device_.is_cpu()) static_cast<void>(::malloc_trim(0));  // else it keeps what lies among its blocks
#endif
  }
  void* take_large(std::size_t asked) {
    const std::int64_t before = reserved();
    void* const memory = asked > kMostAsked ? nullptr : large_.take(asked);
    // Bytes of it that nobody has used yet, or that the system had again.
    const std::int64_t fresh = reserved() - before;
    if (memory != nullptr && fresh == 0) return memory;
    const auto grow = [&] { return memory != nullptr ? memory : large_.grow(asked); };
    try {
      return from_system(memory != nullptr ? static_cast<std::size_t>(fresh) : asked, asked, grow, fresh);
    } catch (const OutOfMemoryError&) {
      large_.put(memory);
      trim(before);
      throw;
    }
  }
  /// What `make` gives, or throws; it takes `size` bytes from the system, of which `counted` are in
  /// reserved().
  template <typename Make>
  void* from_system(std::size_t size, std::size_t asked, const Make& make, std::int64_t counted = 0) {
    ++system_allocations_;
    void* memory = nullptr;
    if (size <= kMostAsked) {
      const auto more = static_cast<std::int64_t>(size);
      trim(allowance(static_cast<std::int64_t>(asked)) + counted - more);
      if (!exceeds_limit(more, counted)) memory = make();
      if (memory == nullptr) {
        give_all_back();
        if (!exceeds_limit(more, counted)) memory = make();
      }
    }
    if (memory == nullptr) throw_out_of_memory(asked);
    return memory;
  }
  /// Whether the system would kill the process for using so much more: it hands out memory that the cgroup
  /// does not grant. What it says is in files, so they are read once per quarter of what was left.
  [[nodiscard]] bool exceeds_limit(std::int64_t more, std::int64_t counted) {
    constexpr std::int64_t kMostUnseen = std::int64_t{64} << 20U;
    if (!device_.is_cpu()) return false;
    if (more <= unseen_) {
      unseen_ -= more;
      return false;
    }
    const detail::CgroupMemory memory = detail::memory_of_cgroups();
    // What nobody has written to yet counts, too, though the system does not know it.
    const std::int64_t left = memory.granted - std::max(reserved() - counted, memory.used) - more;
    const bool exceeds = memory.granted > 0 && left < 0;
    unseen_ = exceeds ? 0 : memory.granted > 0 ? std::min(left / 4, kMostUnseen) : kMostUnseen;
    return exceeds;
  }
  [[noreturn]] void throw_out_of_memory(std::size_t asked) const {
    const detail::CgroupMemory memory =
        device_.is_cpu() ? detail::memory_of_cgroups() : detail::CgroupMemory{};
    throw OutOfMemoryError(
        "allocate", std::to_string(asked) + " free bytes on " + to_string(device_),
        std::to_string(current_.load()) + " bytes held by tensors (peak " + std::to_string(peak_.load()) +
            ", reserved " + std::to_string(reserved()) + ", cached " +
            std::to_string(reserved() - current_.load()) + ")" +
            (memory.granted > 0 ? ", " + std::to_string(memory.used) + " in use of " +
                                      std::to_string(memory.granted) + " granted by the cgroup"
                                : ""),
        "use a smaller batch or model, or free tensors first");
  }
  void return_to_system(void* memory, std::size_t size) noexcept {
    backend_.deallocate(memory, size, device_.index);
    of_classes_ -= static_cast<std::int64_t>(size);
  }

  static constexpr std::size_t kMostAsked = std::size_t{1} << 60U;

  Device device_;
  Backend& backend_;
  std::mutex mutex_;
  detail::BlockCache cache_;
  detail::LargeBlocks large_;
  std::int64_t requests_ = 0;               // of blocks above the smallest
  std::int64_t use_ = 0, earlier_use_ = 0;  // most bytes that tensors held at once
  std::int64_t of_classes_ = 0;             // bytes taken from the system for blocks below the large ones
  std::int64_t system_allocations_ = 0;
  std::int64_t unseen_ = 0;  // bytes that may be taken until the cgroup's files are read again
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
class SmallBlocks : detail::NoCopy {
 public:
  static constexpr std::size_t kLargest = 4096;

  SmallBlocks() noexcept { of_thread = this; }
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
    const std::uint32_t kept = counts_[size / kStep];
    if (kept == kMaxKept || kept * size >= kMaxBytes) return false;
    ++counts_[size / kStep];
    heads_[size / kStep] = ::new (memory) FreeBlock{heads_[size / kStep]};
    return true;
  }
  void flush() noexcept {
    for (std::size_t size = kStep; size <= kLargest; size += kStep) {
      if (CachingAllocator::rounded(size) != size) continue;  // no class
      while (void* const memory = take(size)) allocator(Device::cpu()).put(memory, size, size);
    }
  }

  /// The lists of this thread: nullptr before its first block, and again when it ends.
  static constinit thread_local SmallBlocks* of_thread;
  /// Tensors in other thread-local and static objects may be destroyed later than these lists.
  static constinit thread_local bool closed;

 private:
  static constexpr std::size_t kStep = 64;
  static constexpr std::uint32_t kMaxKept = 256, kMaxBytes = 65536;  // of each size
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
  MemoryStats stats = own != nullptr ? own->stats() : allocator(device).stats();
  stats.cached = stats.reserved - stats.current;
  return stats;
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
