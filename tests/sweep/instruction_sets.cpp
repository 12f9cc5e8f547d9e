// Every instruction set against the baseline.
#include "mezzo/kernels/cpu/isa.h"
#include "sweep/checks.h"
#include "sweep/compare.h"

namespace mezzo::sweep {

namespace {

using kernels::cpu::Isa;
using kernels::cpu::IsaGuard;

Result run_on(Isa isa, const Case& one, const Tensors& inputs) {
  const IsaGuard guard(isa);
  return run(one, forward_of(one), inputs);
}

/// Products add up in the order of their library's kernels, so only a bound on the rounding holds.
Difference products_differ(const Result& got, const Result& want, const Tensors& inputs, DType dtype) {
  double terms = 1;
  for (const Tensor& x : inputs) terms = std::max(terms, x.defined() ? static_cast<double>(x.numel()) : 1.0);
  for (const Tensors Result::*list : {&Result::outputs, &Result::gradients}) {
    const double size = std::max(magnitude_of_products(inputs), magnitude_of(want.*list));
    // Both sides round, hence the gradient's allowance for results too.
    const Accuracy accuracy{Exactness::accumulated, dtype, size, terms, true};
    for (std::size_t i = 0; i < (want.*list).size(); ++i) {
      if (auto found = differs("number " + std::to_string(i), (got.*list)[i], (want.*list)[i], accuracy))
        return found;
    }
  }
  return std::nullopt;
}

void compare(const Case& one, bool is_product, Findings& findings) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const Tensors inputs = make_inputs(one, dtype);
    const Result base = run_on(Isa::base, one, inputs);
    for (const Isa isa : {Isa::v3, Isa::v4}) {
      if (isa > kernels::cpu::best_isa()) continue;
      findings.ran(Check::instruction_sets);
      const Result other = run_on(isa, one, inputs);
      const Difference found =
          is_product ? products_differ(other, base, inputs, dtype) : bits_differ(other, base);
      if (!found) continue;
      findings.fail(Check::instruction_sets, one.label + " " + to_string(dtype) + " on x86-64-v" +
                                                 (isa == Isa::v3 ? "3" : "4") + ": " + *found);
    }
  }
}

}  // namespace

void check_instruction_sets(const Case& one, Findings& findings) {
  // The ops that autocast runs in 16 bits are those of the matrix product, but for prelu; `dot` is one of a
  // row and a column.
  const std::string_view name = one.info().name.value;
  const bool is_product =
      (one.info().category == Category::lower_precision && name != "prelu") || name == "dot";
  if (is_product && one.label.ends_with(" 0"))
    findings.note(std::string(name) +
                  " without equal bits on instruction sets: a matrix product, within rounding");
  compare(one, is_product, findings);
  if (!one.info().elementwise) return;
  // Samples are smaller than a vector: the same on full ones and a rest.
  Case longer = one;
  longer.label += " of 1031";
  for (SampleInput& input : longer.inputs) input.shape = {1031};
  compare(longer, is_product, findings);
}

}  // namespace mezzo::sweep
