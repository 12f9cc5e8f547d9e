// Whether two tensors are the same to the last bit, for targets that read a file in two ways.
#pragma once

#include <cstring>

#include "mezzo/core/tensor.h"

namespace mezzo::fuzz {

/// Of tensors that are row-major on the CPU.
inline bool same_tensor(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<std::size_t>(a.numel() * size_of(a.dtype()));
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.is_contiguous() && b.is_contiguous() &&
         (bytes == 0 || std::memcmp(a.impl().data(), b.impl().data(), bytes) == 0);
}

}  // namespace mezzo::fuzz
