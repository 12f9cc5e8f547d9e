// What every op owes its callers whatever it computes: the meaning of its reference, history only when asked
// for, inputs left alone, no value read back to the host.
#include <cstring>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/backend.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

bool any_history(const Tensors& outputs) {
  for (const Tensor& output : outputs) {
    if (output.requires_grad() || !output.is_leaf()) return true;
  }
  return false;
}

/// Leaves that ask for gradients where the sample says so.
Tensors asking(const Case& one, DType dtype) {
  Tensors inputs = make_inputs(one, dtype);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && one.inputs[i].grad && is_floating(inputs[i].dtype()))
      inputs[i].requires_grad_();
  }
  return inputs;
}

bool any_asks(const Tensors& inputs) {
  for (const Tensor& x : inputs) {
    if (x.requires_grad()) return true;
  }
  return false;
}

std::vector<std::byte> memory_of(const Tensor& x) {
  std::vector<std::byte> bytes(x.defined() ? x.impl().storage->bytes() : 0);
  if (!bytes.empty()) std::memcpy(bytes.data(), x.impl().storage->data(), bytes.size());
  return bytes;
}

/// Results of the reference in `dtype` against the op's own.
void compare_with_reference(const Case& one, DType dtype, Findings& findings) {
  findings.ran(Check::reference);
  const Tensors inputs = make_inputs(one, dtype);
  const Result got = run(one, forward_of(one), inputs), want = run(one, reference_of(one), inputs);
  const std::string label = one.label + " " + to_string(dtype) + " against its reference: ";
  if (got.outputs.size() != want.outputs.size()) {
    findings.fail(Check::reference, label + "another number of outputs");
    return;
  }
  double terms = 1;
  for (const Tensor& x : inputs) terms = std::max(terms, x.defined() ? static_cast<double>(x.numel()) : 1.0);
  const double size = std::max(magnitude_of_products(inputs), magnitude_of(want.outputs));
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    if (got.outputs[i].dtype() != want.outputs[i].dtype())
      findings.fail(Check::reference, label + "dtype " + to_string(got.outputs[i].dtype()));
    // Both sides round, hence the gradient's allowance for results too.
    const Accuracy accuracy{Exactness::accumulated, want.outputs[i].dtype(), size, terms, true};
    const std::string what = label + "output " + std::to_string(i);
    if (auto found = differs(what, got.outputs[i], want.outputs[i], accuracy))
      findings.fail(Check::reference, *found);
  }
  const double slope = std::max(size, magnitude_of(want.gradients));
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    const Accuracy accuracy{Exactness::accumulated, dtype, slope, terms, true};
    const std::string what = label + "gradient " + std::to_string(i);
    if (auto found = differs(what, got.gradients[i], want.gradients[i], accuracy))
      findings.fail(Check::reference, *found);
  }
}

}  // namespace

void check_reference(const Case& one, Findings& findings) {
  if (!one.op->has_reference()) return;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    compare_with_reference(one, dtype, findings);
}

void check_history(const Case& one, Findings& findings) {
  findings.ran(Check::history);
  const Tensors inputs = asking(one, DType::f32);
  {
    const NoGrad no_grad;
    if (any_history(call(forward_of(one), inputs)))
      findings.fail(Check::history, one.label + ": has history with recording off");
  }
  if (any_history(call(forward_of(one), make_inputs(one, DType::f32))))
    findings.fail(Check::history, one.label + ": has history though no input requires grad");
  const Outputs outputs = call(forward_of(one), inputs);
  bool differentiable = false;
  for (const Tensor& output : outputs) {
    differentiable = differentiable || output.requires_grad();
    if (output.requires_grad() && !is_floating(output.dtype()))
      findings.fail(Check::history,
                    one.label + ": a result of " + to_string(output.dtype()) + " has history");
  }
  const bool says_none = !one.op->no_gradient_because().empty();
  if (says_none && differentiable)
    findings.fail(Check::history, one.label + ": has a gradient and a reason for having none");
  if (!says_none && !differentiable && any_asks(inputs))
    findings.fail(Check::history, one.label + ": no gradient, and no reason given (NotDifferentiable)");
}

void check_inputs_kept(const Case& one, Findings& findings) {
  findings.ran(Check::inputs_kept);
  const Tensors inputs = make_inputs(one, DType::f32);
  std::vector<std::vector<std::byte>> before;
  std::vector<std::uint32_t> versions;
  for (const Tensor& x : inputs) {
    before.push_back(memory_of(x));
    versions.push_back(x.defined() ? x.version() : 0);
  }
  static_cast<void>(run(one, forward_of(one), inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (memory_of(inputs[i]) != before[i])
      findings.fail(Check::inputs_kept, one.label + ": input " + std::to_string(i) + " was written to");
    else if (inputs[i].defined() && inputs[i].version() != versions[i])
      findings.fail(Check::inputs_kept,
                    one.label + ": the version of input " + std::to_string(i) + " changed");
  }
}

void check_host_reads(const Case& one, Findings& findings) {
  findings.ran(Check::host_reads);
  const Tensors inputs = asking(one, DType::f32);
  std::uint64_t reads = host_reads();
  const Outputs outputs = call(forward_of(one), inputs);
  std::uint64_t spent = host_reads() - reads;
  Tensors roots, upstream;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    upstream.push_back(direction(outputs[i].shape(), outputs[i].dtype(), i));
  }
  reads = host_reads();
  if (!roots.empty()) backward(roots, upstream);
  spent += host_reads() - reads;
  if (spent != 0)
    findings.fail(Check::host_reads,
                  one.label + ": " + std::to_string(spent) + " values read back to the host");
}

}  // namespace mezzo::sweep
