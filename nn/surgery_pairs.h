// Which parameters a surgery changes. Internal to nn.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/nn/surgery_operation.h"

namespace mezzo::nn::surgery {

/// Report::parameter_pairs for these exchanges, before they are made. `originals`: the model; `remaining`:
/// the modules of the model as it will be, in any order.
[[nodiscard]] std::vector<std::pair<Tensor, Tensor>> changed_parameters(
    const std::vector<Replaced>& replaced, const Inventory& originals,
    const std::vector<const Module*>& remaining);

}  // namespace mezzo::nn::surgery
