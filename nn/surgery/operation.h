// One surgery while it is made. It walks the model as it will be, so that modules are found where
// replacements put them, and exchanges nothing before that walk has come to its end. Internal to nn.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mezzo/nn/surgery.h"

namespace mezzo::nn::surgery {

using PointerSet = std::unordered_set<const void*>;

/// The inventory of a model.
struct Inventory {
  struct Added {
    std::vector<Module*> modules;
    std::vector<Tensor> tensors;
  };
  /// Adds a module and all below it. Returns what is new.
  Added add(Module& top);
  [[nodiscard]] bool holds(const Module& module) const { return modules.contains(&module); }
  [[nodiscard]] bool holds(const Tensor& tensor) const { return tensors.contains(&tensor.impl()); }

  PointerSet modules, tensors;
};

class Operation {
 public:
  Operation(Module& root, const std::vector<Rule>& rules, const Options& options);
  [[nodiscard]] Report run();
  [[nodiscard]] static Report undo(Report& done);

  /// What new tensors take over, beside the device.
  struct Carried {
    bool dtype;
    bool only_changes;  ///< only where the two modules differ as a whole
  };

 private:
  using Used = std::vector<bool>;  ///< per rule, whether it has had its turn; empty: none had
  /// A module on the way from the root to where the walk is.
  struct Frame {
    Module* module;
    std::size_t above;     ///< length of the path of the module above
    std::size_t next = 0;  ///< its slot to be looked into
    Used used;             ///< by the rules that brought it
  };
  /// The decision about a module.
  struct Outcome {
    std::shared_ptr<Module> after;  ///< nullptr: it stays
    std::size_t entry = kNone;      ///< in the report, once there is a place
    Used used;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Planning.
  [[nodiscard]] bool is_open(const Module& module) const {
    const auto found = visited_.find(&module);
    return found != visited_.end() && found->second;
  }
  void look_at_root();
  void enter(Module& module, std::size_t above, Used used);
  void look_into(ChildSlot& slot);
  void take_place(ChildSlot& slot, const std::shared_ptr<Module>& before, Outcome& outcome);
  [[nodiscard]] Outcome decide(const std::shared_ptr<Module>& module);
  [[nodiscard]] const Rule* next_rule(const Module& module, Used& used);
  void keep(const Module& module, std::string why);
  [[nodiscard]] bool sits_in_one_already(const Module& module, const Module& made) const;
  [[nodiscard]] std::size_t depth_of(const Module& sought, const Module& in) const;
  // Exchanging.
  static void exchange(const Report& report);
  /// Gives what `after` brings to the model the mode of `before`, and its tensors what `carried` says.
  /// `present`: the model before the exchange; takes in what was dealt with.
  static void carry_over(const Module& root, const Replaced& replaced, Inventory& present,
                         const Carried& carried);

  Module& root_;
  const std::vector<Rule>& rules_;
  Options options_;
  Inventory originals_;
  Report report_;
  std::vector<std::size_t> matched_;  ///< per rule
  std::unordered_map<const Module*, Outcome> outcomes_;
  std::vector<Frame> frames_;
  /// The modules of the model as it will be, and whether they are among frames_.
  std::unordered_map<const Module*, bool> visited_;
  std::string path_;
};

/// Report::parameter_pairs for these exchanges, before they are made. `originals`: the model; `remaining`:
/// the modules of the model as it will be, in any order.
[[nodiscard]] std::vector<std::pair<Tensor, Tensor>> changed_parameters(
    const std::vector<Replaced>& replaced, const Inventory& originals,
    const std::vector<const Module*>& remaining);

}  // namespace mezzo::nn::surgery
