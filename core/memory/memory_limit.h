// How much memory the system lets this process have.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::detail {

/// Bytes of memory and swap together that the process's cgroups, and those above them, grant; 0 for no limit.
/// The system kills a process that takes more. `root` is put before the paths /proc and /sys (for tests).
[[nodiscard]] std::int64_t memory_of_cgroups(const std::string& root = {});

}  // namespace mezzo::detail
