// The members of Tensor that are plain ops. Apart from core, which knows no ops; the in-place ones are in
// ops/pointwise/inplace.cu.
#include "mezzo/core/tensor.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

Tensor Tensor::to(DType dtype) const { return mezzo::to(*this, dtype); }
Tensor Tensor::to(Device device) const { return mezzo::to(*this, device); }
Tensor Tensor::to(Device device, DType dtype) const { return mezzo::to(mezzo::to(*this, device), dtype); }
Tensor Tensor::cpu() const { return mezzo::to(*this, Device::cpu()); }
Tensor Tensor::cuda() const { return mezzo::to(*this, Device::cuda()); }
Tensor Tensor::contiguous(MemoryFormat format) const {
  static_cast<void>(required("contiguous"));
  if (format == MemoryFormat::preserve) format = MemoryFormat::contiguous;
  return is_contiguous(format) ? *this : mezzo::clone(*this, format);
}
Tensor Tensor::to(MemoryFormat format) const {
  static_cast<void>(required("to"));
  if (format == MemoryFormat::preserve || (suggest_memory_format() == format && is_contiguous(format)))
    return *this;
  return mezzo::clone(*this, format);
}
Tensor Tensor::clone() const { return mezzo::clone(*this); }

}  // namespace mezzo
