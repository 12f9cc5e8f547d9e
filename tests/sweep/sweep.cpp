// Runs every check on every sample of an op and honours its opt-outs.
#include <array>
#include <exception>

#include "sweep/checks.h"

namespace mezzo::sweep {

namespace {

struct Row {
  Check check;  ///< what a thrown error is filed under
  void (*run)(const Case&, Findings&);
  std::string_view SweepOptOut::*opt_out = nullptr;
};
constexpr std::array kRows{
    Row{Check::gradient, check_gradient, &SweepOptOut::gradient},
    Row{Check::second_gradient, check_second_gradient, &SweepOptOut::second_gradient},
    Row{Check::strided, check_strided, &SweepOptOut::strided},
    Row{Check::memory_format, check_memory_format, &SweepOptOut::strided},
    Row{Check::broadcast, check_shapes},
    Row{Check::f32, check_f32},
    Row{Check::low_precision, check_low_precision, &SweepOptOut::low_precision},
    Row{Check::integers, check_integers},
    Row{Check::float8, check_float8},
    Row{Check::autocast, check_autocast, &SweepOptOut::autocast},
    Row{Check::ignored_types, check_ignored_types, &SweepOptOut::autocast},
    Row{Check::explicit_dtype, check_explicit_dtype, &SweepOptOut::autocast},
    Row{Check::reference, check_reference},
    Row{Check::history, check_history},
    Row{Check::inputs_kept, check_inputs_kept},
    Row{Check::host_reads, check_host_reads},
    Row{Check::bad_input, check_bad_input},
    Row{Check::instruction_sets, check_instruction_sets},
    Row{Check::devices, check_devices},
};

void run_row(const Row& row, const Case& one, Findings& findings) {
  try {
    row.run(one, findings);
  } catch (const std::exception& error) {
    findings.fail(row.check, one.label + ": " + std::string(name_of(row.check)) + " throws " + error.what());
  }
}

}  // namespace

Findings sweep(const RegistryEntry& op) {
  Findings findings;
  const std::vector<Case> cases = cases_of(op);
  const std::string name(op.info().name.value);
  if (cases.empty()) findings.fail(Check::history, name + ": no samples");
  for (const Row& row : kRows) {
    const std::string_view reason =
        row.opt_out == nullptr ? std::string_view() : op.info().opt_out.*row.opt_out;
    if (!reason.empty()) {
      findings.note(name + " without " + std::string(name_of(row.check)) + ": " + std::string(reason));
      continue;
    }
    for (const Case& one : cases) run_row(row, one, findings);
  }
  return findings;
}

}  // namespace mezzo::sweep
