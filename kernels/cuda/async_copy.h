// Copies from global to shared memory that run beside other work (compute capability 8.0 and above: PTX
// cp.async). Elsewhere a copy is done when its call returns; the waits then wait for nothing.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/shared.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MEZZO_ASYNC_COPY true
#else
#define MEZZO_ASYNC_COPY false
#endif

namespace mezzo::kernels::cuda {

/// Element `i` of `to` = *from, or zeros (and `from` is not read) unless `is_there`. T has 4 or 16 bytes,
/// `from` is aligned to them. The thread sees the element after wait_for_copies(), other threads after a
/// barrier that follows.
template <class T>
__device__ MEZZO_ALWAYS_INLINE void copy_async(const Shared<T>& to, std::size_t i, const void* from,
                                               bool is_there) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 16);
#if MEZZO_ASYNC_COPY
  const unsigned target = to.address(i), bytes = is_there ? unsigned{sizeof(T)} : 0U;
  if constexpr (sizeof(T) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(from), "r"(bytes)
                 : "memory");
#else
  to.set(i, is_there ? *static_cast<const T*>(from) : T{});
#endif
}

/// Waits for all copies that this thread has begun.
__device__ MEZZO_ALWAYS_INLINE void wait_for_copies() {
#if MEZZO_ASYNC_COPY
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace mezzo::kernels::cuda
