// The caching allocator that all tensor memory comes from, one instance per device, with the statistics that
// memory figures are read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mezzo/core/device.h"

namespace mezzo {

/// Bytes of one device, as requested by tensors (not rounded).
struct MemoryStats {
  std::int64_t current = 0;      ///< held by live tensors now
  std::int64_t peak = 0;         ///< largest `current` since start or the last reset
  std::int64_t reserved = 0;     ///< taken from the system: live blocks and the cache, with rounding
  std::int64_t cached = 0;       ///< of `reserved`, not held by tensors: free blocks, and what rounding adds
  std::int64_t allocations = 0;  ///< requests served since start
  std::int64_t system_allocations = 0;  ///< of these, requests that had to go to the system
};

/// (torch.cuda.memory_stats.)
[[nodiscard]] MemoryStats memory_stats(Device device);
/// Starts a new peak at the current value (torch.cuda.reset_peak_memory_stats).
void reset_peak_memory_stats(Device device);
/// Gives all cached, unused blocks back to the system (torch.cuda.empty_cache).
void empty_cache(Device device);

/// The allocator of one device, for backends that bring one of their own (Backend::allocator). All members
/// may be called from any thread.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  /// At least `bytes` (above 0), aligned to 64 or more. Throws: OutOfMemoryError.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Takes back what `allocate` gave; `bytes` is the same number.
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual MemoryStats stats() = 0;
  virtual void reset_peak() = 0;
  /// Gives all unused memory back to the system.
  virtual void empty_cache() = 0;
  /// A text table of the memory held, lines ended by newlines.
  [[nodiscard]] virtual std::string summary() = 0;
};

namespace detail {
/// The backend's own allocator of a device, or nullptr. Throws: DeviceError for a device that is not there.
[[nodiscard]] DeviceAllocator* device_allocator(Device device);

/// Memory for `bytes` on the device, aligned to 64; nullptr for 0 bytes. Throws: OutOfMemoryError with the
/// statistics.
[[nodiscard]] void* allocate_bytes(std::size_t bytes, Device device);
void deallocate_bytes(void* memory, std::size_t bytes, Device device) noexcept;

/// Handlers with the meaning of pthread_atfork's arguments.
struct ForkHandlers {
  void (*prepare)() = nullptr;
  void (*parent)() = nullptr;
  void (*child)() = nullptr;
};
/// Called outside of the allocator's own, so that what `prepare` waits for may still ask for memory. Set
/// while the library is loaded. (pthread_atfork's order is the order of registration, which no two files can
/// agree on at that time; and later is too late: it waits for a fork() under way, whose child then finds a
/// static object half made and waits for it for ever.)
extern constinit ForkHandlers handlers_around_allocator;
}  // namespace detail

}  // namespace mezzo
