// What a kernel sees of its place in the grid and of its block: indices, barriers, dynamic shared memory, and
// small functions that need no other thread.
#pragma once

#include <cstring>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

// Of the thread that runs now; the emulation sets them whenever it changes threads.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace emulated_cuda {

/// The compute capability of all devices, times ten.
int compute_capability();

/// The dynamic shared memory of the block that runs now (null outside kernels). Kernels use it through
/// mezzo::kernels::cuda::Shared, which checks every access.
void* dynamic_shared();

/// Checks of Shared: `bytes` at `offset` of the dynamic shared memory are about to be read or written by this
/// thread. A range outside of the memory, a read of what no thread of this block has written, and two threads
/// that meet at an element (one of them writing) without a barrier in between print where, and abort.
void check_shared_read(std::size_t offset, std::size_t bytes, const char* file, int line);
void check_shared_write(std::size_t offset, std::size_t bytes, const char* file, int line);
/// An index beyond the array that Shared was made for: prints, and aborts.
[[noreturn]] void shared_out_of_range(std::size_t index, std::size_t count, const char* file, int line);

}  // namespace emulated_cuda

/// All threads of the block have to come to the same call. Else the process is aborted with a message: some
/// returned, or wait elsewhere.
void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE());

#pragma GCC visibility pop

// Threads run one at a time on one processor: writes are in order.
inline void __threadfence() {}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}

namespace emulated_cuda::detail {
template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
}  // namespace emulated_cuda::detail

inline unsigned __float_as_uint(float value) { return emulated_cuda::detail::bit_cast<unsigned>(value); }
inline int __float_as_int(float value) { return emulated_cuda::detail::bit_cast<int>(value); }
inline float __uint_as_float(unsigned value) { return emulated_cuda::detail::bit_cast<float>(value); }
inline long long __double_as_longlong(double value) {
  return emulated_cuda::detail::bit_cast<long long>(value);
}
