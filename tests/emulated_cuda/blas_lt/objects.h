// What the handles of the emulated cuBLASLt stand for. Setters take any value of the right size, as
// cuBLASLt's do (tried on version 13.1); what the values mean together is judged in product.cpp.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

struct cublasLtContext {
  int device;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  const float *scale_a = nullptr, *scale_b = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t batch_offset = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  ///< of A, B, C and D
};

namespace emulated_cuda::lt {

/// All objects of one kind that were made and not destroyed.
template <class T>
class Live {
 public:
  cublasStatus_t make(T** handle, T value) {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const std::scoped_lock lock(mutex_);
    auto object = std::make_unique<T>(value);
    *handle = object.get();
    objects_.emplace(*handle, std::move(object));
    return CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t destroy(T* handle) {
    const std::scoped_lock lock(mutex_);
    return handle == nullptr || objects_.erase(handle) == 1 ? CUBLAS_STATUS_SUCCESS
                                                            : CUBLAS_STATUS_INVALID_VALUE;
  }
  [[nodiscard]] bool has(const T* handle) {
    const std::scoped_lock lock(mutex_);
    return objects_.contains(handle);
  }
  /// Never destroyed: mezzo keeps handles to the end of the process.
  static Live& all() {
    static auto* const live = new Live;
    return *live;
  }

 private:
  std::mutex mutex_;
  std::map<const T*, std::unique_ptr<T>> objects_;
};

template <class T>
[[nodiscard]] bool is_live(const T* handle) {
  return Live<T>::all().has(handle);
}

}  // namespace emulated_cuda::lt
