// Rules of precision by module: which module each matches, and the region that it opens.
#include "mezzo/amp/module_precision.h"

#include <atomic>
#include <map>
#include <regex>

#include "mezzo/core/error.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/module/walk.h"

namespace mezzo::amp {

class ModulePrecision::Region final : public nn::detail::CallRegion {
 public:
  explicit Region(const PrecisionRule& rule) : rule_(rule) {
    if (rule.float8) float8_ = detail::number_of(*rule.float8);
    mezzo::detail::end_input_hook(detail::begin_rule(rule, float8_));  // throws for a dtype of no region
  }
  [[nodiscard]] mezzo::detail::OpenScope<InputHookState>* begin() const override {
    return has_ended_ ? nullptr : detail::begin_rule(rule_, float8_);
  }
  [[nodiscard]] std::string described() const override {
    if (has_ended_) return {};
    if (rule_.dtype) return to_string(*rule_.dtype);
    return rule_.float8 ? "fp8" : "no autocast";
  }
  void end() noexcept { has_ended_ = true; }

 private:
  PrecisionRule rule_;
  std::uint64_t float8_ = 0;
  std::atomic<bool> has_ended_{false};
};

namespace {

/// The paths of a model, all of a module with several.
std::vector<std::pair<std::string, nn::Module*>> all_paths(nn::Module& net) {
  std::vector<std::pair<std::string, nn::Module*>> paths;
  nn::detail::walk(net, [&](const std::string& path, nn::Module& module) {
    paths.emplace_back(path, &module);
    return true;
  });
  return paths;
}

std::regex pattern_of(const std::string& text) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    throw ValueError("ModulePrecision", "a path of the model, or a regular expression",
                     "'" + text + "' (" + error.what() + ")", "escape dots as \\\\.");
  }
}

/// Which rule each module has, by its index.
class Assignment {
 public:
  explicit Assignment(const PrecisionRules& rules) : rules_(rules) {}

  void set(const std::string& path, nn::Module* module, std::size_t rule) {
    const auto [place, is_new] = by_module_.emplace(module, rule);
    if (is_new || place->second == rule) return;
    throw ValueError(
        "ModulePrecision", "one rule for a module",
        "'" + path + "', which '" + rules_[place->second].first + "' and '" + rules_[rule].first + "' match",
        "name its path in full, or narrow a pattern");
  }
  [[nodiscard]] const std::map<nn::Module*, std::size_t>& by_module() const noexcept { return by_module_; }

 private:
  const PrecisionRules& rules_;
  std::map<nn::Module*, std::size_t> by_module_;
};

/// The modules of each rule: exact paths first, then patterns on the modules that these leave.
std::map<nn::Module*, std::size_t> match(nn::Module& net, const PrecisionRules& rules) {
  const auto paths = all_paths(net);
  Assignment exact(rules), matched(rules);
  std::vector<bool> used(rules.size());
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    for (const auto& [path, module] : paths) {
      if (path != rules[rule].first) continue;
      exact.set(path, module, rule);
      used[rule] = true;
    }
  }
  const std::vector<bool> is_path = used;
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    if (is_path[rule]) continue;
    const std::regex pattern = pattern_of(rules[rule].first);
    for (const auto& [path, module] : paths) {
      if (!std::regex_match(path, pattern)) continue;
      used[rule] = true;
      if (!exact.by_module().contains(module)) matched.set(path, module, rule);
    }
    if (!used[rule]) {
      throw ValueError("ModulePrecision", "rules that match a module",
                       "'" + rules[rule].first + "', which matches none of " + net.described(),
                       "named_modules() lists the paths");
    }
  }
  std::map<nn::Module*, std::size_t> result = exact.by_module();
  result.insert(matched.by_module().begin(), matched.by_module().end());
  return result;
}

}  // namespace

ModulePrecision::ModulePrecision(nn::Module& net, const PrecisionRules& rules) {
  const std::map<nn::Module*, std::size_t> modules = match(net, rules);
  for (const auto& [module, rule] : modules) {
    const auto& there = nn::detail::call_region(*module);
    if (there == nullptr || there->described().empty()) continue;
    throw StateError("ModulePrecision", "modules without a rule",
                     module->described() + ", whose rule is '" + there->described() + "'",
                     "let the other ModulePrecision end first, or give it all rules");
  }
  for (const auto& [text, rule] : rules) regions_.push_back(std::make_shared<Region>(rule));
  for (const auto& [module, rule] : modules) nn::detail::set_call_region(*module, regions_[rule]);
}

ModulePrecision::~ModulePrecision() {
  for (const std::shared_ptr<Region>& region : regions_) region->end();
}

}  // namespace mezzo::amp
