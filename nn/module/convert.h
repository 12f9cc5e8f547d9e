// Module::to for single tensors. Internal to nn.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::nn::detail {

/// Moves a tensor to `device` and, when it is floating, converts it to `dtype` (floating too), behind its
/// handle and as Module::to does.
void convert(const Tensor& tensor, Device device, DType dtype);

}  // namespace mezzo::nn::detail
