// How much memory the system lets this process have.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::detail {

/// Bytes of memory and swap that the process's cgroups and those above them grant together; 0 for no limit.
/// The system kills who takes more. `root` stands before /proc and /sys.
[[nodiscard]] std::int64_t memory_of_cgroups(const std::string& root = {});

}  // namespace mezzo::detail
