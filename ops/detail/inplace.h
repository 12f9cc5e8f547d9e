// Writing into a tensor that is there: what the in-place members of Tensor share.
#pragma once

#include <span>
#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo::ops {

/// Throws AutogradError, in the name of `op`, for a tensor that a recorded write may not go into, see
/// Tensor::add_.
void require_recordable_write(std::string_view op, const Tensor& x);

/// Throws ShapeError for a tensor that shows one element in several places, as `expand` makes them.
void require_own_memory(std::string_view op, const Tensor& x);

/// index_put (ops/indexing.h) into x itself, which may have any strides. Not recorded.
void index_put_into(const Tensor& x, std::span<const Tensor> indices, const Tensor& values);

/// out = x * factor, rounded once, in out's memory. Shapes: both the same. Not recorded.
void scale_into(const Tensor& out, const Tensor& x, double factor);

}  // namespace mezzo::ops
