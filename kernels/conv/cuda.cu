// Which way a convolution goes on a CUDA device: small depthwise ones by strips, all others by cuDNN, and
// products of matrices where it is not there or has nothing.
#include "mezzo/kernels/conv/conv.h"

#include "mezzo/kernels/conv/cuda_algorithms.h"
#include "mezzo/kernels/conv/cuda_dnn.h"

namespace mezzo::kernels::cuda {

void conv_forward(Device device, const ConvShape& shape, const View& y, const View& x, const View& weight,
                  const void* bias) {
  if (strips_forward(device, shape, y, x, weight, bias)) return;
  if (dnn_conv(device, ConvMap::forward, shape, x, weight, y, bias)) return;
  columns_forward(device, shape, y, x, weight, bias);
}

void conv_input_gradient(Device device, const ConvShape& shape, const View& x, const View& y,
                         const View& weight, const void* bias) {
  if (strips_input_gradient(device, shape, x, y, weight, bias)) return;
  if (dnn_conv(device, ConvMap::input_gradient, shape, x, weight, y, bias)) return;
  columns_input_gradient(device, shape, x, y, weight, bias);
}

void conv_weight_gradient(Device device, const ConvShape& shape, const View& weight, const View& x,
                          const View& y) {
  if (strips_weight_gradient(device, shape, weight, x, y)) return;
  if (dnn_conv(device, ConvMap::weight_gradient, shape, x, weight, y, nullptr)) return;
  columns_weight_gradient(device, shape, weight, x, y);
}

}  // namespace mezzo::kernels::cuda
