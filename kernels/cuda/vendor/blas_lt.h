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
  decltype(&cublasLtCreate) create = library["cublasLtCreate"];
  decltype(&cublasLtGetStatusString) status_string = library["cublasLtGetStatusString"];
  decltype(&cublasLtMatmul) matmul = library["cublasLtMatmul"];
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_get = library["cublasLtMatmulAlgoConfigGetAttribute"];
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = library["cublasLtMatmulAlgoGetHeuristic"];
  decltype(&cublasLtMatmulDescCreate) desc_create = library["cublasLtMatmulDescCreate"];
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = library["cublasLtMatmulDescDestroy"];
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = library["cublasLtMatmulDescSetAttribute"];
  decltype(&cublasLtMatrixLayoutCreate) layout_create = library["cublasLtMatrixLayoutCreate"];
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = library["cublasLtMatrixLayoutDestroy"];
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = library["cublasLtMatrixLayoutSetAttribute"];
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = library["cublasLtMatmulPreferenceCreate"];
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = library["cublasLtMatmulPreferenceDestroy"];
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      library["cublasLtMatmulPreferenceSetAttribute"];
};

/// The table; opens the library at the first call. Throws DeviceError when it is not there.
[[nodiscard]] const BlasLt& blas_lt();
/// The library's handle for a device; lives to the end of the process.
[[nodiscard]] cublasLtHandle_t blas_lt_handle(int device_index);
/// Throws DeviceError that names the call and the library's status.
void check_blas_lt(cublasStatus_t status, const char* call);

}  // namespace mezzo::kernels::cuda
