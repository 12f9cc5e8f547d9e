// The algorithms that NVIDIA's libraries compute with, as text, for each family of ops that asks a library.
#pragma once

#include <string>

namespace mezzo::kernels::cuda {

/// Lines of cuda::plans() (core/cuda.h). Weak symbols, as MEZZO_KERNEL's: a library that was built without
/// CUDA has none, and their addresses are null.
__attribute__((weak)) std::string gemm_plans();
__attribute__((weak)) std::string conv_plans();

}  // namespace mezzo::kernels::cuda
