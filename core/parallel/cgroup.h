// The limits that the system sets to a group of processes, such as a container.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::detail {

/// A folder of the system with the limits of one group.
struct Cgroup {
  std::string folder;
  bool version2;
};

/// The process's group of a controller ("cpu", "memory") and those above it, in both versions of cgroups.
/// Some of the folders may not be there, as a container does not see its own path. `root` stands before
/// /proc/self/cgroup and /sys/fs/cgroup.
[[nodiscard]] std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root);

/// The word at `index` of a file, empty where there is none.
[[nodiscard]] std::string word_of_file(const std::string& path, int index = 0);

}  // namespace mezzo::detail
