// The cast of a weight that autocast hands to one call of an op, as a history of its own kind: nobody else
// has its result, so no hook and no request for its gradient can come, and edges lead past it to the leaf
// (edge_to, autograd/node.h). That spares backward a node for every weight.
#pragma once

#include "mezzo/autograd/op.h"

namespace mezzo {

struct ToDTypeAttrs;

namespace autograd {

/// to_dtype under an address of its own, by which its nodes are known.
[[nodiscard]] const Op<ToDTypeAttrs>& leaf_cast_op();
/// Whether a node with this info is of leaf_cast_op.
[[nodiscard]] bool is_leaf_cast(const OpInfo& info);

}  // namespace autograd
}  // namespace mezzo
