// Changing dtype, device or layout of a tensor without changing its values.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<MemoryFormat>{"contiguous", "channels_last",
                                                                          "preserve"};

struct ToDTypeAttrs {
  DType dtype = DType::f32;
  MEZZO_FIELDS(ToDTypeAttrs, dtype)
};

/// y = x in another dtype, rounded once to nearest even (f8_e4m3: a number beyond 448 is 448, infinity NaN);
/// float to integer truncates (NaN: 0, out of range: nearest); anything to bool is x != 0. Same shape and
/// device, dense in x's memory format. The gradient returns in x's dtype. No copy where the dtype fits.
[[nodiscard]] Tensor to(const Tensor& x, DType dtype);
/// The descriptor behind `to`; autocast records its cached casts with it.
[[nodiscard]] const Op<ToDTypeAttrs>& to_dtype_descriptor();

/// y = x on another device; the same handle when it is there. Copies to the CPU count as a host read. The
/// gradient returns to x's device.
[[nodiscard]] Tensor to(const Tensor& x, Device device);

/// A dense copy with history in a memory format, which is x's own (preserve) where x is channels-last, else
/// row-major; never the same memory. Throws: ShapeError for channels_last of other than 3 to 5 dims.
[[nodiscard]] Tensor clone(const Tensor& x, MemoryFormat format = MemoryFormat::preserve);

}  // namespace mezzo
