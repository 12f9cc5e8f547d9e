// What crosses from ops to kernels: a trivially copyable description of a strided array. Kernels know no
// tensors.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

/// A strided array in device memory; strides in elements.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Dims strides;
};

}  // namespace mezzo::kernels
