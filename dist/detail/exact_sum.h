// Norms over the ranks whose bits do not depend on how the elements are shared out among them.
#pragma once

#include <span>

#include "mezzo/core/tensor.h"
#include "mezzo/dist/group.h"

namespace mezzo::dist {

/// The norm of all ranks' tensors as one vector, f64, 0-dim; order above 0, or infinity. All ranks call it
/// and get the same bits, whatever elements each of them has: the f64 powers are rounded to a grid on which
/// f64 sums are exact, and so is what that leaves of them. Relative error of the sum below 2^-52 + n^2 2^-104
/// for n elements. `device`: of the result, and of the tensors.
[[nodiscard]] Tensor total_norm(std::span<const Tensor> tensors, double order, const Group& group,
                                Device device);

}  // namespace mezzo::dist
