// The messages for kernels that do what they must not. All print and abort.
#pragma once

#include "block.h"

namespace emulated_cuda {

/// Whether two threads wait at the same line.
bool same_place(const Thread& a, const Thread& b);
/// `own` came to another __syncthreads than `other`, which waits.
[[noreturn]] void report_two_barriers(const Thread& own, const Thread& other);
/// Thread `waiting` is in a warp function that some lane of its mask does not come to.
[[noreturn]] void report_missing_lane(unsigned waiting);
/// Thread `waiting` is at a __syncthreads that some thread has not come to.
[[noreturn]] void report_missing_at_barrier(unsigned waiting);
/// "__shfl_xor_sync" and so on.
const char* name_of(detail::WarpOp op);

/// The demangled name of a function of this program; its address if that is not known.
void kernel_name(detail::AnyKernel kernel, char* name, std::size_t size);

}  // namespace emulated_cuda
