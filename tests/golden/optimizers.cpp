// The table from the goldens' optimizers to mezzo's. `betas` becomes two options, NAdam gets the
// correction of PyTorch 1.13, and arguments about execution (foreach, fused) are ignored.
#include "golden/optimizers.h"

#include <array>

#include "golden/case_file.h"
#include "mezzo/optim/adadelta.h"
#include "mezzo/optim/adagrad.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/adamax.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/nadam.h"
#include "mezzo/optim/radam.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::golden {

namespace {

/// Arguments that choose how PyTorch computes, and nothing of what.
bool is_about_execution(std::string_view name) {
  return name == "foreach" || name == "fused" || name == "capturable" || name == "differentiable";
}

/// PyTorch's arguments of a group under mezzo's names: the pair `betas` is two options.
Value options_of_group(std::string_view optimizer, const Value& args, const Value& overrides) {
  Value options = Value::Map{};
  // The goldens are PyTorch 1.13.1's, whose correction later versions have mended.
  if (optimizer == "NAdam") options.set("pytorch_1_13", true);
  const auto take = [&](const Value& map) {
    if (map.is_null()) return;
    for (const auto& [name, value] : map.as_map()) {
      if (name == "betas")
        options.set("beta1", value.at(std::size_t{0})).set("beta2", value.at(1));
      else if (name != "params" && !is_about_execution(name))
        options.set(name, value);
    }
  };
  take(args);
  take(overrides);
  return options;
}

template <class O, class Options>
std::unique_ptr<optim::Optimizer> make(const std::string& name, const std::vector<GroupSpec>& groups,
                                       const Value& args) {
  std::vector<optim::ParamGroup<Options>> typed;
  for (const GroupSpec& group : groups) {
    typed.push_back(
        {group.parameters, attrs_from_value<Options>(name, options_of_group(name, args, group.overrides))});
  }
  return std::make_unique<O>(typed);
}

struct OptimizerRow {
  std::string_view name;
  std::unique_ptr<optim::Optimizer> (*make)(const std::string&, const std::vector<GroupSpec>&, const Value&);
};
constexpr std::array kOptimizers{
    OptimizerRow{"SGD", make<optim::SGD, optim::SGDOptions>},
    OptimizerRow{"Adam", make<optim::Adam, optim::AdamOptions>},
    OptimizerRow{"AdamW", make<optim::AdamW, optim::AdamWOptions>},
    OptimizerRow{"RMSprop", make<optim::RMSprop, optim::RMSpropOptions>},
    OptimizerRow{"Adagrad", make<optim::Adagrad, optim::AdagradOptions>},
    OptimizerRow{"Adadelta", make<optim::Adadelta, optim::AdadeltaOptions>},
    OptimizerRow{"Adamax", make<optim::Adamax, optim::AdamaxOptions>},
    OptimizerRow{"NAdam", make<optim::NAdam, optim::NAdamOptions>},
    OptimizerRow{"RAdam", make<optim::RAdam, optim::RAdamOptions>},
    OptimizerRow{"Lion", make<optim::Lion, optim::LionOptions>},
};

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<GroupSpec>& groups, const Value& args) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.name == name) return row.make(name, groups, args);
  }
  throw NotSupported("optimizer " + name);
}

}  // namespace mezzo::golden
