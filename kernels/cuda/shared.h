// Dynamic shared memory of a block as arrays. Kernels reach it through this class only: on a GPU it is plain
// access, and on the emulated device every access is checked.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#if !defined(MEZZO_CUDA_EMULATED) && !defined(__CUDACC__)
#error "kernels are compiled by nvcc, or as plain C++ with MEZZO_CUDA_EMULATED"
#endif

namespace mezzo::kernels::cuda {

#if !defined(MEZZO_CUDA_EMULATED)
namespace detail {
/// One name for all element types: an extern array has to have the same type wherever it is declared.
extern __shared__ __align__(16) unsigned char dynamic_shared[];
}  // namespace detail
#endif

/// An array of `count` T in the block's dynamic shared memory, from `offset` bytes on (a multiple of T's
/// alignment). Every thread of the block makes one with the same arguments; the launch has to give
/// offset + count * sizeof(T) bytes. The emulated device aborts on an index or array out of range, on reading
/// what no thread of the block has set, and where a barrier is missing between threads at one element.
template <class T>
class Shared {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);

 public:
#if defined(MEZZO_CUDA_EMULATED)
  explicit Shared(std::size_t count, std::size_t offset = 0) : count_(count), offset_(offset) {}

  [[nodiscard]] T get(std::size_t i, const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    if (i >= count_) emulated_cuda::shared_out_of_range(i, count_, file, line);
    emulated_cuda::check_shared_read(offset_ + i * sizeof(T), sizeof(T), file, line);
    return array()[i];
  }
  void set(std::size_t i, const T& value, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) const {
    if (i >= count_) emulated_cuda::shared_out_of_range(i, count_, file, line);
    emulated_cuda::check_shared_write(offset_ + i * sizeof(T), sizeof(T), file, line);
    array()[i] = value;
  }

 private:
  T* array() const {
    return reinterpret_cast<T*>(static_cast<unsigned char*>(emulated_cuda::dynamic_shared()) + offset_);
  }
  std::size_t count_, offset_;
#else
  __device__ __forceinline__ explicit Shared(std::size_t /*count*/, std::size_t offset = 0)
      : array_(reinterpret_cast<T*>(detail::dynamic_shared + offset)) {}

  /// Element `i`, which a thread of the block has set.
  [[nodiscard]] __device__ __forceinline__ T get(std::size_t i) const { return array_[i]; }
  /// Sets element `i`. Other threads see it after a barrier.
  __device__ __forceinline__ void set(std::size_t i, const T& value) const { array_[i] = value; }
  /// Where element `i` is, as PTX instructions on shared memory name it.
  [[nodiscard]] __device__ __forceinline__ unsigned address(std::size_t i) const {
    return static_cast<unsigned>(__cvta_generic_to_shared(array_ + i));
  }

 private:
  T* array_;
#endif
};

}  // namespace mezzo::kernels::cuda
