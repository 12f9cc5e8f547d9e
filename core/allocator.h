// The caching allocator that all tensor memory comes from, one instance per device, with the statistics that
// memory figures are read from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/device.h"

namespace mezzo {

/// Bytes of one device, as requested by tensors (not rounded).
struct MemoryStats {
  std::int64_t current = 0;             ///< held by live tensors now
  std::int64_t peak = 0;                ///< largest `current` since start or the last reset
  std::int64_t reserved = 0;            ///< taken from the system: live blocks and the cache, with rounding
  std::int64_t allocations = 0;         ///< requests served since start
  std::int64_t system_allocations = 0;  ///< of these, requests that had to go to the system
};

[[nodiscard]] MemoryStats memory_stats(Device device);
/// Starts a new peak at the current value (torch.cuda.reset_peak_memory_stats).
void reset_peak_memory_stats(Device device);
/// Gives all cached, unused blocks back to the system (torch.cuda.empty_cache).
void empty_cache(Device device);

namespace detail {
/// Memory for `bytes` on the device, aligned to 64; nullptr for 0 bytes. Throws OutOfMemoryError with the
/// statistics.
[[nodiscard]] void* allocate_bytes(std::size_t bytes, Device device);
void deallocate_bytes(void* memory, std::size_t bytes, Device device) noexcept;
}  // namespace detail

}  // namespace mezzo
