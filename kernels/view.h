// View, which ops hand to kernels: a trivially copyable description of a strided array. Kernels know no
// tensors.
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/dims.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/layout.h"

namespace mezzo::kernels {

/// A strided array in device memory; strides in elements.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Dims strides;
};

/// The view with its dims in the order of memory, for loops that take elements in any order: a dense array
/// whose dims are permuted is then one run.
[[nodiscard]] inline View in_memory_order(const View& view) {
  View result{view.data, view.dtype, {}, {}};
  for (const std::int64_t d :
       layout::along_memory(layout::wrap_dims("", {}, view.shape.size()), view.strides)) {
    result.shape.push_back(view.shape[static_cast<std::size_t>(d)]);
    result.strides.push_back(view.strides[static_cast<std::size_t>(d)]);
  }
  return result;
}

/// Calls f with an unsigned integer of `bytes` bytes (1, 2, 4 or 8): what moves elements of any dtype as they
/// are.
template <class F>
void with_bits(std::int64_t bytes, const F& f) {
  if (bytes == 1) return f(std::uint8_t{});
  if (bytes == 2) return f(std::uint16_t{});
  if (bytes == 4) return f(std::uint32_t{});
  f(std::uint64_t{});
}

}  // namespace mezzo::kernels
