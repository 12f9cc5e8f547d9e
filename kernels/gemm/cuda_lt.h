// Matrix products by cuBLASLt, in the form that it takes.
#pragma once

#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::cuda {
class Stream;
}

namespace mezzo::kernels::cuda {

/// A product as the vendor library takes it, in the order of `stream`: A and B have one dtype (f16, f32, f64,
/// or bf16 where multiplies_bf16(device)), C the same or f32; in A and B one of row and column stride is 1
/// and the other at least the length of such a run; C has column stride 1; batch strides are not negative; no
/// size is 0; alpha is not 0; bias or row sums, not both, and only of one matrix. Or two float8 matrices with
/// scales (not both e5m2; capability 8.9) and C in f16, bf16 or f32, A by rows and B by columns, k and n
/// multiples of 16, memory and runs at multiples of 16 bytes, bias with a 16-bit C only. False, and nothing
/// was done, when cuBLASLt has no algorithm for it. Throws: DeviceError that names the missing library and
/// where to get it, and for sizes beyond 2^31 - 1.
[[nodiscard]] bool vendor_gemm(const GemmArgs& args, const mezzo::cuda::Stream& stream);

}  // namespace mezzo::kernels::cuda
