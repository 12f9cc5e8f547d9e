// The part of an optimizer that depends on its options' type: constructors, access by group, and their way
// into a state dict.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// Optimizer with `Options` per group: a struct with `lr`, `master_weights`, `fields()` and `check()` (throws
/// ValueError).
template <class Options>
class TypedOptimizer : public Optimizer {
 public:
  /// Options of a group as they are now. Throws IndexError.
  [[nodiscard]] const Options& options(std::size_t group = 0) const {
    this->require_group("Optimizer.options", group);
    return options_[group];
  }

 protected:
  explicit TypedOptimizer(const std::vector<ParamGroup<Options>>& groups) : Optimizer(lists(groups)) {
    for (const auto& group : groups) {
      group.options.check();
      options_.push_back(group.options);
    }
  }
  [[nodiscard]] Value group_options(std::size_t group) const override {
    return attrs_to_value(options_[group]);
  }
  void check_group_options(const Value& options) const override { static_cast<void>(parsed(options)); }
  void set_group_options(std::size_t group, const Value& options) override {
    options_[group] = parsed(options);
  }
  [[nodiscard]] double group_lr(std::size_t group) const override { return options_[group].lr; }
  void set_group_lr(std::size_t group, double lr) override { options_[group].lr = lr; }
  [[nodiscard]] bool master_weights(std::size_t group) const override {
    return options_[group].master_weights;
  }

 private:
  static std::vector<const NamedTensors*> lists(const std::vector<ParamGroup<Options>>& groups) {
    std::vector<const NamedTensors*> result;
    for (const auto& group : groups) result.push_back(&group.parameters);
    return result;
  }
  [[nodiscard]] Options parsed(const Value& saved) const {
    Value::Map fields = saved.as_map();
    std::erase_if(fields, [](const auto& field) { return field.first == "num_parameters"; });
    const Options options = attrs_from_value<Options>(name(), Value(std::move(fields)));
    options.check();
    return options;
  }

  std::vector<Options> options_;
};

}  // namespace mezzo::optim
