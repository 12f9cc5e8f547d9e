// Stands in for cuBLASLt: the CPU's matrix product, run in the stream's order.
#include "emulated_cuda/control.h"
#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/kernels/cuda/gemm.h"

namespace mezzo::kernels::cuda {

void vendor_gemm(const GemmArgs& args, const mezzo::cuda::Stream& stream) {
  mezzo::cuda::check(emulated_cuda::enqueue(mezzo::cuda::native(stream), [args] { cpu::gemm(args); }),
                     "gemm");
}

}  // namespace mezzo::kernels::cuda
