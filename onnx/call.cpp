// Reading a call of both traces, and the nodes that many mappings share.
#include "mezzo/onnx/call.h"

#include <algorithm>
#include <numeric>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/factory.h"

namespace mezzo::onnx {

namespace {

Sizes sizes_of(const Tensor& first, const Tensor& second) { return GraphValue{first, second}.sizes(); }

}  // namespace

Call::Call(Graph& graph, const TracedOp& first, const TracedOp& second)
    : graph_(graph), first_(first), second_(second), place_{first.name, first.place} {
  bool is_same = first.name == second.name && first.inputs.size() == second.inputs.size() &&
                 first.outputs.size() == second.outputs.size();
  for (std::size_t i = 0; is_same && i < first.inputs.size(); ++i)
    is_same = first.inputs[i].defined() == second.inputs[i].defined();
  for (std::size_t i = 0; is_same && i < first.outputs.size(); ++i)
    is_same = first.outputs[i].dim() == second.outputs[i].dim();
  if (!is_same) {
    refuse("a forward that runs the same ops for both sizes of its inputs",
           "'" + second.name + "' with other tensors in the second run, where the first has it",
           "a graph has no branches: give inputs whose sizes take the same way");
  }
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    ids_.push_back(has(i) ? graph.value_of(first.inputs[i], second.inputs[i], place_) : 0);
}

void Call::refuse(const std::string& expected, const std::string& got, const std::string& fix) const {
  onnx::refuse(place_, expected, got, fix);
}

Sizes Call::in_sizes(std::size_t i) const { return sizes_of(first_.inputs[i], second_.inputs[i]); }
Sizes Call::out_sizes(std::size_t i) const { return sizes_of(first_.outputs[i], second_.outputs[i]); }

bool Call::is_zero(std::size_t i) const {
  const auto all_zero = [](const Tensor& x) {
    const std::vector<double> values = x.to_vector<double>();
    return std::ranges::all_of(values, [](double value) { return value == 0; });
  };
  return is_constant(i) && all_zero(first_.inputs[i]) && all_zero(second_.inputs[i]);
}

const Value& Call::attr(std::string_view name) const {
  const Value& value = first_.attrs.at(name);
  if (value == second_.attrs.at(name)) return value;
  refuse("attributes that do not depend on the input",
         std::string(name) + " " + value.to_string() + " and " + second_.attrs.at(name).to_string(),
         "compute it by ops; or, if it depends on sizes alone, export for one: .fixed_sizes = true");
}

double Call::real(std::string_view name) const {
  const Value& value = attr(name);
  return value.is_bool() ? (value.as_bool() ? 1 : 0) : value.as_double();
}

std::vector<std::int64_t> Call::integers(std::string_view name) const {
  std::vector<std::int64_t> result;
  for (const Value& element : attr(name).as_list()) result.push_back(element.as_int());
  return result;
}

std::int64_t Call::dim(std::string_view name) const { return dim(name, in(0).dim()); }

std::int64_t Call::dim(std::string_view name, std::int64_t rank) const {
  if (rank == 0) refuse("a tensor with dims", "a number", "reshape it to {1}");
  return layout::wrap_dim(place_.op, integer(name), static_cast<std::size_t>(rank));
}

std::vector<std::int64_t> Call::dims(std::string_view name) const {
  std::vector<std::int64_t> result = integers(name);
  const auto rank = static_cast<std::size_t>(in(0).dim());
  if (rank == 0 && !result.empty()) refuse("a tensor with dims", "a number", "reshape it to {1}");
  for (std::int64_t& one : result) one = layout::wrap_dim(place_.op, one, rank);
  if (!result.empty()) return result;
  result.resize(rank);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

Size Call::size(std::string_view name) const {
  return {first_.attrs.at(name).as_int(), second_.attrs.at(name).as_int()};
}

Sizes Call::sizes(std::string_view name) const {
  const auto &a = first_.attrs.at(name).as_list(), &b = second_.attrs.at(name).as_list();
  if (a.size() != b.size()) static_cast<void>(attr(name));  // refuses
  Sizes result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back({a[i].as_int(), b[i].as_int()});
  return result;
}

std::string Call::input(std::size_t i) { return graph_.name_of(ids_[i], place_); }

std::string Call::input(std::size_t i, DType dtype) { return cast(input(i), in(i).dtype(), dtype); }

std::string Call::optional_input(std::size_t i, DType dtype) { return has(i) ? input(i, dtype) : ""; }

std::string Call::node(const std::string& op, std::vector<std::string> inputs,
                       std::vector<Attribute> attributes) {
  return nodes(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::vector<std::string> Call::nodes(const std::string& op, std::vector<std::string> inputs,
                                     std::vector<Attribute> attributes, std::size_t outputs) {
  return graph_.add_node(first_.module, op, std::move(inputs), std::move(attributes), outputs);
}

std::string Call::cast(const std::string& x, DType from, DType to) {
  return from == to ? x : node("Cast", {x}, {{"to", data_type(to)}});
}

std::string Call::constant(const Tensor& value, const std::string& name) {
  return graph_.constant(value, first_.module.empty() ? name : first_.module + "/" + name);
}

std::string Call::number(double value, DType dtype) { return constant(full({}, value, {.dtype = dtype})); }

std::string Call::list(const std::vector<std::int64_t>& values) {
  return constant(tensor(values, {static_cast<std::int64_t>(values.size())}, {.dtype = DType::i64}));
}

std::string Call::list(const Sizes& sizes) {
  std::vector<Graph::Id> near;
  for (std::size_t i = 0; i < num_inputs(); ++i) {
    if (has(i)) near.push_back(ids_[i]);
  }
  return graph_.size_list(sizes, near, place_);
}

std::string Call::reduced(const std::string& op, const std::string& x, const std::vector<std::int64_t>& dims,
                          bool keepdim) {
  const Attribute keep{"keepdims", std::int64_t{keepdim ? 1 : 0}};
  constexpr std::int64_t kAxesAreInputs = 18;
  if (op == "ReduceSum" || graph_.opset() >= kAxesAreInputs) return node(op, {x, list(dims)}, {keep});
  return node(op, {x}, {{"axes", dims}, keep});
}

std::string Call::reshaped(const std::string& x, const Sizes& sizes, const Sizes& from) {
  std::vector<std::int64_t> plain;  // 0: as before, in its place; -1: what is left
  bool has_zero = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool stays = d < from.size() && from[d] == sizes[d];
    plain.push_back(!sizes[d].varies() ? sizes[d].first : stays ? 0 : -1);
    has_zero = has_zero || sizes[d].first == 0;
  }
  if (has_zero) return node("Reshape", {x, list(sizes)}, {{"allowzero", std::int64_t{1}}});
  return node("Reshape", {x, std::count(plain.begin(), plain.end(), -1) <= 1 ? list(plain) : list(sizes)});
}

void Call::set(std::size_t output, const std::string& name) { graph_.at(outputs_[output]).name = name; }

void Call::set_last_state(std::size_t output, const std::string& name, bool is_reversed) {
  GraphValue& value = graph_.at(outputs_[output]);
  value.last_state = name;
  value.is_reversed = is_reversed;
}

bool Call::select_state() {
  const GraphValue& states = graph_.at(ids_[0]);
  if (states.last_state.empty() || dim("dim") != 0) return false;
  const Size index = size("index"), length = in_sizes(0)[0];
  const auto is_last = [&](std::int64_t at, std::int64_t steps) {
    return states.is_reversed ? at == 0 || at == -steps : at == steps - 1 || at == -1;
  };
  if (!is_last(index.first, length.first) || !is_last(index.second, length.second)) return false;
  set(states.last_state);
  return true;
}

}  // namespace mezzo::onnx
