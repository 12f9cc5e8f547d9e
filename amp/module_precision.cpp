// Rules of precision by module: which module each matches, and the region that it opens.
#include "mezzo/amp/module_precision.h"

#include <atomic>
#include <map>
#include <regex>

#include "mezzo/core/error.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/module/path_pattern.h"
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

/// The rule of each module, by its index: exact paths first, then patterns for the modules that these leave.
std::map<nn::Module*, std::size_t> match(nn::Module& net, const PrecisionRules& rules) {
  const auto paths = all_paths(net);
  std::map<nn::Module*, std::size_t> chosen;
  const auto choose = [&](const std::string& path, nn::Module* module, std::size_t rule) {
    const auto [place, is_new] = chosen.emplace(module, rule);
    if (is_new || place->second == rule) return;
    throw ValueError(
        "ModulePrecision", "one rule for a module",
        "'" + path + "', which '" + rules[place->second].first + "' and '" + rules[rule].first + "' match",
        "name its path in full, or narrow a pattern");
  };
  std::vector<std::size_t> patterns;
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    bool is_path = false;
    for (const auto& [path, module] : paths) {
      if (path != rules[rule].first) continue;
      choose(path, module, rule);
      is_path = true;
    }
    if (!is_path) patterns.push_back(rule);
  }
  const auto named = chosen;
  for (const std::size_t rule : patterns) {
    const std::regex pattern = nn::detail::path_pattern("ModulePrecision", rules[rule].first);
    bool matches = false;
    for (const auto& [path, module] : paths) {
      if (!std::regex_match(path, pattern)) continue;
      matches = true;
      if (!named.contains(module)) choose(path, module, rule);
    }
    if (matches) continue;
    throw ValueError("ModulePrecision", "rules that match a module",
                     "'" + rules[rule].first + "', which matches none of " + net.described(),
                     "named_modules() lists the paths");
  }
  return chosen;
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
