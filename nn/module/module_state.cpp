// Saving and loading a module: a load compares everything before it writes anything.
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/module/walk.h"
#include "mezzo/ops/cast.h"

namespace mezzo::nn {

namespace {

/// Lists what a state dict holds: every path of every parameter and persistent buffer, sharing not resolved.
NamedTensors listed_state(const Module& root) {
  NamedTensors state;
  detail::walk(root, [&](const std::string& path, const Module& module) {
    const auto add = [&](const TensorSlot& slot) {
      if (slot.defined())
        state.emplace_back(path.empty() ? slot.name() : path + "." + slot.name(), slot.get());
    };
    for (const Param* slot : module.param_slots()) add(*slot);
    for (const Buffer* slot : module.buffer_slots()) {
      if (slot->is_persistent()) add(*slot);
    }
    return true;
  });
  return state;
}

std::string kind_text(const Tensor& tensor) {
  return to_string(tensor.shape()) + " " + to_string(tensor.dtype());
}

/// One load: first everything is compared, then everything converted, and only then anything written.
class Loading {
 public:
  Loading(const Module& module, const NamedTensors& state, const LoadOptions& options);
  [[nodiscard]] const LoadReport& report() const { return report_; }
  /// Whether the state has tensors, the module too, and none of them is loaded.
  [[nodiscard]] bool finds_nothing() const {
    return pairs_.empty() && report_.mismatched.empty() && !report_.unexpected.empty() &&
           !report_.missing.empty();
  }
  /// The error's advice about a state that does not fit.
  [[nodiscard]] std::string advice() const;
  /// Writes the values, converted and out of the way of each other before the first write.
  void write() const;

 private:
  void compare(const std::string& name, const Tensor& target, const Tensor& value);
  [[nodiscard]] bool is_in_the_way(const Tensor& value, const Tensor& target) const;

  const LoadOptions& options_;
  bool only_dtypes_differ_ = true;                // of what does not fit
  std::unordered_set<const Storage*> written_;    // memory of all targets
  std::vector<std::pair<Tensor, Tensor>> pairs_;  // target, value
  LoadReport report_;
};

Loading::Loading(const Module& module, const NamedTensors& state, const LoadOptions& options)
    : options_(options) {
  const NamedTensors targets = listed_state(module);
  std::unordered_map<std::string, Tensor> by_name(targets.begin(), targets.end());
  std::unordered_set<std::string> names;
  std::unordered_set<const TensorImpl*> given;
  for (const auto& [name, value] : state) {
    const auto target = by_name.find(name);
    if (!names.insert(name).second) {
      report_.mismatched.push_back(name + ": given more than once");
    } else if (target == by_name.end()) {
      report_.unexpected.push_back(name);
    } else {
      given.insert(&target->second.impl());
      compare(name, target->second, value);
    }
  }
  for (const auto& [path, target] : targets) {
    written_.insert(target.impl().storage.get());
    if (given.count(&target.impl()) == 0) report_.missing.push_back(path);
  }
}

void Loading::compare(const std::string& name, const Tensor& target, const Tensor& value) {
  if (value.defined() && value.shape() == target.shape() &&
      (options_.cast || value.dtype() == target.dtype())) {
    pairs_.emplace_back(target, value);
    return;
  }
  only_dtypes_differ_ = only_dtypes_differ_ && value.defined() && value.shape() == target.shape();
  report_.mismatched.push_back(name + ": " +
                               (value.defined()
                                    ? kind_text(target) + " in the module, " + kind_text(value) + " given"
                                    : std::string("given as an undefined tensor")));
}

/// The prefix that must be put before `name`, or taken from its front, to get `other`: "model."; empty when
/// no whole names do.
std::string prefix_between(const std::string& name, const std::string& other) {
  const bool ends_so = name.size() > other.size() && name.ends_with(other);
  const std::string prefix = ends_so ? name.substr(0, name.size() - other.size()) : "";
  return prefix.ends_with('.') ? prefix : "";
}

std::string Loading::advice() const {
  if (!report_.mismatched.empty()) {
    return only_dtypes_differ_ ? "load with cast = true to convert what is given"
                               : "load into a module of the same shapes and dtypes";
  }
  if (!finds_nothing()) return "load with strict = false to accept other names";
  for (const std::string& name : report_.unexpected) {
    for (const std::string& path : report_.missing) {
      if (const std::string prefix = prefix_between(name, path); !prefix.empty()) {
        return "its names begin with '" + prefix +
               "': read a checkpoint by train::load_checkpoint, or take that away";
      }
      if (const std::string prefix = prefix_between(path, name); !prefix.empty())
        return "the module's names begin with '" + prefix + "': load into that part of it";
    }
  }
  return "none of the names is one of the module's: give it the state of such a module";
}

/// Whether writing some target may change `value` before `target` has got it.
bool Loading::is_in_the_way(const Tensor& value, const Tensor& target) const {
  const TensorImpl& from = value.impl();
  const TensorImpl& onto = target.impl();
  const bool is_itself =
      from.storage == onto.storage && from.offset == onto.offset && from.strides == onto.strides;
  return !is_itself && written_.count(from.storage.get()) > 0;
}

void Loading::write() const {
  const NoGrad no_grad;
  std::vector<Tensor> values;
  for (const auto& [target, given] : pairs_) {
    Tensor value = to(to(given.detach(), target.dtype()), target.device());
    if (is_in_the_way(value, target)) value = clone(value);
    values.push_back(std::move(value));
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i].first.copy_(values[i]);
}

}  // namespace

NamedTensors Module::state_dict() const {
  NamedTensors result = listed_state(*this);
  for (auto& [path, tensor] : result) tensor = tensor.detach();
  return result;
}

LoadReport Module::load_state_dict(const NamedTensors& state, const LoadOptions& options) {
  const Loading loading(*this, state, options);
  const LoadReport& report = loading.report();
  if (!report.mismatched.empty() || (options.strict && !report.is_exact()) || loading.finds_nothing())
    throw ValueError("load_state_dict", "the state of " + type_name(), to_string(report), loading.advice());
  loading.write();
  return report;
}

// --- the report of a load in words

namespace {

void add_group(std::string& text, const std::vector<std::string>& names, const char* what,
               const char* separator) {
  if (names.empty()) return;
  if (!text.empty()) text += ", ";
  constexpr std::size_t kMostNamed = 5;
  text += std::to_string(names.size()) + " " + what + " (" +
          mezzo::detail::listed(names, kMostNamed, std::identity(), separator) + ")";
}

}  // namespace

bool LoadReport::is_exact() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }

std::string to_string(const LoadReport& report) {
  std::string text;
  add_group(text, report.missing, "missing", ", ");
  add_group(text, report.unexpected, "unexpected", ", ");
  add_group(text, report.mismatched, "mismatched", "; ");
  return text.empty() ? "nothing" : text;
}

}  // namespace mezzo::nn
