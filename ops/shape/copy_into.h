// Copies of a tensor into a part of an existing one, which cat and the gradients of slices use; the options
// of gradients of views; and the checks of in-place functions that are never recorded.
#pragma once

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// The options of a view's gradient: the view's, and the shape that it was taken of.
template <class A>
struct ViewBackwardAttrs : A {
  Shape shape = {};
  static constexpr auto fields() {
    return std::tuple_cat(std::tuple{attr("shape", &ViewBackwardAttrs::shape)}, A::fields());
  }
};

/// slot = x elementwise, converted to slot's dtype with one rounding. Both have one shape; any strides.
inline void copy_into(const Tensor& slot, const Tensor& x) {
  if (x.numel() == 0) return;  // there may be no memory to point to
  // The source's compute type holds its values exactly, so the store is the only rounding.
  kernels::pointwise(slot.device(), kernels::scalar::IdentityFn{}, view_of(slot), std::array{view_of(x)},
                     compute_dtype(x.dtype()));
}

/// x itself where it lies densely in `format`, else a copy that does, without history.
[[nodiscard]] inline Tensor dense_in(const Tensor& x, MemoryFormat format) {
  if (layout::is_dense_in(x.shape(), x.strides(), format)) return x;
  Tensor copy = empty(x.shape(), {.dtype = x.dtype(), .device = x.device(), .memory_format = format});
  copy_into(copy, x);
  return copy;
}

/// Throws unless x may be written in place: it is a leaf or nothing is recorded (AutogradError), and no two
/// of its elements share memory (ShapeError).
inline void check_writable(std::string_view op, const Tensor& x) {
  if (!x.is_leaf() && grad_enabled()) {
    throw AutogradError(op, "a leaf when recording is on", "a result of recorded ops", "write under NoGrad");
  }
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (x.shape()[d] < 2 || x.strides()[d] != 0) continue;
    throw ShapeError(op, "a tensor with memory of its own for each element",
                     "strides " + to_string(x.strides()), "write to a clone()");
  }
}

}  // namespace mezzo::ops
