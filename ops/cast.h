// Changing dtype, device or layout of a tensor without changing its values.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

struct ToDTypeAttrs {
  DType dtype = DType::f32;
  static constexpr auto fields() { return std::tuple{attr("dtype", &ToDTypeAttrs::dtype)}; }
};

/// y = x in another dtype, rounded once to nearest even; float to integer truncates (NaN: 0, out of range:
/// nearest); anything to bool is x != 0. Same shape and device, contiguous. The gradient returns in x's
/// dtype. The same handle when the dtype fits already.
[[nodiscard]] Tensor to(const Tensor& x, DType dtype);
/// The descriptor behind `to`; autocast records its cached casts with it.
[[nodiscard]] const Op<ToDTypeAttrs>& to_dtype_descriptor();

/// y = x on another device; the same handle when it is there. Copies to the CPU count as a host read. The
/// gradient returns to x's device.
[[nodiscard]] Tensor to(const Tensor& x, Device device);

/// A row-major copy with history; never the same memory.
[[nodiscard]] Tensor clone(const Tensor& x);

}  // namespace mezzo
