// The choice between the two ways of bf16 products. It is measured and not read off the processor's feature
// bits: the same instruction set makes native products half as fast as f32 on one processor and twice as fast
// on another.
#include "mezzo/kernels/cpu/gemm_bf16.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/gemm_blocked.h"
#include "mezzo/kernels/cpu/gemm_tile.h"
#include "mezzo/kernels/gemm.h"

namespace mezzo::kernels::cpu {
namespace {

/// Native products are taken when they are this much faster, so that two runs of one program decide alike.
constexpr double kMargin = 1.2;

/// Process-wide setting of set_bf16_gemm().
std::atomic<Bf16Gemm> g_setting{Bf16Gemm::automatic};

#ifdef MEZZO_HAVE_ONEDNN
template <class In>
double fastest_seconds(const GemmArgs& args, GemmTileFunction<In, float> multiply) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 4; ++run) {  // the first one makes the primitives
    const Clock::time_point start = Clock::now();
    gemm_blocked(args, multiply);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// How many times as fast as widened products native ones are; nothing when oneDNN has none for this
/// processor.
std::optional<double> measure() {
  constexpr std::int64_t m = 256, n = 512, k = 512;
  const std::vector<BFloat16> a(m * k, BFloat16(1.25f)), b(k * n, BFloat16(-0.75f));
  std::vector<float> c(m * n);
  GemmArgs args;
  args.m = m, args.n = n, args.k = k;
  args.a = a.data(), args.a_dtype = DType::bf16, args.a_row_stride = k;
  args.b = b.data(), args.b_dtype = DType::bf16, args.b_row_stride = n;
  args.c = c.data(), args.c_row_stride = n;
  try {
    const double native = fastest_seconds<BFloat16>(args, gemm_onednn_bf16);
    return fastest_seconds<float>(args, gemm_onednn_f32) / native;
  } catch (const Error&) {
    return std::nullopt;
  }
}
#else
std::optional<double> measure() { return std::nullopt; }
#endif

const std::optional<double>& measured_speedup() {
  static const std::optional<double> speedup = measure();
  return speedup;
}

void require_native(std::string_view op) {
  if (measured_speedup()) return;
  throw ValueError(op, "widened", "native",
                   "native bf16 products need oneDNN and a processor with AVX512_BF16 or AMX");
}

Bf16Gemm setting_of_environment() {
  const char* const value = std::getenv("MEZZO_CPU_BF16");
  if (value == nullptr || *value == '\0') return Bf16Gemm::automatic;
  const std::string_view name = value;
  if (name != "widened" && name != "native") {
    throw ValueError("MEZZO_CPU_BF16", "widened or native", "'" + std::string(name) + "'",
                     "unset it to use the one that is measured faster");
  }
  if (name == "widened") return Bf16Gemm::widened;
  require_native("MEZZO_CPU_BF16");
  return Bf16Gemm::native;
}

Bf16Gemm wanted() {
  const Bf16Gemm set = g_setting.load(std::memory_order_relaxed);
  if (set != Bf16Gemm::automatic) return set;
  static const Bf16Gemm from_environment = setting_of_environment();
  return from_environment;
}

}  // namespace

bool use_native_bf16() {
  if (gemm_engine() != GemmEngine::onednn) return false;
  const Bf16Gemm way = wanted();
  if (way != Bf16Gemm::automatic) return way == Bf16Gemm::native;
  return measured_speedup().value_or(0) >= kMargin;
}

void set_bf16_gemm(Bf16Gemm way) {
  if (way == Bf16Gemm::native) require_native("set_bf16_gemm");
  g_setting.store(way, std::memory_order_relaxed);
}

Bf16Gemm bf16_gemm() { return use_native_bf16() ? Bf16Gemm::native : Bf16Gemm::widened; }

std::string bf16_gemm_description() {
  const bool native = use_native_bf16();
  if (gemm_engine() != GemmEngine::onednn) return "widened to f32";
  if (!measured_speedup()) return "widened to f32 (no native ones on this processor)";
  char text[96];
  std::snprintf(text, sizeof text, "%s (native ones measured %.1fx as fast as f32)",
                native ? "native" : "widened to f32", *measured_speedup());
  return text;
}

}  // namespace mezzo::kernels::cpu
