// Float8: an op moves or casts its elements as they are, or refuses it in one line, with the way out.
#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/ops/cast.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

/// What is wrong with the end of a call that must be refused, `what`.
Difference not_refused(const Case& one, const Tensors& inputs, const std::string& what) {
  try {
    static_cast<void>(call(forward_of(one), inputs));
  } catch (const DTypeError& error) {
    const bool names_float8 = error.got().find("f8_e") != std::string::npos;
    if (error.op() == one.info().name.value && names_float8 && error.fix().find(".to(") != std::string::npos)
      return std::nullopt;
    return what + ": the error does not name op, dtype and fix: " + error.what();
  }
  return what + ": is not refused";
}

void check_refusals(const Case& one, DType dtype, Findings& findings) {
  const auto refused = [&](const Case& asked, const Tensors& inputs, const std::string& what) {
    findings.ran(Check::float8);
    if (auto found = not_refused(asked, inputs, one.label + ", " + to_string(dtype) + " as " + what))
      findings.fail(Check::float8, *found);
  };
  const Tensors inputs = make_inputs(one, DType::f32), narrow = converted(one, inputs, dtype);
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !is_real(one.inputs[i])) continue;
    any = true;
    Tensors mixed = inputs;
    mixed[i] = narrow[i];
    refused(one, mixed, "input " + std::to_string(i));
  }
  if (any) refused(one, narrow, "all inputs");
  const Value defaults = one.op->default_attrs();
  if (const Value* chosen = defaults.find("dtype"); chosen == nullptr || !chosen->is_null()) return;
  Case asked = one;
  asked.attrs.set("dtype", to_string(dtype));
  refused(asked, inputs, "the dtype of the result");
}

/// The results of float8 inputs are those of the same values in f32, on every device.
void check_moves(const Case& one, const Tensors& inputs, DType dtype, Findings& findings) {
  const Outputs want = call(forward_of(one), converted(one, inputs, DType::f32));
  for (const Device device : devices()) {
    findings.ran(Check::float8);
    const Outputs got = call(forward_of(one), moved(inputs, device));
    const std::string label = one.label + ", " + to_string(dtype) + " on " + to_string(device) + ": ";
    if (got.size() != want.size()) findings.fail(Check::float8, label + "another number of outputs");
    for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
      // Another dtype than that of the input is one that the call asks for.
      const bool is_moved = want[i].dtype() == DType::f32;
      if (is_moved && got[i].dtype() != dtype)
        findings.fail(Check::float8, label + "result dtype " + to_string(got[i].dtype()));
      const Tensor values = is_moved ? to(got[i], DType::f32) : got[i];
      if (auto found = bits_differ("output " + std::to_string(i), values, want[i]))
        findings.fail(Check::float8, label + *found);
    }
  }
}

/// An op that casts to the dtype it is given casts to float8 as kernels::cpu::convert does.
void check_cast_to(const Case& one, DType dtype, Findings& findings) {
  const Value defaults = one.op->default_attrs();
  if (const Value* chosen = defaults.find("dtype"); chosen == nullptr || !chosen->is_string()) return;
  Case cast = one;
  cast.attrs.set("dtype", to_string(dtype));
  for (const DType from : kComputeDTypes) {
    const Tensors inputs = make_inputs(cast, from);
    const Tensor want = empty(inputs[0].shape(), {.dtype = dtype});
    kernels::cpu::convert(inputs[0].impl().data(), from, want.impl().data(), dtype, want.numel());
    for (const Device device : devices()) {
      findings.ran(Check::float8);
      const Outputs got = call(forward_of(cast), moved(inputs, device));
      if (auto found = bits_differ("of " + to_string(from), got[0], want))
        findings.fail(Check::float8,
                      one.label + " to " + to_string(dtype) + " on " + to_string(device) + ": " + *found);
    }
  }
}

}  // namespace

void check_float8(const Case& one, Findings& findings) {
  // Codes are multiplied: their ops have samples of them, for all checks.
  const auto is_codes = [](const SampleInput& input) { return input.kind == SampleKind::codes; };
  if (std::any_of(one.inputs.begin(), one.inputs.end(), is_codes)) return;
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    if (!one.info().takes_float8) {
      check_refusals(one, dtype, findings);
      continue;
    }
    const Tensors inputs = converted(one, make_inputs(one, DType::f32), dtype);
    check_moves(one, inputs, dtype, findings);
    for (const Stride stride : {Stride::reversed, Stride::spread, Stride::channels_last})
      check_moves(one, strided_copies(inputs, stride), dtype, findings);
    check_cast_to(one, dtype, findings);
  }
}

}  // namespace mezzo::sweep
