// Counters and settings of the emulated cuBLASLt, one object per process. Its functions are in blas_lt/.
#include "emulated_cuda/blas_lt.h"

namespace emulated_cuda {

BlasLt& blas_lt() {
  static BlasLt state;
  return state;
}

}  // namespace emulated_cuda
