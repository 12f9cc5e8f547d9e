// The sum of what all ranks have, in one fixed order: what 16-bit reductions and deterministic training are
// made of. Moves as many bytes as a ring does: (p - 1) / p of the size to reduce, and as many to gather.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/dist/transport.h"

namespace mezzo::dist {

/// x[0] + x[1] + ... as a binary tree: both halves of [0, p), the first one the larger, are sums of their
/// own. Shapes: parts [p, n], result [n]. Dtypes: floating; the result of 16-bit parts is f32.
[[nodiscard]] Tensor tree_sum(const Tensor& parts);

/// Part rank() of the tree sum over all ranks of `flat`. Shapes: flat [size() * n], result [n]. Dtypes: as
/// tree_sum; what travels is of flat's.
[[nodiscard]] Tensor tree_reduce_scatter(Transport& transport, const Tensor& flat);

}  // namespace mezzo::dist
