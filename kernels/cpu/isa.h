// The instruction set the CPU kernels run with: found once from the CPU, or forced by MEZZO_CPU_ISA. It is
// apart from the kernels because loops, casts and GEMM must all agree on it, and because tests switch it.
#pragma once

#include <string>

#include "mezzo/core/scope.h"

namespace mezzo::kernels::cpu {

/// Variants a kernel is compiled in: the baseline of the target (x86-64: SSE2), x86-64-v3 (AVX2, FMA, F16C)
/// and x86-64-v4 (AVX-512 F, BW, CD, DQ, VL). On other machines there is only `base`, which on ARM has NEON,
/// fused multiply-adds and conversions of f16. Ordered: a CPU that runs one variant runs all smaller ones.
enum class Isa { base, v3, v4 };

/// The variant in use. Chosen at the first call: the value of MEZZO_CPU_ISA (`base`, `v3`, `v4`), else
/// best_isa(). Throws: what detail::choose_isa throws.
[[nodiscard]] Isa isa();

/// The largest variant that the CPU and the operating system support.
[[nodiscard]] Isa best_isa();

/// Whether the CPU rounds f32 to bf16 and multiplies bf16 by instructions of its own: isa() is v4 and it has
/// AVX512_BF16 too, or it is an ARM with FEAT_BF16. It is no variant of its own: the few loops that round by
/// it give the same bits without it.
[[nodiscard]] bool has_bf16_instructions();

/// Whether the CPU multiplies tiles of bf16 matrices: isa() is v4 and it has AMX_BF16 too.
[[nodiscard]] bool has_matrix_units();

/// isa() in words for banners: "x86-64", "x86-64-v3", "x86-64-v4", "aarch64"; "generic" on other machines.
[[nodiscard]] std::string isa_name();

namespace detail {
/// The variant that a value of MEZZO_CPU_ISA (or nullptr) chooses on a CPU whose largest variant is `best`.
/// Throws: ValueError when the value is unknown, DeviceError when it is beyond `best`. A function of its
/// arguments only, so that every CPU can test what happens on a lesser one.
[[nodiscard]] Isa choose_isa(const char* value, Isa best);
}  // namespace detail

/// For tests only: while it lives, isa() is `isa` for every thread of the process; then what it was before.
/// Not to be used while other threads run kernels. Throws: DeviceError when the CPU lacks it.
class IsaGuard : mezzo::detail::NoCopy {
 public:
  explicit IsaGuard(Isa isa);
  ~IsaGuard();

 private:
  Isa previous_;
};

}  // namespace mezzo::kernels::cpu
