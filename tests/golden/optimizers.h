// Optimizers by the goldens' names: the one table that the kinds optimizer, gradscaler_steps and model use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::golden {

/// Parameters of one group and the options that are their own.
struct GroupSpec {
  optim::NamedTensors parameters;
  Value overrides;  ///< map; null: none
};

/// The optimizer `name` with PyTorch's arguments. NotSupported when mezzo has it not.
[[nodiscard]] std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                               const std::vector<GroupSpec>& groups,
                                                               const Value& args);

}  // namespace mezzo::golden
