// How much memory the system lets this process have.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo::detail {

struct CgroupMemory {
  std::int64_t granted = 0;  ///< bytes of memory and swap together; 0: no limit
  std::int64_t used = 0;  ///< of these, by all processes of the group; pages of files, which can go, left out
};
/// Of the process's cgroup, or the one above it, that has least left. The system kills a process that takes
/// more. `root` is put before the paths /proc and /sys (for tests).
[[nodiscard]] CgroupMemory memory_of_cgroups(const std::string& root = {});

}  // namespace mezzo::detail
