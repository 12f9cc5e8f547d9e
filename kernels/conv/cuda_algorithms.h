// Our own algorithms, beside cuDNN, for the maps of kernels/conv/conv.h on a CUDA device.
#pragma once

#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cuda {

/// The dtype that a map over these arrays is computed in.
[[nodiscard]] inline DType conv_compute_dtype(const View& a, const View& b, const View& c) {
  return a.dtype == DType::f64 || b.dtype == DType::f64 || c.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// The maps as matrix products with columns of the input: the elements that each window covers. Columns are
/// made for as much of the batch as fits conv_column_bytes() and, where a window covers one place, not at
/// all. Products run as kernels/gemm/gemm.h says, sums over parts of the batch are kept in the compute dtype.
void columns_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                     const void* bias);
void columns_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                            const View& weight, const void* bias);
void columns_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                             const View& y);

/// How much memory columns may take, unless the columns of one place, or of one channel per group of a
/// sample's gradient, take more. 256 MiB at first; for tests.
[[nodiscard]] std::int64_t conv_column_bytes();
void set_conv_column_bytes(std::int64_t bytes);

/// Depthwise convolutions by strips (cuda_strips.cu): kernels of 3 x 3, 5 x 5 and 7 x 7 and stride 1, or 3 x
/// 3 and stride 2; false, and nothing is computed, where a shape, layout or dtype has no such kernel.
[[nodiscard]] bool strips_forward(Device device, const ConvShape& shape, const View& y, const View& x,
                                  const View& weight, const void* bias);
[[nodiscard]] bool strips_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                                         const View& weight, const void* bias);
[[nodiscard]] bool strips_weight_gradient(Device device, const ConvShape& shape, const View& weight,
                                          const View& x, const View& y);

}  // namespace mezzo::kernels::cuda
