// Matrix products on a CUDA device: any strides and dtypes are brought into a form that the vendor library
// takes; what it does not have (integers, empty products) are kernels of our own.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::cuda {
class Stream;
}

namespace mezzo::kernels::cuda {

/// See kernels::gemm.
void gemm(Device device, const GemmArgs& args);

/// A product as the vendor library takes it, in the order of `stream`: A and B have one dtype (f16, bf16, f32
/// or f64), C the same or f32; in A and B one of row and column stride is 1 and the other at least the length
/// of such a run; C has column stride 1; batch strides are not negative; no size is 0; alpha is not 0; bias
/// or row sums, not both, and only of one matrix. False, and nothing was done, when cuBLASLt has no way for
/// this bias or these row sums. Throws DeviceError that names the missing library and where to get it, and
/// for sizes beyond 2^31 - 1.
[[nodiscard]] bool vendor_gemm(const GemmArgs& args, const mezzo::cuda::Stream& stream);

}  // namespace mezzo::kernels::cuda
