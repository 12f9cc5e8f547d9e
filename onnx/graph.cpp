// Names, constants and outputs of a graph. Sizes that vary are in sizes.cpp.
#include "mezzo/onnx/graph.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/tensor_bytes.h"

namespace mezzo::onnx {

namespace {

std::string bytes_text(const Tensor& row_major) {
  const std::span<const std::byte> bytes = io::detail::bytes_of(row_major);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool same_values(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor first = io::detail::row_major_on_host(kExport, "value", a);
  const Tensor second = io::detail::row_major_on_host(kExport, "value", b);
  return std::ranges::equal(io::detail::bytes_of(first), io::detail::bytes_of(second));
}

bool has_optional_outputs(std::string_view op) {
  return op == "RNN" || op == "GRU" || op == "LSTM" || op == "MaxPool";
}

}  // namespace

void refuse(const Place& place, const std::string& expected, const std::string& got, const std::string& fix) {
  throw ValueError(kExport, expected,
                   got + " in op '" + place.op + "'" + (place.module.empty() ? "" : " of " + place.module),
                   fix);
}

Sizes GraphValue::sizes() const {
  Sizes result;
  for (std::int64_t d = 0; d < first.dim(); ++d) result.push_back({first.size(d), second.size(d)});
  return result;
}

Graph::Graph(std::int64_t opset, const nn::NamedTensors& weights) : model_{.opset = opset} {
  for (const auto& [path, tensor] : weights) weights_.emplace(&tensor.impl(), path);
}

std::string Graph::unique(const std::string& name) {
  std::string result = name;
  while (!names_.insert(result).second) result = name + "_" + std::to_string(++counts_[name]);
  return result;
}

Graph::Id Graph::add_result(const Tensor& first, const Tensor& second, bool is_constant) {
  const Id id = values_.size();
  values_.push_back({first, second, is_constant, is_constant && same_values(first, second)});
  first_[&first.impl()] = id;
  second_[&second.impl()] = id;
  return id;
}

std::optional<Graph::Id> Graph::known(const Ids& ids, const Tensor& tensor, Tensor GraphValue::*of) const {
  if (const auto found = ids.find(&tensor.impl()); found != ids.end()) return found->second;
  // By detach, which is no op, a tensor has another identity.
  const auto is_alias = [&](const GraphValue& value) {
    const Tensor& other = value.*of;
    return other.impl().data() == tensor.impl().data() && other.dtype() == tensor.dtype() &&
           other.shape() == tensor.shape() && other.strides() == tensor.strides() && tensor.numel() > 0;
  };
  const auto found = std::ranges::find_if(values_, is_alias);
  return found == values_.end() ? std::nullopt : std::optional<Id>(found - values_.begin());
}

Graph::Id Graph::value_of(const Tensor& first, const Tensor& second, const Place& place) {
  const std::optional<Id> a = known(first_, first, &GraphValue::first),
                          b = known(second_, second, &GraphValue::second);
  if (a != b) {
    refuse(place, "a forward that does the same for both sizes of its inputs",
           "other inputs in the second run",
           "a graph has no branches: give inputs whose sizes take the same way");
  }
  return a ? *a : add_result(first, second, true);
}

void Graph::name_cast(const Tensor& cast, const Tensor& weight) {
  const auto found = weights_.find(&weight.impl());
  if (found != weights_.end()) weights_.emplace(&cast.impl(), std::string(found->second));
}

std::string Graph::name_of(Id id, const Place& place) {
  GraphValue& value = values_[id];
  if (!value.name.empty()) return value.name;
  if (!value.is_constant) {
    refuse(place, "results of ops that ONNX has",
           "one that it lacks (indices of a pooling, states of all steps)", "compute it in another way");
  }
  if (!value.is_fixed) return value.name = varying_constant(value, place);
  if (const auto weight = weights_.find(&value.first.impl()); weight != weights_.end()) {
    std::string& known = initializer_of_[{weight->second, value.first.dtype()}];
    if (known.empty()) {
      known = unique(weight->second);
      model_.initializers.push_back({known, value.first});
    }
    return value.name = known;
  }
  return value.name = constant(value.first);
}

std::vector<std::string> Graph::add_node(const std::string& module, const std::string& op,
                                         std::vector<std::string> inputs, std::vector<Attribute> attributes,
                                         std::size_t outputs) {
  Node node{op, std::move(inputs), {}, std::move(attributes)};
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  for (std::size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(unique((module.empty() ? "" : module + "/") + op));
  model_.nodes.push_back(node);
  return node.outputs;
}

std::string Graph::constant(const Tensor& value, const std::string& name) {
  constexpr std::int64_t kSmall = 64;
  if (value.numel() > kSmall) {
    model_.initializers.push_back({unique(name), value});
    return model_.initializers.back().name;
  }
  const Tensor plain = io::detail::row_major_on_host(kExport, name, value);
  std::string& known = small_[to_string(plain.dtype()) + to_string(plain.shape()) + bytes_text(plain)];
  if (known.empty()) {
    known = unique(name);
    model_.initializers.push_back({known, plain});
  }
  return known;
}

void Graph::use_name(const std::string& from, const std::string& to) {
  for (Node& node : model_.nodes) {
    std::ranges::replace(node.inputs, from, to);
    std::ranges::replace(node.outputs, from, to);
  }
  for (GraphValue& value : values_) {
    if (value.name == from) value.name = to;
  }
}

void Graph::add_output(const std::string& name, const Tensor& first, const Tensor& second) {
  const Place place{.op = "output " + name, .module = ""};
  const Id id = value_of(first, second, place);
  const std::string own = unique(name), made = name_of(id, place);
  const auto has = [&](const std::vector<ValueInfo>& list) {
    return std::ranges::any_of(list, [&](const ValueInfo& info) { return info.name == made; });
  };
  const bool is_result = std::ranges::any_of(
      model_.nodes, [&](const Node& node) { return std::ranges::count(node.outputs, made) > 0; });
  if (is_result && !has(model_.outputs))
    use_name(made, own);
  else
    model_.nodes.push_back({"Identity", {made}, {own}});
  model_.outputs.push_back(info_of(own, values_[id]));
}

Model Graph::finish(std::string name) {
  std::unordered_set<std::string> needed;
  for (const ValueInfo& output : model_.outputs) needed.insert(output.name);
  std::vector<Node> nodes;
  for (auto node = model_.nodes.rbegin(); node != model_.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& one) { return needed.contains(one); }))
      continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    if (has_optional_outputs(node->op)) {
      for (std::string& output : node->outputs) output = needed.contains(output) ? output : "";
      while (node->outputs.back().empty()) node->outputs.pop_back();
    }
    nodes.push_back(*node);
  }
  for (const ValueInfo& input : model_.inputs) {
    if (needed.contains(input.name)) continue;
    throw ValueError(
        kExport, "a result that depends on every input", "none of '" + input.name + "'",
        "leave it out; if forward reads its values on the host, compute with ops: the file would have "
        "the example's");
  }
  model_.nodes.assign(nodes.rbegin(), nodes.rend());
  std::erase_if(model_.initializers, [&](const Initializer& one) { return !needed.contains(one.name); });
  model_.name = std::move(name);
  return std::move(model_);
}

}  // namespace mezzo::onnx
