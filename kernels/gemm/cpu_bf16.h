// Which of the two ways bf16 products go on this processor: widened to f32, or through the processor's own
// bf16 instructions. Apart from cpu.cpp because the answer is measured.
#pragma once

#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {

/// True when the product of two bf16 matrices is to run on native_bf16_product(). The way that
/// set_bf16_gemm() or MEZZO_CPU_BF16 ask for; else measured once per process, in a few milliseconds, at the
/// first call. Always false when gemm_engine() is Eigen, on ARM when somebody named an engine. Throws
/// ValueError when MEZZO_CPU_BF16 asks for what is not there.
[[nodiscard]] bool use_native_bf16();

/// The product by the processor's own bf16 instructions, nullptr where there is none.
[[nodiscard]] GemmTileFunction<BFloat16, float> native_bf16_product();

}  // namespace mezzo::kernels::cpu
