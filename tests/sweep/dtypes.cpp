// Every dtype against f64 on the same values.
#include <cmath>

#include "mezzo/core/error.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

bool asks_for_dtype(const Case& one) {
  for (const char* name : {"dtype", "out_dtype"}) {
    const Value* value = one.attrs.is_map() ? one.attrs.find(name) : nullptr;
    if (value != nullptr && !value->is_null()) return true;
  }
  return false;
}

/// How many numbers may be added up for one: the broadcast ones in a gradient of an elementwise op, at most
/// all of them in any other.
double terms_of(const Case& one, const Tensors& inputs, const Tensors& outputs) {
  double most = 1, least = 1e9;
  for (const Tensors* list : {&inputs, &outputs}) {
    for (const Tensor& x : *list) {
      if (!x.defined()) continue;
      most = std::max(most, static_cast<double>(x.numel()));
      least = std::min(least, std::max(1.0, static_cast<double>(x.numel())));
    }
  }
  return one.info().elementwise ? most / least : most;
}

/// Results and gradients in `dtype` against those of f64.
void compare_with_f64(const Case& one, DType dtype, Check check, Findings& findings) {
  const Tensors inputs = make_inputs(one, dtype);
  const Tensors wide_inputs = converted(one, inputs, DType::f64);
  const Result got = run(one, forward_of(one), inputs);
  const Result want = run(one, forward_of(one), wide_inputs);
  const bool exact = is_view(wide_inputs, want.outputs);
  const Exactness exactness = exactness_of(one.info(), exact);
  const double magnitude = magnitude_of_products(wide_inputs);
  const double terms = terms_of(one, inputs, got.outputs);
  const std::string label = one.label + " " + to_string(dtype) + ": ";
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    const Tensor& output = got.outputs[i];
    if (is_floating(output.dtype()) && output.dtype() != dtype && !asks_for_dtype(one))
      findings.fail(check, label + "result dtype " + to_string(output.dtype()));
    // An output wider than its inputs is no more exact than the arithmetic, which is at least f32.
    const DType of = output.dtype() == DType::f64 ? DType::f32 : output.dtype();
    const Accuracy accuracy{exactness, of, std::max(magnitude, magnitude_of(want.outputs)), terms};
    if (auto found = differs(label + "output " + std::to_string(i), output, want.outputs[i], accuracy))
      findings.fail(check, *found);
  }
  const double slope = std::max(magnitude, magnitude_of(want.gradients));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& gradient = got.gradients[i];
    if (gradient.defined() && gradient.dtype() != dtype)
      findings.fail(check, label + "gradient dtype " + to_string(gradient.dtype()));
    const Accuracy accuracy{exactness, dtype, slope, terms, true};
    if (auto found = differs(label + "gradient " + std::to_string(i), gradient, want.gradients[i], accuracy))
      findings.fail(check, *found);
  }
}

/// A finite f64 value as a tensor of `dtype` holds it: cut to an integer, modulo the range; bools by "not 0".
double wrapped(double value, DType dtype) {
  const double cut = std::trunc(value);
  if (dtype == DType::boolean) return cut != 0 ? 1 : 0;
  const auto bits = static_cast<std::int64_t>(cut);
  if (dtype == DType::u8) return static_cast<double>(static_cast<std::uint8_t>(bits));
  if (dtype == DType::i8) return static_cast<double>(static_cast<std::int8_t>(bits));
  if (dtype == DType::i16) return static_cast<double>(static_cast<std::int16_t>(bits));
  if (dtype == DType::i32) return static_cast<double>(static_cast<std::int32_t>(bits));
  return cut;
}

Difference integers_differ(const std::string& what, const Tensor& got, const Tensor& want, double magnitude) {
  if (got.shape() != want.shape()) return what + ": shape " + to_string(got.shape());
  const std::vector<double> a = numbers(got), b = numbers(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) continue;  // division by 0: integers have no infinity
    const bool real = is_floating(got.dtype());
    const double expected = real ? b[i] : wrapped(b[i], got.dtype());
    const double allowed = real ? allowed_error({Exactness::pointwise, got.dtype(), magnitude}, expected) : 0;
    if (std::abs(a[i] - expected) <= allowed) continue;
    return what + "[" + std::to_string(i) + "]: " + std::to_string(a[i]) + ", want " +
           std::to_string(expected);
  }
  return std::nullopt;
}

void compare_integers(const Case& one, DType dtype, Findings& findings) {
  const Tensors inputs = make_inputs(one, dtype);
  Result got;
  try {
    got = run(one, forward_of(one), inputs);
  } catch (const Error&) {
    return;  // the op says that it does not take them
  }
  findings.ran(Check::integers);
  const Tensors wide = converted(one, inputs, DType::f64);
  const Result want = run(one, forward_of(one), wide);
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    const std::string what = one.label + " " + to_string(dtype) + ": output " + std::to_string(i);
    if (auto found = integers_differ(what, got.outputs[i], want.outputs[i], magnitude_of_products(wide)))
      findings.fail(Check::integers, *found);
  }
}

}  // namespace

void check_f32(const Case& one, Findings& findings) {
  findings.ran(Check::f32);
  compare_with_f64(one, DType::f32, Check::f32, findings);
}

void check_low_precision(const Case& one, Findings& findings) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    findings.ran(Check::low_precision);
    compare_with_f64(one, dtype, Check::low_precision, findings);
  }
}

void check_integers(const Case& one, Findings& findings) {
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::boolean})
    compare_integers(one, dtype, findings);
}

}  // namespace mezzo::sweep
