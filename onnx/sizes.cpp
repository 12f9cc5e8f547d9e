// Sizes that vary between the two runs: their names, and how a graph computes them from the sizes of its
// values.
#include <algorithm>

#include "mezzo/onnx/graph.h"
#include "mezzo/ops/factory.h"

namespace mezzo::onnx {

namespace {

Tensor list_of(const std::vector<std::int64_t>& values) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, {.dtype = DType::i64});
}

/// Whether all elements are equal.
bool is_uniform(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

/// The step of numbers in equal steps: [a, a + s, a + 2 s, ...]; none for anything else.
std::optional<double> step_of(const Tensor& x) {
  if (x.dim() != 1 || x.numel() < 2) return std::nullopt;
  const std::vector<double> values = x.to_vector<double>();
  const double step = values[1] - values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] != values[0] + static_cast<double>(i) * step) return std::nullopt;
  }
  return step;
}

/// k where size = k of, in both runs; else 0.
std::int64_t quotient(const Size& size, const Size& of) {
  const auto one = [](std::int64_t a, std::int64_t b) { return b > 0 && a % b == 0 ? a / b : 0; };
  const std::int64_t factor = one(size.first, of.first);
  return factor == one(size.second, of.second) ? factor : 0;
}

}  // namespace

void Graph::add_input(const std::string& name, const Tensor& first, const Tensor& second) {
  const Id id = add_result(first, second, false);
  values_[id].name = unique(name);
  inputs_.push_back(id);
  const Sizes sizes = values_[id].sizes();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].varies()) continue;
    if (std::ranges::any_of(sizes_, [&](const NamedSize& one) { return one.size == sizes[d]; })) continue;
    const bool is_batch =
        d == 0 && std::ranges::none_of(sizes_, [](const NamedSize& one) { return one.name == "batch"; });
    sizes_.push_back({sizes[d], is_batch ? "batch" : name + "_dim" + std::to_string(d)});
  }
  model_.inputs.push_back(info_of(values_[id].name, values_[id]));
}

ValueInfo Graph::info_of(const std::string& name, const GraphValue& value) {
  ValueInfo info{name, value.first.dtype()};
  for (const Size& size : value.sizes()) {
    const auto named = std::ranges::find(sizes_, size, &NamedSize::size);
    if (!size.varies())
      info.shape.emplace_back(size.first);
    else
      info.shape.emplace_back(named != sizes_.end() ? named->name
                                                    : name + "_dim" + std::to_string(info.shape.size()));
  }
  return info;
}

/// The size of a dim of a value, where it is this one.
std::optional<std::string> Graph::size_at(Id id, std::size_t dim, const Size& size) {
  const GraphValue& value = values_[id];
  if (value.name.empty() || value.is_constant || dim >= value.sizes().size() || !(value.sizes()[dim] == size))
    return std::nullopt;
  std::string& known = known_dims_[{id, dim}];
  if (known.empty()) {
    const std::string shape = add_node("", "Shape", {value.name}, {}, 1)[0];
    known = add_node("", "Gather", {shape, constant(list_of({static_cast<std::int64_t>(dim)}))}, {}, 1)[0];
  }
  return known;
}

std::optional<std::string> Graph::size_of_value(const Size& size, Id id) {
  const Sizes sizes = values_[id].sizes();
  const auto found = std::ranges::find(sizes, size);
  return size_at(id, static_cast<std::size_t>(found - sizes.begin()), size);
}

/// k s, k s t and s + c, where s and t are named sizes and those of the values at hand.
std::optional<std::string> Graph::computed_size(const Size& size, const std::vector<Id>& near) {
  std::vector<NamedSize> known;
  for (const NamedSize& one : sizes_) known.push_back({one.size, varying_size(one.size, {}, {})});
  for (const Id id : near) {
    const Sizes sizes = values_[id].sizes();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (!sizes[d].varies()) continue;
      if (const auto name = size_at(id, d, sizes[d])) known.push_back({sizes[d], *name});
    }
  }
  const auto node = [&](const char* op, const std::string& a, const std::string& b) {
    return add_node("", op, {a, b}, {}, 1)[0];
  };
  const auto multiple = [&](const std::string& x, std::int64_t factor) {
    return factor == 1 ? x : node("Mul", x, constant(list_of({factor})));
  };
  for (const NamedSize& one : known) {
    if (const std::int64_t factor = quotient(size, one.size); factor > 0) return multiple(one.name, factor);
  }
  for (const NamedSize& a : known) {
    for (const NamedSize& b : known) {
      const std::int64_t factor =
          quotient(size, {a.size.first * b.size.first, a.size.second * b.size.second});
      if (factor > 0) return multiple(node("Mul", a.name, b.name), factor);
    }
  }
  for (const NamedSize& one : known) {
    const std::int64_t more = size.first - one.size.first;
    if (more == size.second - one.size.second) return node("Add", one.name, constant(list_of({more})));
  }
  return std::nullopt;
}

std::string Graph::varying_size(const Size& size, const std::vector<Id>& near, const Place& place) {
  if (const auto known = known_sizes_.find(size); known != known_sizes_.end()) return known->second;
  std::optional<std::string> found;
  for (const std::vector<Id>* ids : {&near, static_cast<const std::vector<Id>*>(&inputs_)}) {
    for (std::size_t i = 0; i < ids->size() && !found; ++i) found = size_of_value(size, (*ids)[i]);
  }
  if (!found) found = computed_size(size, near);
  for (Id id = values_.size(); id > 0 && !found; --id) found = size_of_value(size, id - 1);
  if (!found) {
    refuse(place, "sizes that are those of inputs and results, their multiples or sums with a number",
           std::to_string(size.first) + " in one run and " + std::to_string(size.second) + " in the other",
           "compute it in another way, or export for one size: .fixed_sizes = true");
  }
  return known_sizes_[size] = *found;
}

std::string Graph::size_list(const Sizes& sizes, const std::vector<Id>& near, const Place& place) {
  std::vector<std::string> parts;
  std::vector<std::int64_t> run;  // of sizes that do not vary
  const auto end_run = [&] {
    if (!run.empty()) parts.push_back(constant(list_of(run)));
    run.clear();
  };
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].varies()) {
      run.push_back(sizes[d].first);
      continue;
    }
    end_run();
    // The same dim of a value at hand, before others that have the size by chance.
    std::optional<std::string> part;
    for (std::size_t i = 0; i < near.size() && !part; ++i) part = size_at(near[i], d, sizes[d]);
    parts.push_back(part ? *part : varying_size(sizes[d], near, place));
  }
  end_run();
  if (parts.empty()) return constant(list_of({}));
  if (parts.size() == 1) return parts.front();
  return add_node("", "Concat", parts, {{"axis", std::int64_t{0}}}, 1)[0];
}

std::string Graph::varying_constant(const GraphValue& value, const Place& place) {
  const Tensor &first = value.first, &second = value.second;
  const DType dtype = first.dtype();
  const auto number = [&](double x) { return constant(full({}, x, {.dtype = dtype})); };
  const bool comparable =
      dtype == second.dtype() && first.dim() == second.dim() && first.numel() > 0 && second.numel() > 0;
  const double begin = comparable ? first.to_vector<double>().front() : 0;
  if (comparable && second.to_vector<double>().front() == begin) {
    if (is_uniform(first) && is_uniform(second)) {
      const std::string shape = size_list(value.sizes(), {}, place);
      return add_node("", "ConstantOfShape", {shape}, {{"value", full({1}, begin, {.dtype = dtype})}}, 1)[0];
    }
    const std::optional<double> step = step_of(first);
    if (step && step == step_of(second)) {
      const std::string count = size_list(value.sizes(), {}, place);
      const std::string scalar = add_node("", "Squeeze", {count, constant(list_of({0}))}, {}, 1)[0];
      const Tensor zero = full({}, 0, {.dtype = DType::i64}), one = full({}, 1, {.dtype = DType::i64});
      std::string range = add_node("", "Range", {constant(zero), scalar, constant(one)}, {}, 1)[0];
      if (dtype != DType::i64) range = add_node("", "Cast", {range}, {{"to", data_type(dtype)}}, 1)[0];
      if (*step != 1) range = add_node("", "Mul", {range, number(*step)}, {}, 1)[0];
      return begin == 0 ? range : add_node("", "Add", {range, number(begin)}, {}, 1)[0];
    }
  }
  refuse(place,
         "tensors made in forward that are the same in each run, of one value, or numbers in equal steps",
         "a tensor of " + to_string(first.shape()) + " in one run and " + to_string(second.shape()) +
             " in the other",
         "compute it from the inputs by ops; random numbers and values read on the host have no place in a "
         "graph");
}

}  // namespace mezzo::onnx
