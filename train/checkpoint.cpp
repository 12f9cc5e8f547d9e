// The states of a training's parts, saved and loaded as named tensors and one JSON text.
#include "mezzo/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/averaged_weights.h"

namespace mezzo::train {

namespace {

// Keys of the metadata.
constexpr const char* kVersionKey = "mezzo.checkpoint";
constexpr const char* kValuesKey = "mezzo.values";
constexpr std::int64_t kVersion = 1;
/// Before the names of parameters whose gradients they are.
constexpr std::string_view kGradients = "gradients.";

std::string full_name(const std::string& part, const std::string& tensor) {
  return part.empty() ? tensor : tensor.empty() ? part : part + "." + tensor;
}

void check_names(const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (parts[i].name() != parts[j].name()) continue;
      throw ValueError("checkpoint", "parts of different names", quote(parts[i].name()) + " twice",
                       "rename one");
    }
    if (parts[i].name() + "." == kGradients || parts[i].name().starts_with(kGradients)) {
      throw ValueError("checkpoint", "names of parts other than " + quote(kGradients), quote(parts[i].name()),
                       "that one is for the gradients of modules");
    }
  }
}

/// An unsigned number as text: JSON's numbers here have a sign.
std::uint64_t parse_unsigned(const Value& value) {
  const std::string& text = value.as_string();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw ValueError("load_checkpoint", "a number of 64 bits", quote(text), "check the file");
  return number;
}

PartState part_of(Value value, nn::NamedTensors tensors = {}) {
  return {std::move(value), std::move(tensors)};
}

template <class T, class Get>
detail::PartAccess access_value(T& object, Get get) {
  return {.save = [&object] { return part_of(object); },
          .load = [&object, get](const PartState& state) { object = get(state.value); },
          .has_value = true};
}

}  // namespace

detail::PartAccess detail::access(nn::Module& module) {
  return {
      .save = [&module] { return part_of({}, module.state_dict()); },
      .load = [&module](const PartState& state) { module.load_state_dict(state.tensors, {.strict = false}); },
      .module = &module,
      .has_tensors = true};
}

detail::PartAccess detail::access(Generator& generator) {
  return {.save =
              [&generator] {
                const GeneratorState state = generator.state();
                return part_of(Value::Map{{"seed", std::to_string(state.seed)},
                                          {"offset", std::to_string(state.offset)}});
              },
          .load =
              [&generator](const PartState& state) {
                generator.set_state({.seed = parse_unsigned(state.value.at("seed")),
                                     .offset = parse_unsigned(state.value.at("offset"))});
              },
          .has_value = true};
}

detail::PartAccess detail::access(Tensor& tensor) {
  return {.save =
              [&tensor] {
                return part_of({}, {{"", tensor.detach()}});
              },
          .load =
              [&tensor](const PartState& state) {
                const NoGrad no_grad;
                const Tensor& saved = state.tensors.at(0).second;
                if (saved.shape() != tensor.shape()) {
                  throw ShapeError("load_checkpoint", "a tensor of shape " + to_string(tensor.shape()),
                                   to_string(saved.shape()), "");
                }
                tensor.copy_(saved);
              },
          .has_tensors = true};
}

detail::PartAccess detail::access(Value& value) {
  return access_value(value, [](const Value& saved) { return saved; });
}
detail::PartAccess detail::access(std::int64_t& number) {
  return access_value(number, [](const Value& saved) { return saved.as_int(); });
}
detail::PartAccess detail::access(int& number) {
  return access_value(number, [](const Value& saved) {
    const std::int64_t wide = saved.as_int();
    if (!std::in_range<int>(wide))
      throw ValueError("load_checkpoint", "a number that an int holds", std::to_string(wide), "");
    return static_cast<int>(wide);
  });
}
detail::PartAccess detail::access(double& number) {
  return access_value(number, [](const Value& saved) { return saved.as_double(); });
}
detail::PartAccess detail::access(bool& flag) {
  return access_value(flag, [](const Value& saved) { return saved.as_bool(); });
}
detail::PartAccess detail::access(std::string& text) {
  return access_value(text, [](const Value& saved) { return saved.as_string(); });
}

io::TensorFile detail::checkpoint_of(const Parts& parts, const SaveCheckpointOptions& options) {
  check_names(parts);
  io::TensorFile file{.tensors = {}, .metadata = options.metadata};
  Value values = Value::Map{};
  nn::NamedTensors gradients;
  for (const Part& part : parts) {
    PartState state = part.access().save();
    const auto is_average = [](const auto& named) { return optim::holds_average(named.second); };
    if (part.access().module != nullptr && std::ranges::any_of(state.tensors, is_average)) {
      throw StateError("save_checkpoint", "the weights of " + quote(part.name()),
                       "averages, as average_weights() still lives",
                       "end that scope first; for a file of averages write averages() by io::save");
    }
    if (part.access().has_value) values.set(part.name(), std::move(state.value));
    for (auto& [name, tensor] : state.tensors)
      file.tensors.emplace_back(full_name(part.name(), name), tensor);
    if (part.access().module == nullptr || !options.gradients) continue;
    for (const auto& [name, parameter] : part.access().module->named_parameters()) {
      const Tensor gradient = parameter.grad();
      if (gradient.defined())
        gradients.emplace_back(std::string(kGradients) + full_name(part.name(), name), gradient.detach());
    }
  }
  file.add("", gradients);
  std::vector<std::string> names;
  for (const auto& named : file.tensors) names.push_back(named.first);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw ValueError("checkpoint", "tensors of different names", quote(*twice) + " twice", "rename a part");
  file.metadata["format"] = "pt";  // what Hugging Face's loaders look for
  file.metadata[kVersionKey] = std::to_string(kVersion);
  file.metadata[kValuesKey] = io::dump_json(values);
  return file;
}

void save_checkpoint(const std::string& path, const Parts& parts, const SaveCheckpointOptions& options) {
  const Phase phase("checkpoint");
  detail::checkpoint_of(parts, options).save(path, {.max_shard_size = options.max_shard_size});
}

namespace {

/// A file's content by parts.
class Loading {
 public:
  Loading(const std::string& path, const Parts& parts) : path_(path), parts_(parts) {
    file_ = io::TensorFile::load(path, Device::cpu(), {.mapped = true});  // every part copies what it takes
    read_values();
    states_.resize(parts.size());
    gradients_.resize(parts.size());
    for (const auto& [name, tensor] : file_.tensors) place(name, tensor);
  }

  nn::LoadReport load(const LoadCheckpointOptions& options) {
    compare();
    nn::LoadReport faults = report_;
    for (auto* list : {&faults.missing, &faults.unexpected}) {
      std::erase_if(*list, [&](const std::string& name) {
        return !options.optional.empty() && name.starts_with(options.optional);
      });
    }
    if (!faults.mismatched.empty() || (options.strict && !faults.is_exact())) {
      throw ValueError("load_checkpoint '" + path_ + "'", "what the parts have", nn::to_string(faults),
                       options.strict ? "strict = false leaves what is missing or unexpected"
                                      : "make the model as it was");
    }
    load_all();
    return report_;
  }

 private:
  void read_values() {
    const auto version = file_.metadata.find(kVersionKey);
    if (version == file_.metadata.end()) return;
    std::int64_t number = 0;
    const std::string& text = version->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > kVersion) {
      throw ValueError("load_checkpoint '" + path_ + "'",
                       "a checkpoint of format " + std::to_string(kVersion) + " or older",
                       "format " + quote(text),
                       "load it with the version of mezzo that wrote it, or a newer one");
    }
    is_checkpoint_ = true;
    values_ = io::parse_json(file_.metadata[kValuesKey]);
    if (!values_.is_map()) {
      throw IoError("load_checkpoint '" + path_ + "'", "a map of values",
                    std::string(to_string(values_.kind())), "the file is damaged");
    }
  }

  /// The part whose name is the longest that `name` begins with.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::string>> owner_of(std::string_view name) const {
    std::optional<std::pair<std::size_t, std::string>> found;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::string& part = parts_[i].name();
      if (!parts_[i].access().has_tensors || (found && part.size() <= parts_[found->first].name().size()))
        continue;
      if (part.empty())
        found = {i, std::string(name)};
      else if (name == part)
        found = {i, ""};
      else if (name.starts_with(part) && name[part.size()] == '.')
        found = {i, std::string(name.substr(part.size() + 1))};
    }
    return found;
  }

  void place(const std::string& name, const Tensor& tensor) {
    const bool is_gradient = is_checkpoint_ && name.starts_with(kGradients);
    const auto owner = owner_of(is_gradient ? std::string_view(name).substr(kGradients.size()) : name);
    if (!owner)
      report_.unexpected.push_back(name);
    else
      (is_gradient ? gradients_ : states_)[owner->first].tensors.emplace_back(owner->second, tensor);
  }

  /// Notes what does not fit. Of modules all is known beforehand; other parts look for themselves when they
  /// load.
  void compare() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const detail::PartAccess& access = parts_[i].access();
      if (access.has_value) {
        if (const Value* const value = values_.is_map() ? values_.find(parts_[i].name()) : nullptr)
          states_[i].value = *value;
        else
          report_.missing.push_back(parts_[i].name());
      }
      if (access.module != nullptr)
        compare_module(i);
      else if (access.has_tensors && !access.has_value && states_[i].tensors.empty())
        report_.missing.push_back(parts_[i].name());
    }
    if (!values_.is_map()) return;
    for (const auto& [name, value] : values_.as_map()) {
      const auto is_it = [&key = name](const Part& part) {
        return part.access().has_value && part.name() == key;
      };
      if (std::none_of(parts_.begin(), parts_.end(), is_it)) report_.unexpected.push_back(name);
    }
  }

  void compare_module(std::size_t i) {
    const std::string& part = parts_[i].name();
    const nn::NamedTensors own = parts_[i].access().module->state_dict();
    const std::map<std::string, Tensor> there(own.begin(), own.end());
    nn::NamedTensors& saved = states_[i].tensors;
    const std::map<std::string, Tensor> found(saved.begin(), saved.end());
    for (const auto& [name, tensor] : own) {
      const auto in_file = found.find(name);
      if (in_file == found.end()) {
        report_.missing.push_back(full_name(part, name));
      } else if (in_file->second.shape() != tensor.shape() || in_file->second.dtype() != tensor.dtype()) {
        report_.mismatched.push_back(full_name(part, name) + ": " + described(tensor) + " in the model, " +
                                     described(in_file->second) + " in the file");
      }
    }
    std::erase_if(saved, [&](const auto& named) {
      const bool known = there.contains(named.first);
      if (!known) report_.unexpected.push_back(full_name(part, named.first));
      return !known;
    });
  }

  static std::string described(const Tensor& tensor) {
    return to_string(tensor.dtype()) + " " + to_string(tensor.shape());
  }

  [[nodiscard]] bool has_state(std::size_t i) const {
    return parts_[i].access().has_value ? !states_[i].value.is_null() : !states_[i].tensors.empty();
  }

  /// Parts that may refuse come first. When one does, those before it get back what they had.
  void load_all() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].access().module == nullptr && has_state(i)) order.push_back(i);
    }
    std::vector<PartState> before;
    for (const std::size_t i : order) before.push_back(kept(i, order.size() > 1));
    std::size_t loaded = 0;
    try {
      for (; loaded < order.size(); ++loaded) parts_[order[loaded]].access().load(states_[order[loaded]]);
    } catch (...) {
      while (loaded-- > 0) parts_[order[loaded]].access().load(before[loaded]);
      throw;
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].access().module != nullptr) load_module(i);
    }
  }

  /// The present state, of which loading may change the memory.
  [[nodiscard]] PartState kept(std::size_t i, bool copy) const {
    PartState state = parts_[i].access().save();
    const NoGrad no_grad;
    for (auto& named : state.tensors) {
      if (copy) named.second = mezzo::clone(named.second);
    }
    return state;
  }

  void load_module(std::size_t i) {
    parts_[i].access().load(states_[i]);
    if (!is_checkpoint_) return;
    const nn::NamedTensors& saved = gradients_[i].tensors;
    const std::map<std::string, Tensor> gradients(saved.begin(), saved.end());
    for (const auto& [name, parameter] : parts_[i].access().module->named_parameters()) {
      const auto found = gradients.find(name);
      parameter.set_grad(found == gradients.end() ? Tensor()
                                                  : mezzo::clone(found->second).to(parameter.device()));
    }
  }

  const std::string& path_;
  const Parts& parts_;
  io::TensorFile file_;
  bool is_checkpoint_ = false;
  Value values_;
  std::vector<PartState> states_, gradients_;
  nn::LoadReport report_;
};

}  // namespace

nn::LoadReport load_checkpoint(const std::string& path, const Parts& parts,
                               const LoadCheckpointOptions& options) {
  check_names(parts);
  return Loading(path, parts).load(options);
}

}  // namespace mezzo::train
