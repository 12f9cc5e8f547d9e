// Sums of products of tensors by labelled dims, which einsum and tensordot are made of: permutations,
// reshapes and matrix products in public ops.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "mezzo/autograd/vjp_args.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// A tensor and a label for each of its dims. Dims of equal labels are one index.
struct Labelled {
  Tensor tensor;
  IntList labels;
};

/// The sum over all labels outside of `result` of the product of the operands, its dims in the order of
/// `result`: distinct labels that occur among the operands. Sizes of a label agree or are 1 (ShapeError); a
/// label twice in one operand is its diagonal, where sizes must agree. Operands are taken from left to right.
/// The result has `dtype`, or else the operands' common dtype (DTypeError). May be a view of an operand.
[[nodiscard]] Tensor contract(std::string_view op, std::vector<Labelled> operands, const IntList& result,
                              std::optional<DType> dtype = {});

/// The gradients of such a sum for its two operands, neither of which has a label twice.
[[nodiscard]] Gradients contract_gradients(std::string_view op, const VjpContext& args,
                                           const std::array<IntList, 2>& labels, const IntList& result);
/// Whether a label is there twice.
[[nodiscard]] bool has_repeated(const IntList& labels);

}  // namespace mezzo::ops
