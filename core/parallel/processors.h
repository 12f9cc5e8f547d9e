// How many processors this process may use.
#pragma once

#include <string>

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

}  // namespace mezzo::detail
