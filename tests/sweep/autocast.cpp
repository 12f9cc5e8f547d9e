// Autocast against manual casts: dtype, bits of results and bits of gradients, for each category and for
// inputs of every mix of dtypes, on every device there is.
#include <optional>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

bool eligible(const Tensor& x) { return x.defined() && is_floating(x.dtype()) && x.dtype() != DType::f64; }

/// The attribute `dtype` of a call, when it has a value.
std::optional<DType> explicit_dtype(const Case& one) {
  const Value* value = one.attrs.is_map() ? one.attrs.find("dtype") : nullptr;
  if (value == nullptr || value->is_null()) return std::nullopt;
  return parse_dtype(value->as_string());
}
bool takes_dtype(const Case& one) {
  const Value attrs = one.op->default_attrs();
  const Value* value = attrs.find("dtype");
  return value != nullptr && value->is_null();
}

/// The dtype that the category gives eligible inputs; none: they stay.
std::optional<DType> target_of(const Case& one, Inputs inputs, DType region) {
  switch (one.info().category.value) {
    case Category::lower_precision:
      return region;
    case Category::fp32:
      if (explicit_dtype(one)) return std::nullopt;
      return DType::f32;
    case Category::promote: {
      std::optional<DType> widest;
      for (const Tensor& x : inputs) {
        if (eligible(x)) widest = widest ? promote(*widest, x.dtype()) : x.dtype();
      }
      return widest;
    }
    case Category::banned:
    case Category::passthrough:
      break;
  }
  return std::nullopt;
}

/// The op after the casts that a careful user would write, outside of any region.
Function with_manual_casts(const Case& one, DType region) {
  return [&one, region](Inputs inputs) {
    const std::optional<DType> target = target_of(one, inputs, region);
    Tensors cast;
    for (const Tensor& x : inputs) cast.push_back(target && eligible(x) ? to(x, *target) : x);
    return call(forward_of(one), cast);
  };
}

Function inside_region(const Case& one, Device device, DType region, bool cache = true) {
  return [&one, device, region, cache](Inputs inputs) {
    const amp::Autocast autocast(device, region, {.cache_enabled = cache});
    return one.op->call(inputs, one.attrs);
  };
}

/// What became of a call: a result or the message of an error.
struct Outcome {
  std::optional<Result> result;
  std::string error;
};
Outcome outcome_of(const Case& one, const Function& function, const Tensors& inputs) {
  try {
    return {run(one, function, inputs), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

Difference outcomes_differ(const Outcome& got, const Outcome& want) {
  if (got.result && want.result) return bits_differ(*got.result, *want.result);
  if (got.result) return "a result, where manual casts throw " + want.error;
  if (want.result) return "throws " + got.error + ", where manual casts give a result";
  return std::nullopt;  // both refuse
}

/// Mixes of input dtypes: one dtype per input.
std::vector<std::vector<DType>> mixes(std::size_t inputs, DType region) {
  const DType other = region == DType::f16 ? DType::bf16 : DType::f16;
  std::vector<std::vector<DType>> list;
  for (const DType all : {DType::f32, region, other}) list.emplace_back(inputs, all);
  if (inputs < 2) return list;
  const auto first = [&](DType one, DType rest) {
    list.emplace_back(inputs, rest);
    list.back()[0] = one;
  };
  first(region, DType::f32);
  first(DType::f32, region);
  first(region, other);
  first(DType::f64, region);
  return list;
}

std::string label_of(const Case& one, Device device, DType region, const std::vector<DType>& dtypes) {
  std::string text = one.label + " in a region of " + to_string(region) + " of " + to_string(device) + " on";
  for (const DType dtype : dtypes) text += " " + to_string(dtype);
  return text + ": ";
}

/// The category's promise about the result, said without looking at any cast.
Difference wrong_dtype(const Case& one, DType region, const std::vector<DType>& dtypes,
                       const Result& result) {
  const bool all_eligible = std::find(dtypes.begin(), dtypes.end(), DType::f64) == dtypes.end();
  const Category category = one.info().category.value;
  if (!all_eligible || explicit_dtype(one)) return std::nullopt;
  if (category != Category::lower_precision && category != Category::fp32) return std::nullopt;
  // An output dtype that the caller chose by another name stands as well.
  const Value* chosen = one.attrs.is_map() ? one.attrs.find("out_dtype") : nullptr;
  if (chosen != nullptr && !chosen->is_null()) return std::nullopt;
  const DType want = category == Category::fp32 ? DType::f32 : region;
  for (const Tensor& output : result.outputs) {
    if (is_floating(output.dtype()) && output.dtype() != want)
      return "result dtype " + to_string(output.dtype()) + ", want " + to_string(want);
  }
  return std::nullopt;
}

void check_banned(const Case& one, Device device, DType region, Findings& findings) {
  const Tensors inputs = moved(make_inputs(one, DType::f32), device);
  try {
    static_cast<void>(call(inside_region(one, device, region), inputs));
    findings.fail(Check::autocast, one.label + ": banned, but runs in a region of " + to_string(region));
  } catch (const StateError& error) {
    if (error.fix().empty())
      findings.fail(Check::autocast, one.label + ": banned without saying what to call");
  }
}

/// Regions of `region` on `device` against manual casts there, on every mix of dtypes.
void check_region(const Case& one, Device device, DType region, Findings& findings) {
  findings.ran(Check::autocast);
  if (one.info().category.value == Category::banned) return check_banned(one, device, region, findings);
  const Tensors values = moved(make_inputs(one, DType::f32), device);
  for (const std::vector<DType>& dtypes : mixes(values.size(), region)) {
    const Tensors inputs = converted(one, values, dtypes);
    const Outcome want = outcome_of(one, with_manual_casts(one, region), inputs);
    const Outcome got = outcome_of(one, inside_region(one, device, region), inputs);
    const std::string label = label_of(one, device, region, dtypes);
    if (auto found = outcomes_differ(got, want)) findings.fail(Check::autocast, label + *found);
    const Outcome uncached = outcome_of(one, inside_region(one, device, region, false), inputs);
    if (auto found = outcomes_differ(uncached, want))
      findings.fail(Check::autocast, label + "without cache: " + *found);
    if (!got.result) continue;
    if (auto found = wrong_dtype(one, region, dtypes, *got.result))
      findings.fail(Check::autocast, label + *found);
  }
}

/// A call that asks for the dtype `chosen` by an attribute, on inputs of `dtype`.
void check_chosen_dtype(const Case& asked, Device device, DType chosen, DType dtype, Findings& findings) {
  findings.ran(Check::explicit_dtype);
  const Tensors inputs = moved(make_inputs(asked, dtype), device);
  const Outcome outside = outcome_of(asked, forward_of(asked), inputs);
  const Outcome inside = outcome_of(asked, inside_region(asked, device, DType::bf16), inputs);
  const std::string label = asked.label + " with dtype " + to_string(chosen) + " on " + to_string(dtype) +
                            " of " + to_string(device) + ": ";
  if (auto found = outcomes_differ(inside, outside)) findings.fail(Check::explicit_dtype, label + *found);
  if (inside.result && inside.result->outputs[0].dtype() != chosen)
    findings.fail(Check::explicit_dtype,
                  label + "result dtype " + to_string(inside.result->outputs[0].dtype()));
}

}  // namespace

void check_autocast(const Case& one, Findings& findings) {
  for (const Device device : devices()) {
    for (const DType region : {DType::f16, DType::bf16}) check_region(one, device, region, findings);
  }
}

void check_ignored_types(const Case& one, Findings& findings) {
  if (one.info().category.value == Category::banned) return;
  for (const Device device : devices()) {
    for (const DType dtype : {DType::f64, DType::i32}) {
      findings.ran(Check::ignored_types);
      const Tensors inputs = moved(make_inputs(one, dtype), device);
      const Outcome outside = outcome_of(one, forward_of(one), inputs);
      const Outcome inside = outcome_of(one, inside_region(one, device, DType::f16), inputs);
      if (auto found = outcomes_differ(inside, outside))
        findings.fail(Check::ignored_types, one.label + " " + to_string(dtype) + " in a region of " +
                                                to_string(device) + ": " + *found);
    }
  }
}

void check_explicit_dtype(const Case& one, Findings& findings) {
  if (one.info().category.value == Category::banned || !takes_dtype(one)) return;
  for (const DType chosen : {DType::f16, DType::bf16, DType::f64}) {
    Case asked = one;
    asked.attrs.set("dtype", to_string(chosen));
    for (const Device device : devices()) {
      for (const DType dtype : {DType::f16, DType::f32})
        check_chosen_dtype(asked, device, chosen, dtype, findings);
    }
  }
}

}  // namespace mezzo::sweep
