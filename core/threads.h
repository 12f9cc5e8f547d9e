// The number of threads of CPU work, under torch's names. In core, because it is a setting of the whole
// process that programs make and kernels obey.
#pragma once

namespace mezzo {

/// Threads that CPU kernels may use: what set_num_threads() said, else OpenMP's default, which is read once
/// (OMP_NUM_THREADS, else the cores this process may run on). A value of OMP_NUM_THREADS that OpenMP refuses,
/// such as 0, counts as none; libgomp says so itself. Always 1 in a build without OpenMP, and in a child of
/// fork(), which has none of its parent's threads.
[[nodiscard]] int get_num_threads() noexcept;

/// Sets it for the whole process, from the next kernel on. Speed depends on it, results do not. Throws
/// ValueError below 1, and StateError above 1 in a child of fork().
void set_num_threads(int threads);

}  // namespace mezzo
