// Calls that make no sense, derived from each sample by itself.
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/factory.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kHuge = std::int64_t{1} << 50;  // more bytes than a process can address

constexpr std::int64_t kMostShown = 1 << 20;

/// One call and what may come of it.
struct Attempt {
  std::string what;
  Tensors inputs;
  Value attrs;
  std::string_view kinds;   ///< of errors that fit; empty for any
  bool must_throw = false;  ///< the call cannot work
};

template <class E>
bool is_a(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}
std::string_view kind_of(const Error& error) {
  if (is_a<ShapeError>(error)) return "ShapeError";
  if (is_a<DTypeError>(error)) return "DTypeError";
  if (is_a<DeviceError>(error)) return "DeviceError";
  if (is_a<IndexError>(error)) return "IndexError";
  if (is_a<ValueError>(error)) return "ValueError";
  if (is_a<AutogradError>(error)) return "AutogradError";
  if (is_a<OutOfMemoryError>(error)) return "OutOfMemoryError";
  return "Error";
}

bool has_nan(const Tensors& tensors) {
  for (const Tensor& x : tensors) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    for (const double value : numbers(x)) {
      if (std::isnan(value)) return true;
    }
  }
  return false;
}

/// Whether f64 gives a NaN on the same values too, or refuses them.
bool nan_is_right(const Case& one, const Attempt& attempt) {
  try {
    Case same = one;
    same.attrs = attempt.attrs;
    return has_nan(run(same, forward_of(same), converted(one, attempt.inputs, DType::f64)).outputs);
  } catch (const Error&) {
    return true;
  }
}

/// A call that worked: gradients have the shapes of their inputs, and nothing became NaN by itself.
void check_success(const Case& one, const Attempt& attempt, const Result& result, Findings& findings) {
  const std::string label = one.label + ", " + attempt.what;
  if (attempt.must_throw) findings.fail(Check::bad_input, label + ": was accepted");
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    const Tensor& gradient = result.gradients[i];
    if (gradient.defined() && gradient.shape() != attempt.inputs[i].shape())
      findings.fail(Check::bad_input, label + ": gradient of shape " + to_string(gradient.shape()));
  }
  if (attempt.attrs == one.attrs && has_nan(result.outputs) && !nan_is_right(one, attempt))
    findings.fail(Check::bad_input, label + ": NaN, where f64 has none");
}

void check_error(const Case& one, const Attempt& attempt, const Error& error, Findings& findings) {
  const std::string label = one.label + ", " + attempt.what;
  if (error.op().empty() || error.expected().empty() || error.got().empty())
    findings.fail(Check::bad_input, label + ": a message without its parts: " + error.what());
  if (!attempt.kinds.empty() && attempt.kinds.find(kind_of(error)) == attempt.kinds.npos)
    findings.fail(Check::bad_input, label + ": throws a " + std::string(kind_of(error)) + ": " +
                                        error.what() + ", want one of " + std::string(attempt.kinds));
}

void attempt(const Case& one, const Attempt& attempt, Findings& findings) {
  findings.ran(Check::bad_input);
  Case changed = one;
  changed.attrs = attempt.attrs;
  changed.inputs.resize(attempt.inputs.size());
  try {
    // A view may show one element more often than there is memory for a gradient.
    for (const Tensor& output : call(forward_of(changed), attempt.inputs)) {
      if (output.numel() > kMostShown) return;
    }
    check_success(one, attempt, run(changed, forward_of(changed), attempt.inputs), findings);
  } catch (const Error& error) {
    check_error(one, attempt, error, findings);
  } catch (const std::exception& error) {
    findings.fail(Check::bad_input,
                  one.label + ", " + attempt.what + ": throws no mezzo::Error: " + error.what());
  }
}

// --- inputs

void check_counts(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  for (std::size_t count = 0; count <= inputs.size() + 2; ++count) {
    if (count == inputs.size()) continue;
    Tensors other;
    for (std::size_t i = 0; i < count; ++i) other.push_back(inputs[i % inputs.size()]);
    const bool free = one.info().takes_list && count > 0;
    attempt(one,
            {std::to_string(count) + " inputs", other, one.attrs, free ? "" : "ValueError ShapeError", !free},
            findings);
  }
}

void check_undefined(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool optional = is_in(one.info().optional_inputs, i);
    if (!inputs[i].defined() && !optional)
      findings.fail(Check::bad_input, one.label + ": leaves out an input that is not in optional_inputs");
    Tensors other = inputs;
    other[i] = Tensor();
    attempt(one, {"input " + std::to_string(i) + " undefined", other, one.attrs, "ValueError", !optional},
            findings);
  }
}

/// Shapes next to a given one, and shapes without elements whose sizes are absurd.
std::vector<Shape> wrong_shapes(const Shape& shape) {
  std::vector<Shape> shapes{{},
                            {0},
                            {1, 1, 1, 1, 1, 1, 1, 1},
                            {2, 2, 2, 2, 2, 2, 2, 2},
                            {kHuge, 512, 0},
                            {0, 512, kHuge},
                            {512, 0, kHuge},
                            {kHuge, 0},
                            {0, kHuge}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Shape other = shape;
    other[d] += 1;
    shapes.push_back(other);
    other[d] = 0;
    shapes.push_back(other);
    other.erase(d);
    shapes.push_back(other);
  }
  if (shape.size() < kMaxDims) {
    Shape other = shape;
    other.push_back(2);
    shapes.push_back(other);
  }
  return shapes;
}

void check_wrong_shapes(const Case& one, Findings& findings) {
  constexpr std::string_view kKinds = "ShapeError IndexError ValueError OutOfMemoryError";
  for (std::size_t i = 0; i <= one.inputs.size(); ++i) {  // the last time, all inputs
    const bool all = i == one.inputs.size();
    if (!all && one.inputs[i].kind == SampleKind::absent) continue;
    for (const Shape& shape : wrong_shapes(all ? one.inputs[0].shape : one.inputs[i].shape)) {
      Case other = one;
      for (std::size_t j = 0; j < other.inputs.size(); ++j) {
        if ((all || i == j) && other.inputs[j].kind != SampleKind::absent) other.inputs[j].shape = shape;
      }
      const std::string which = all ? "all inputs" : "input " + std::to_string(i);
      attempt(one,
              {which + " of shape " + to_string(shape), make_inputs(other, DType::f32), one.attrs, kKinds},
              findings);
    }
  }
}

void check_dtypes(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const bool real = is_real(one.inputs[i]);
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::boolean, DType::u8,
                              DType::i32, DType::i64}) {
      Tensors other = inputs;
      other[i] =
          real ? make_inputs(one, dtype)[i] : tensor(numbers(inputs[i]), inputs[i].shape(), {.dtype = dtype});
      // A target of another kind means something else, of another shape: classes or probabilities.
      const std::string_view kinds = is_floating(dtype) == real
                                         ? "DTypeError ValueError IndexError"
                                         : "DTypeError ValueError IndexError ShapeError";
      attempt(one, {"input " + std::to_string(i) + " as " + to_string(dtype), other, one.attrs, kinds},
              findings);
    }
  }
}

void check_indices(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (one.inputs[i].kind != SampleKind::index) continue;
    for (const std::int64_t index : {kMin, std::int64_t{-1}, std::int64_t{1000}, kMax}) {
      Tensors other = inputs;
      other[i] = full(inputs[i].shape(), index, {.dtype = DType::i64});
      const auto place = static_cast<double>(index);
      const bool wrong = place < one.inputs[i].low || place >= one.inputs[i].high;
      attempt(one, {"indices of " + std::to_string(index), other, one.attrs, "IndexError", wrong}, findings);
    }
  }
}

// --- attributes

/// Values of a field's own kind that make no sense in most places.
std::vector<Value> wrong_values(const Value& field) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Value> values;
  const auto list = [&](std::initializer_list<std::int64_t> sizes) {
    values.emplace_back(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
  };
  if (field.is_list() || field.is_null()) {
    list({});
    list({0});
    list({-5});
    list({kMin});
    list({kMax});
    list({kHuge});
    list({-1, -1});
    list({kHuge, kHuge});
    list({kHuge, kHuge, 0});
    list({kMax, kMax});
    list({1, 1, 1, 1, 1, 1, 1, 1, 1});
    list({2, 2, 2, 2, 2, 2, 2, 2});
  }
  if (field.is_number() || field.is_null())
    for (const std::int64_t value : {kMin, -kHuge, std::int64_t{-100}, std::int64_t{-1}, std::int64_t{0},
                                     std::int64_t{1}, std::int64_t{100}, kHuge, kMax})
      values.emplace_back(value);
  if (field.is_double() || field.is_null())
    for (const double value : {std::nan(""), kInfinity, -kInfinity, -1.5, 1e308}) values.emplace_back(value);
  if (field.is_string() || field.is_null())
    for (const char* text : {"", "no such thing", "f16", "f64", "i64", "bool", "cuda:0", "cpu:7"})
      values.emplace_back(text);
  values.emplace_back(true);
  values.emplace_back(false);
  values.emplace_back(nullptr);
  values.emplace_back(Value::Map{{"a", 1}});
  return values;
}

void check_attributes(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  Value unknown = one.attrs;
  unknown.set("no_such_attribute", 1);
  attempt(one, {"an unknown attribute", inputs, unknown, "ValueError", true}, findings);
  for (const auto& [name, field] : one.attrs.as_map()) {
    for (const Value& value : wrong_values(field)) {
      Value other = one.attrs;
      other.set(name, value);
      const bool is_map = value.is_map();
      attempt(one, {name + " = " + value.to_string(), inputs, other, is_map ? "ValueError" : "", is_map},
              findings);
    }
  }
}

bool names_a_dim(std::string_view name) {
  for (const std::string_view known : {"dim", "dims", "d0", "d1", "start_dim", "end_dim"}) {
    if (name == known) return true;
  }
  return false;
}

/// Dims that the input does not have.
void check_dims(const Case& one, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  for (const auto& [name, field] : one.attrs.as_map()) {
    if (!names_a_dim(name)) continue;
    for (const std::int64_t dim : {kMin, std::int64_t{-10}, std::int64_t{9}, kMax}) {
      Value other = one.attrs;
      other.set(name, field.is_list() ? Value::list(dim) : Value(dim));
      attempt(one, {name + " = " + std::to_string(dim), inputs, other, "IndexError", true}, findings);
    }
  }
}

}  // namespace

void check_bad_input(const Case& one, Findings& findings) {
  check_counts(one, findings);
  check_undefined(one, findings);
  check_wrong_shapes(one, findings);
  check_dtypes(one, findings);
  check_indices(one, findings);
  check_attributes(one, findings);
  check_dims(one, findings);
}

}  // namespace mezzo::sweep
