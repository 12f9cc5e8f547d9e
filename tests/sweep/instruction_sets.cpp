// Every instruction set against the baseline, bit for bit.
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

void compare(const Case& one, Findings& findings) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const Tensors inputs = make_inputs(one, dtype);
    const Result base = run_on(Isa::base, one, inputs);
    for (const Isa isa : {Isa::v3, Isa::v4}) {
      if (isa > kernels::cpu::best_isa()) continue;
      findings.ran(Check::instruction_sets);
      const Difference found = bits_differ(run_on(isa, one, inputs), base);
      if (!found) continue;
      findings.fail(Check::instruction_sets, one.label + " " + to_string(dtype) + " on x86-64-v" +
                                                 (isa == Isa::v3 ? "3" : "4") + ": " + *found);
    }
  }
}

}  // namespace

void check_instruction_sets(const Case& one, Findings& findings) {
  compare(one, findings);
  if (!one.info().elementwise) return;
  // Samples are smaller than a vector: the same on full ones and a rest.
  Case longer = one;
  longer.label += " of 1031";
  for (SampleInput& input : longer.inputs) input.shape = {1031};
  compare(longer, findings);
}

}  // namespace mezzo::sweep
