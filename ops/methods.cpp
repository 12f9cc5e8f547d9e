// The members of Tensor that are plain ops. Apart from core, which knows no ops; the in-place ones are in
// inplace.cpp.
#include "mezzo/core/tensor.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

Tensor Tensor::to(DType dtype) const { return mezzo::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return mezzo::to(*this, device); }
Tensor Tensor::contiguous() const { return is_contiguous() ? *this : mezzo::clone(*this); }
Tensor Tensor::clone() const { return mezzo::clone(*this); }

}  // namespace mezzo
