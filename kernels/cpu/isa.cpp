// Reads CPUID, and on ARM what the system tells of it. The compilers' __builtin_cpu_supports is not used:
// clang 14 does not know the names of the levels.
#include "mezzo/kernels/cpu/isa.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace mezzo::kernels::cpu {
namespace {

#if defined(__x86_64__)
constexpr bool has_all(std::uint64_t bits, std::uint64_t mask) { return (bits & mask) == mask; }
constexpr std::uint64_t bit(int i) { return std::uint64_t{1} << i; }

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// Which register files the operating system saves (XCR0). A CPU may have AVX-512 that the system does not
/// let us use.
std::uint64_t saved_state() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

Isa read_best_isa() {
  const Registers one = cpuid(1), seven = cpuid(7), extended = cpuid(0x80000001U);
  if (!has_all(one.ecx, bit(27))) return Isa::base;  // OSXSAVE: without it xgetbv itself is illegal
  const std::uint64_t saved = saved_state();
  const bool v3 = has_all(one.ecx, bit(12) | bit(22) | bit(28) | bit(29)) &&  // FMA, MOVBE, AVX, F16C
                  has_all(seven.ebx, bit(3) | bit(5) | bit(8)) &&             // BMI1, AVX2, BMI2
                  has_all(extended.ecx, bit(5)) && has_all(saved, 0x6);       // LZCNT; XMM and YMM saved
  const bool v4 = v3 &&
                  has_all(seven.ebx, bit(16) | bit(17) | bit(28) | bit(30) | bit(31)) &&  // F, DQ, CD, BW, VL
                  has_all(saved, 0xE6);  // and the mask registers and both halves of ZMM
  return v4 ? Isa::v4 : (v3 ? Isa::v3 : Isa::base);
}

bool read_bf16_instructions() { return best_isa() == Isa::v4 && has_all(cpuid(7, 1).eax, bit(5)); }
bool read_matrix_units() { return best_isa() == Isa::v4 && has_all(cpuid(7).edx, bit(22)); }
#else
bool read_matrix_units() { return false; }
Isa read_best_isa() { return Isa::base; }
#if defined(HWCAP2_BF16)
bool read_bf16_instructions() { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }
#else
bool read_bf16_instructions() { return false; }
#endif
#endif

std::string_view level_name(Isa isa) {
#if defined(__x86_64__)
  return isa == Isa::v4 ? "x86-64-v4" : isa == Isa::v3 ? "x86-64-v3" : "x86-64";
#endif
  static_cast<void>(isa);
#if defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

void require_supported(std::string_view op, Isa wanted, Isa best) {
  if (wanted <= best) return;
  throw DeviceError(op, "an instruction set of this CPU", wanted == Isa::v4 ? "v4" : "v3",
                    "this CPU runs up to " + std::string(level_name(best)));
}

constexpr int kNotChosen = -1;
/// Process-wide, written once at the first use (and by the tests' guard): every thread must run the same
/// variant.
std::atomic<int> g_isa{kNotChosen};

}  // namespace

Isa isa() {
  const int known = g_isa.load(std::memory_order_relaxed);
  if (known != kNotChosen) return static_cast<Isa>(known);
  const Isa chosen = detail::choose_isa(std::getenv("MEZZO_CPU_ISA"),
                                        best_isa());  // two threads may both get here; they choose alike
  g_isa.store(static_cast<int>(chosen), std::memory_order_relaxed);
  return chosen;
}

Isa best_isa() {
  static const Isa best = read_best_isa();
  return best;
}

bool has_bf16_instructions() {
  static const bool has = read_bf16_instructions();
  return has && isa() == best_isa();
}

bool has_matrix_units() {
  static const bool has = read_matrix_units();
  return has && isa() == best_isa();
}

std::string isa_name() { return std::string(level_name(isa())); }

namespace detail {

Isa choose_isa(const char* value, Isa best) {
  if (value == nullptr || *value == '\0') return best;
  const std::string_view name = value;
  if (name != "base" && name != "v3" && name != "v4") {
    throw ValueError("MEZZO_CPU_ISA", "base, v3 or v4", "'" + std::string(name) + "'",
                     "unset it to use the best");
  }
  const Isa wanted = name == "base" ? Isa::base : (name == "v3" ? Isa::v3 : Isa::v4);
  require_supported("MEZZO_CPU_ISA", wanted, best);
  return wanted;
}

}  // namespace detail

IsaGuard::IsaGuard(Isa wanted) : previous_(isa()) {
  require_supported("IsaGuard", wanted, best_isa());
  g_isa.store(static_cast<int>(wanted), std::memory_order_relaxed);
}

IsaGuard::~IsaGuard() { g_isa.store(static_cast<int>(previous_), std::memory_order_relaxed); }

}  // namespace mezzo::kernels::cpu
