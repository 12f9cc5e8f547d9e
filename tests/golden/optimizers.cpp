#include "golden/optimizers.h"

#include <array>

#include "golden/case_file.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::golden {

namespace {

/// PyTorch's arguments of a group under mezzo's names: the pair `betas` is two options.
Value options_of_group(const Value& args, const Value& overrides) {
  Value options = Value::Map{};
  const auto take = [&](const Value& map) {
    if (map.is_null()) return;
    for (const auto& [name, value] : map.as_map()) {
      if (name == "betas")
        options.set("beta1", value.at(std::size_t{0})).set("beta2", value.at(1));
      else if (name != "params")
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
        {group.parameters, attrs_from_value<Options>(name, options_of_group(args, group.overrides))});
  }
  return std::make_unique<O>(typed);
}

struct Row {
  std::string_view name;
  std::unique_ptr<optim::Optimizer> (*make)(const std::string&, const std::vector<GroupSpec>&, const Value&);
};
constexpr std::array kOptimizers{
    Row{"SGD", make<optim::SGD, optim::SGDOptions>},
    Row{"Adam", make<optim::Adam, optim::AdamOptions>},
    Row{"AdamW", make<optim::AdamW, optim::AdamWOptions>},
};

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<GroupSpec>& groups, const Value& args) {
  for (const Row& row : kOptimizers) {
    if (row.name == name) return row.make(name, groups, args);
  }
  throw NotSupported("optimizer " + name);
}

}  // namespace mezzo::golden
