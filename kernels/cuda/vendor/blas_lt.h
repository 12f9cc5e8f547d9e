// cuBLASLt's functions as a table, from the library that is opened at the first matrix product on a GPU.
#pragma once

#include <cublasLt.h>

#include "mezzo/core/cuda/shared_library.h"

namespace mezzo::kernels::cuda {

/// Opens the library. Throws DeviceError when it is not there.
[[nodiscard]] mezzo::cuda::SharedLibrary open_blas_lt();

/// The functions in use, under their own names without the prefix.
struct BlasLt {
  mezzo::cuda::SharedLibrary library = open_blas_lt();
  decltype(&cublasLtCreate) create = find<decltype(&cublasLtCreate)>("cublasLtCreate");
  decltype(&cublasLtGetStatusString) status_string =
      find<decltype(&cublasLtGetStatusString)>("cublasLtGetStatusString");
  decltype(&cublasLtMatmul) matmul = find<decltype(&cublasLtMatmul)>("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_get =
      find<decltype(&cublasLtMatmulAlgoConfigGetAttribute)>("cublasLtMatmulAlgoConfigGetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic =
      find<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescCreate) desc_create =
      find<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) desc_destroy =
      find<decltype(&cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) desc_set =
      find<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout_create =
      find<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy =
      find<decltype(&cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set =
      find<decltype(&cublasLtMatrixLayoutSetAttribute)>("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) preference_create =
      find<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy =
      find<decltype(&cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      find<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");

 private:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return library.function<Function>(name);
  }
};

/// The table; opens the library at the first call. Throws DeviceError when it is not there.
[[nodiscard]] const BlasLt& blas_lt();
/// The library's handle for a device; lives to the end of the process.
[[nodiscard]] cublasLtHandle_t blas_lt_handle(int device_index);
/// Throws DeviceError that names the call and the library's status.
void check_blas_lt(cublasStatus_t status, const char* call);

}  // namespace mezzo::kernels::cuda
