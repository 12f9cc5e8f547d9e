// cuda::plans(), in builds with and without CUDA.
#include "mezzo/kernels/plans.h"

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

std::string plans() {
  std::string text;
  for (std::string (*const lines)() : {kernels::cuda::gemm_plans, kernels::cuda::conv_plans}) {
    if (lines != nullptr) text += lines();
  }
  return text;
}

}  // namespace mezzo::cuda
