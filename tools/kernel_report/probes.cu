// Kernels that tools/kernel_report looks at and whose own sources hold too many others to be compiled for
// that.
#include "mezzo/kernels/attention/cuda_flash.h"
#include "mezzo/kernels/indexing/embedding.h"
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/kernels/pointwise/cuda.h"

namespace mezzo::kernels::cuda {

template void pointwise<float, scalar::ReluFn, 1>(Device, scalar::ReluFn, const View&,
                                                  const std::array<View, 1>&);
template void launch_flash_tiles<Half, AttentionResult::output, 64, true>(Device, AttentionPass<float>,
                                                                          std::int64_t);
template void launch_flash_tiles<Half, AttentionResult::queries, 64, true>(Device, AttentionPass<float>,
                                                                           std::int64_t);
template void launch_flash_tiles<Half, AttentionResult::keys_and_values, 64, true>(Device,
                                                                                   AttentionPass<float>,
                                                                                   std::int64_t);
template __global__ void detail::generate<double, kernels::detail::SumPieces<float>>(
    kernels::detail::SumPieces<float>, Array, Space<1>);
template __global__ void detail::generate<double, kernels::detail::SumRows<float>>(
    kernels::detail::SumRows<float>, Array, Space<1>);

}  // namespace mezzo::kernels::cuda
