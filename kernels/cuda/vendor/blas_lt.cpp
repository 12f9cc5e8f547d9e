// Where cuBLASLt is looked for, and one handle per device, made at first use and never destroyed. A build
// with the emulated device opens the emulated library only.
#include "mezzo/kernels/cuda/vendor/blas_lt.h"

#include <initializer_list>
#include <map>
#include <mutex>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/error.h"

namespace mezzo::kernels::cuda {

mezzo::cuda::SharedLibrary open_blas_lt() {
#if defined(MEZZO_CUDA_EMULATED)
  const std::initializer_list<const char*> files{MEZZO_EMULATED_BLAS_LT};  // never one that is installed
#else
  // First the version of the toolkit that compiles the kernels: it knows the driver and their GPUs.
  constexpr bool kIs12 = CUDART_VERSION < 13000;
  const std::initializer_list<const char*> files{kIs12 ? "libcublasLt.so.12" : "libcublasLt.so.13",
                                                 kIs12 ? "libcublasLt.so.13" : "libcublasLt.so.12",
                                                 "libcublasLt.so"};
#endif
  return {"matmul", "MEZZO_CUBLASLT", files,
          "install the CUDA toolkit or `pip install nvidia-cublas` and add its folder to LD_LIBRARY_PATH"};
}

const BlasLt& blas_lt() {
  static const auto* const table = new BlasLt;  // never closed: handles may be in use to the very end
  return *table;
}

cublasLtHandle_t blas_lt_handle(int device_index) {
  static auto* const mutex = new std::mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  const std::scoped_lock lock(*mutex);
  cublasLtHandle_t& handle = (*handles)[device_index];
  if (handle == nullptr) {
    const mezzo::cuda::DeviceGuard guard(device_index);
    check_blas_lt(blas_lt().create(&handle), "cublasLtCreate");
  }
  return handle;
}

void check_blas_lt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError("matmul", std::string(call) + " to succeed", blas_lt().status_string(status),
                    "run with MEZZO_CUDA_SYNC=1 to see whether an earlier kernel failed");
}

}  // namespace mezzo::kernels::cuda
