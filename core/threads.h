// The number of threads of CPU work, under torch's names. In core, because it is a setting of the whole
// process that programs make and kernels obey.
#pragma once

namespace mezzo {

/// Threads that CPU kernels may use: what set_num_threads() said, else the first number of OMP_NUM_THREADS,
/// else the processors that this process may use, by its affinity and the limits of its cgroups, when it is
/// first asked for. A value of OMP_NUM_THREADS that is no number of at least 1 is ignored.
[[nodiscard]] int get_num_threads() noexcept;

/// Sets it for the whole process, from the next kernel on, whichever thread calls. Speed depends on it,
/// results do not. It is 1 in a child of fork() until the child sets it. No more than 1024 threads are
/// started, and no more than the system gives. Throws: ValueError below 1.
void set_num_threads(int threads);

}  // namespace mezzo
