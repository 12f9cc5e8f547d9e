// Every optimizer, in each variant that keeps other buffers or takes another path: for tests of what holds
// for all of them. Compiled once for all tests, as nine optimizers are much to instantiate.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// An optimizer with options; `changes` are a map of other values for some of them.
struct Algorithm {
  std::string name;       ///< letters and digits
  std::string optimizer;  ///< as state dicts call it
  Value options;
  std::function<std::unique_ptr<Optimizer>(const std::vector<NamedTensors>& groups, const Value& changes)>
      make_groups;
  std::function<void(Optimizer& optimizer, const NamedTensors& group, const Value& changes)> add_group;

  [[nodiscard]] std::unique_ptr<Optimizer> make(const std::vector<Tensor>& parameters,
                                                const Value& changes = Value::Map{}) const {
    return make_groups({unnamed(parameters)}, changes);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Algorithm& algorithm) {
  return out << algorithm.name;
}

inline const Value kMasters = Value::Map{{"master_weights", true}};

[[nodiscard]] std::vector<Algorithm> algorithms();

}  // namespace mezzo::optim
