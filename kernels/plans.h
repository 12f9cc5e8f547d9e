// What the libraries of NVIDIA were found to compute with, as text: of each family that asks one.
#pragma once

#include <string>

namespace mezzo::kernels::cuda {

/// Lines of cuda::plans() (core/cuda.h). Weak symbols, as those of MEZZO_KERNEL: a library that was built
/// without CUDA has none, and their addresses are null.
__attribute__((weak)) std::string gemm_plans();
__attribute__((weak)) std::string conv_plans();

}  // namespace mezzo::kernels::cuda
