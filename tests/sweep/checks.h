// The checks of the sweep. Each takes one call of an op and reports to Findings; which of them apply follows
// from the descriptor, and an op leaves one out only by OpInfo::opt_out.
#pragma once

#include "sweep/case.h"
#include "sweep/findings.h"

namespace mezzo::sweep {

/// First derivatives against finite differences in f64, with all inputs' gradients and with one alone.
void check_gradient(const Case& one, Findings& findings);
/// Derivatives of sum(gradient * v), with respect to inputs and upstream gradients, likewise.
void check_second_gradient(const Case& one, Findings& findings);

/// Inputs and upstream gradients that are not contiguous give the same bits.
void check_strided(const Case& one, Findings& findings);
/// Channels-last inputs and upstream gradients give the same values, in another order of sums at most; and
/// elementwise ops give channels-last results and gradients.
void check_memory_format(const Case& one, Findings& findings);
/// Elementwise ops on shapes their samples need not have: empty, 0-dim, broadcast.
void check_shapes(const Case& one, Findings& findings);

/// f32 results and gradients against f64 on the same inputs.
void check_f32(const Case& one, Findings& findings);
/// f16 and bf16 likewise: one rounding.
void check_low_precision(const Case& one, Findings& findings);
/// Integers and bools, where the op takes them: exactly what f64 gives, modulo the dtype's range.
void check_integers(const Case& one, Findings& findings);

/// Float8 inputs: moved and cast as they are by the ops that say so, refused in one line by all others.
void check_float8(const Case& one, Findings& findings);

/// Inside an enabled region: the result dtype of the category, and the bits of manual casts. This and the
/// next two on the CPU, and on a CUDA device if there is one.
void check_autocast(const Case& one, Findings& findings);
/// f64 and integer inputs are left alone by autocast.
void check_ignored_types(const Case& one, Findings& findings);
/// A dtype that the caller asked for is given inside a region too.
void check_explicit_dtype(const Case& one, Findings& findings);

/// The plain composition gives the same, gradients included.
void check_reference(const Case& one, Findings& findings);
/// A result has history when an input requires grad and the op has a gradient, and only then.
void check_history(const Case& one, Findings& findings);
/// Forward and backward leave their inputs as they are.
void check_inputs_kept(const Case& one, Findings& findings);
/// Forward and backward read no value back to the host.
void check_host_reads(const Case& one, Findings& findings);

/// Calls that make no sense, derived from the sample: wrong numbers of inputs, undefined ones, shapes that do
/// not fit, sizes beyond all memory, dtypes the op may not take, indices and attributes out of range. Each
/// works, gradients included, or throws a mezzo::Error of a fitting kind that says what was expected.
void check_bad_input(const Case& one, Findings& findings);

/// Every instruction set of this CPU gives the same bits, results and gradients. Matrix products too: those
/// of samples are small enough for our own loops (kernels/gemm/gemm.h), unless MEZZO_CPU_GEMM names an
/// engine.
void check_instruction_sets(const Case& one, Findings& findings);

/// A CUDA device, if there is one, gives what the CPU gives within the tolerance of two roundings: results
/// and gradients, every dtype that the op takes, contiguous and strided.
void check_devices(const Case& one, Findings& findings);

/// All of them on all samples of an op. What a check throws is a failure of that check.
[[nodiscard]] Findings sweep(const RegistryEntry& op);

}  // namespace mezzo::sweep
