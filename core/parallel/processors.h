// How many processors this process may use, and the limits that the system sets to a group of processes, such
// as a container.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::detail {

/// OMP_NUM_THREADS, else the processors of the process's affinity, or fewer where a cgroup limits their time.
/// At least 1.
[[nodiscard]] int default_threads() noexcept;

/// The first number of a value of OMP_NUM_THREADS, such as 4 of "4,2"; 0 where that is no number of at least
/// 1.
[[nodiscard]] int threads_of_environment(const char* value) noexcept;

/// Processors' worth of time that the process's cgroups (v1 or v2) and those above them grant, rounded up; 0
/// for no limit. `root` stands before /proc/self/cgroup and /sys/fs/cgroup.
[[nodiscard]] int processors_of_cgroups(const std::string& root);

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
