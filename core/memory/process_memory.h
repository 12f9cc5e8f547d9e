// Memory of the process, and the line in which a training reports the memory it took.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/device.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo {

/// Bytes of physical memory of this process: now, and the most since it began. 0 where /proc/self/status is
/// not there. Memory of a device: memory_stats (core/memory/allocator.h).
struct ProcessMemory {
  std::int64_t resident = 0;
  std::int64_t peak = 0;
};
[[nodiscard]] ProcessMemory process_memory();

/// "cuda:0: at most 118 MB in tensors, 36 MB cached now; process at most 340 MB": MemoryStats::peak and
/// cached, ProcessMemory::peak, in units of 10^6 bytes.
[[nodiscard]] std::string memory_line(Device device, const MemoryStats& stats);
[[nodiscard]] inline std::string memory_line(Device device) {
  return memory_line(device, memory_stats(device));
}

}  // namespace mezzo
