// Surgery, the plan: which module goes, what takes its place, and where.
#include "mezzo/nn/surgery/operation.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::nn::surgery {

namespace {

/// Whether two trees have modules of the same types under the same names, with `core` in the same place.
bool are_alike(const Module& a, const Module& b, const Module& core) {
  if (&a == &core || &b == &core) return &a == &b;
  const auto slots = a.child_slots(), others = b.child_slots();
  if (typeid(a) != typeid(b) || slots.size() != others.size()) return false;
  return std::equal(slots.begin(), slots.end(), others.begin(),
                    [&](const ChildSlot* slot, const ChildSlot* other) {
                      if (slot->name() != other->name() || !slot->module() != !other->module()) return false;
                      return !slot->module() || are_alike(*slot->module(), *other->module(), core);
                    });
}

}  // namespace

Operation::Operation(Module& root, const std::vector<Rule>& rules, const Options& options)
    : root_(root), rules_(rules), options_(options), matched_(rules.size(), 0) {
  for (const Rule& rule : rules) {
    if (rule.matches && rule.decide) continue;
    throw ValueError("surgery", "rules with the functions matches and decide", "a rule without one",
                     "set both, or use of_type");
  }
  report_.root_ = &root;
  originals_.add(root);
}

Report Operation::run() {
  look_at_root();
  enter(root_, 0, {});
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    const auto slots = frame.module->child_slots();
    if (frame.next < slots.size()) {
      look_into(*slots[frame.next++]);
    } else {
      visited_[frame.module] = false;
      path_.resize(frame.above);
      frames_.pop_back();
    }
  }
  std::vector<const Module*> remaining;
  for (const auto& [module, open] : visited_) remaining.push_back(module);
  report_.pairs_ = changed_parameters(report_.replaced_, originals_, remaining);
  report_.keeps_dtype_ = options_.keep_dtype;
  const Carried carried{.dtype = !options_.keep_dtype, .only_changes = false};
  for (const Replaced& replaced : report_.replaced_) carry_over(root_, replaced, originals_, carried);
  for (const auto& [before, after] : report_.pairs_) {
    if (before.defined() && after.defined() && !before.requires_grad()) after.requires_grad_(false);
  }
  exchange(report_);
  if (report_.empty() && report_.kept().empty()) {
    std::string list;
    for (const Rule& rule : rules_) list += (list.empty() ? "" : ", ") + rule.what;
    report_.add_note("found nothing to replace: " + (list.empty() ? "no rules were given" : "no " + list));
  }
  return std::move(report_);
}

void Operation::look_at_root() {
  Used none;
  if (next_rule(root_, none) != nullptr)
    keep(root_, "is the root, which no slot holds: make its replacement yourself");
}

void Operation::enter(Module& module, std::size_t above, Used used) {
  visited_[&module] = true;
  frames_.push_back({&module, above, 0, std::move(used)});
}

void Operation::look_into(ChildSlot& slot) {
  const std::shared_ptr<Module> before = slot.module();
  if (before == nullptr) return;
  const std::size_t above = path_.size();
  if (above > 0) path_ += ".";
  path_ += slot.name();
  auto found = outcomes_.find(before.get());
  if (found == outcomes_.end()) found = outcomes_.emplace(before.get(), decide(before)).first;
  Outcome& outcome = found->second;
  Module* held = before.get();
  // Inside of its own replacement a module stays; there is no other way to wrap it.
  const bool wraps = outcome.after && is_open(*outcome.after) && !originals_.holds(*outcome.after);
  if (outcome.after && !wraps) {
    take_place(slot, before, outcome);
    held = outcome.after.get();
  }
  if (is_open(*held)) {
    throw ValueError("surgery", "a replacement for '" + path_ + "' that does not contain its place",
                     held->type_name() + ", which does", "a model must not contain itself");
  }
  if (visited_.count(held) == 0)
    enter(*held, above, originals_.holds(*held) ? Used() : outcome.used);
  else
    path_.resize(above);
}

void Operation::take_place(ChildSlot& slot, const std::shared_ptr<Module>& before, Outcome& outcome) {
  slot.require_type(outcome.after);
  if (outcome.entry == kNone) {
    outcome.entry = report_.replaced_.size();
    report_.replaced_.push_back({{}, before, outcome.after});
  }
  std::vector<std::string>& paths = report_.replaced_[outcome.entry].paths;
  report_.places_.push_back({&slot, outcome.entry, paths.size()});
  paths.push_back(path_);
}

/// The first rule that matches a module and is not in `used` yet; it is added to `used`.
const Rule* Operation::next_rule(const Module& module, Used& used) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if ((!used.empty() && used[i]) || !rules_[i].matches(module)) continue;
    used.resize(rules_.size());
    used[i] = true;
    return &rules_[i];
  }
  return nullptr;
}

Operation::Outcome Operation::decide(const std::shared_ptr<Module>& module) {
  Outcome outcome;
  const bool original = originals_.holds(*module);
  if (!original) outcome.used = frames_.back().used;
  if (!original && !options_.recurse) return outcome;
  std::shared_ptr<Module> present = module;
  do {
    const Rule* const rule = next_rule(*present, outcome.used);
    if (rule == nullptr) break;
    std::size_t& matched = matched_[static_cast<std::size_t>(rule - rules_.data())];
    Decision decision = rule->decide(*present, {path_, matched++, present});
    if (decision.replacement == nullptr || decision.replacement == present) {
      keep(*present, decision.why.empty() ? "its rule gives no replacement" : decision.why);
      break;
    }
    if (sits_in_one_already(*present, *decision.replacement)) {
      keep(*present, "sits in a " + decision.replacement->type_name() + " already");
      break;
    }
    present = std::move(decision.replacement);
  } while (options_.recurse && !originals_.holds(*present));
  if (present != module) outcome.after = std::move(present);
  return outcome;
}

void Operation::keep(const Module& module, std::string why) {
  report_.kept_.push_back({path_, module.type_name(), std::move(why)});
}

/// Whether `made` wraps a module that is wrapped by modules of the same types already.
bool Operation::sits_in_one_already(const Module& module, const Module& made) const {
  if (originals_.holds(made)) return false;
  const std::size_t depth = depth_of(module, made);
  if (depth == 0 || depth > frames_.size()) return false;
  return are_alike(*frames_[frames_.size() - depth].module, made, module);
}

/// How many levels below `in`, a module that a rule made, the module `sought` is; 0 when it is not below it.
std::size_t Operation::depth_of(const Module& sought, const Module& in) const {
  for (const ChildSlot* slot : in.child_slots()) {
    if (slot->module().get() == &sought) return 1;
    if (!slot->module() || originals_.holds(*slot->module())) continue;
    if (const std::size_t below = depth_of(sought, *slot->module()); below > 0) return below + 1;
  }
  return 0;
}

Report replace(Module& root, const std::vector<Rule>& rules, const Options& options) {
  return Operation(root, rules, options).run();
}

Report replace_if(Module& root, mezzo::detail::Function<bool(const Module&)> predicate,
                  mezzo::detail::Function<Decision(Module&, const Match&)> decide, const Options& options) {
  return replace(root, {{"module of that kind", std::move(predicate), std::move(decide)}}, options);
}

}  // namespace mezzo::nn::surgery
