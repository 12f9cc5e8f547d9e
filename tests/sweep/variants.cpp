// Layouts and shapes that the sweep derives from a sample by itself.
#include <algorithm>
#include <exception>

#include "mezzo/core/layout.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

/// The case with other shapes, drawn anew.
Case with_shapes(const Case& one, const char* what, const std::vector<Shape>& shapes) {
  Case other = one;
  other.label += std::string(" ") + what;
  for (std::size_t i = 0; i < other.inputs.size(); ++i) {
    if (other.inputs[i].kind != SampleKind::absent) other.inputs[i].shape = shapes[i % shapes.size()];
  }
  return other;
}

Shape common_shape(const Case& one) {
  Shape shape;
  for (const SampleInput& input : one.inputs) {
    if (input.kind != SampleKind::absent) shape = layout::broadcast("sweep", shape, input.shape);
  }
  return shape;
}

/// Output shapes of an elementwise op are the inputs' common shape, and gradients have their inputs' shapes.
void check_result_shapes(const Case& one, Check check, Findings& findings) {
  const Tensors inputs = make_inputs(one, DType::f32);
  const Result result = run(one, forward_of(one), inputs);
  for (const Tensor& output : result.outputs) {
    if (output.shape() != common_shape(one)) {
      findings.fail(check, one.label + ": result of shape " + to_string(output.shape()) + ", want " +
                               to_string(common_shape(one)));
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& gradient = result.gradients[i];
    if (gradient.defined() && gradient.shape() != inputs[i].shape())
      findings.fail(check, one.label + ": gradient " + std::to_string(i) + " of shape " +
                               to_string(gradient.shape()) + ", want " + to_string(inputs[i].shape()));
  }
}

/// Findings of derived cases, thrown ones too, count for the check that derived them.
void check_derived(const Case& one, Check check, Findings& findings) {
  findings.ran(check);
  Findings inner;
  try {
    check_result_shapes(one, check, findings);
    if (one.info().opt_out.gradient.empty()) check_gradient(one, inner);
    if (one.info().opt_out.second_gradient.empty()) check_second_gradient(one, inner);
    check_f32(one, inner);
  } catch (const std::exception& error) {
    findings.fail(check, one.label + ": throws " + error.what());
  }
  for (const Finding& finding : inner.failures()) findings.fail(check, finding.text);
}

}  // namespace

void check_strided(const Case& one, Findings& findings) {
  const std::string_view name = one.info().name.value;
  const bool follows = std::find(kFollowMemory.begin(), kFollowMemory.end(), name) != kFollowMemory.end();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensors inputs = make_inputs(one, dtype);
    const Result plain = run(one, forward_of(one), inputs);
    for (const Stride stride : {Stride::reversed, Stride::spread}) {
      findings.ran(Check::strided);
      const Result other = run(one, forward_of(one), strided_copies(inputs, stride), Stride::spread);
      const char* how = stride == Stride::reversed ? ", dims reversed: " : ", elements spread: ";
      if (auto found = follows ? ways_differ(one.info(), other, plain, inputs) : bits_differ(other, plain))
        findings.fail(Check::strided, one.label + " " + to_string(dtype) + how + *found);
    }
  }
}

void check_memory_format(const Case& one, Findings& findings) {
  Case image = one;
  for (SampleInput& input : image.inputs) {
    if (one.info().elementwise && input.kind != SampleKind::absent) input.shape = {2, 3, 4, 5};
  }
  const auto has_format = [](const Tensor& x) { return x.defined() && x.dim() >= 3 && x.dim() <= 5; };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensors inputs = make_inputs(image, dtype);
    if (std::none_of(inputs.begin(), inputs.end(), has_format)) return;
    findings.ran(Check::memory_format);
    const Result plain = run(image, forward_of(image), inputs);
    const Result other =
        run(image, forward_of(image), strided_copies(inputs, Stride::channels_last), Stride::channels_last);
    const std::string label = one.label + " " + to_string(dtype) + " channels-last: ";
    if (auto found = ways_differ(one.info(), other, plain, inputs))
      findings.fail(Check::memory_format, label + *found);
    if (!one.info().elementwise) continue;
    for (const Tensors* list : {&other.outputs, &other.gradients}) {
      for (const Tensor& x : *list) {
        if (x.defined() && x.suggest_memory_format() != MemoryFormat::channels_last)
          findings.fail(Check::memory_format, label + "strides " + to_string(x.strides()));
      }
    }
  }
}

void check_shapes(const Case& one, Findings& findings) {
  if (!one.info().elementwise) return;
  std::size_t present = 0;
  for (const SampleInput& input : one.inputs) present += input.kind == SampleKind::absent ? 0 : 1;
  check_derived(with_shapes(one, "empty", {{2, 0, 3}}), Check::empty, findings);
  check_derived(with_shapes(one, "empty vector", {{0}}), Check::empty, findings);
  check_derived(with_shapes(one, "0-dim", {{}}), Check::zero_dim, findings);
  if (present < 2) return;
  check_derived(with_shapes(one, "broadcast", {{3, 1}, {4}, {2, 1, 1}}), Check::broadcast, findings);
  check_derived(with_shapes(one, "broadcast the other way", {{4}, {2, 3, 1}, {1, 1, 4}}), Check::broadcast,
                findings);
  check_derived(with_shapes(one, "0-dim and matrix", {{}, {2, 3}, {3}}), Check::broadcast, findings);
}

}  // namespace mezzo::sweep
