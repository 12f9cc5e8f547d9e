// The choice between the two ways of bf16 products. It is measured and not read off the processor's feature
// bits: the same instruction set makes native products half as fast as f32 on one processor and twice as fast
// on another.
#include "mezzo/kernels/gemm/cpu_bf16.h"

#include <time.h>

#include <algorithm>
#include <atomic>
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
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mezzo::kernels::cpu {
namespace {

/// Native products are taken when they are this much faster, so that two runs of one program decide alike.
constexpr double kMargin = 1.2;

/// Process-wide setting of set_bf16_gemm().
std::atomic<Bf16Gemm> g_setting{Bf16Gemm::automatic};

/// Processor time that this thread has used: neither other processes nor a clock that is set change it.
double seconds_used() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds_of(F f) {
  const double start = seconds_used();
  f();
  return seconds_used() - start;
}

/// How many times as fast as a widened product a native one is; nothing when there is none for this
/// processor. One tile on one thread, in its processor time, so that a busy machine does not decide; the two
/// take turns, and the fastest run of each counts.
std::optional<double> measure() {
  const auto native_product = native_bf16_product();
  if (native_product == nullptr) return std::nullopt;
  constexpr std::int64_t m = 128, n = 256, k = 512;
  const std::vector<BFloat16> a(m * k, BFloat16(1.25f)), b(k * n, BFloat16(-0.75f));
  std::vector<float> wide_a(m * k), wide_b(k * n), c(m * n);
  const GemmTile<BFloat16, float> native{m, n, k, a.data(), k, false, b.data(), n, false, c.data(), n, false};
  const GemmTile<float> widened{m,     n,        k, wide_a.data(), k, false, wide_b.data(), n,
                                false, c.data(), n, false};
  double native_seconds = std::numeric_limits<double>::infinity(), widened_seconds = native_seconds;
  try {
    for (int turn = 0; turn < 10; ++turn) {  // the first one makes the primitives
      native_seconds = std::min(native_seconds, seconds_of([&] { native_product(native); }));
      widened_seconds = std::min(widened_seconds, seconds_of([&] {
                                   convert(a.data(), DType::bf16, wide_a.data(), DType::f32, m * k);
                                   convert(b.data(), DType::bf16, wide_b.data(), DType::f32, k * n);
                                   gemm_tile(widened);
                                 }));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return widened_seconds / native_seconds;
}

/// Whether the engine in use leaves bf16 products to the native one: oneDNN, whose it is, and on ARM one that
/// nobody named.
bool engine_takes_native() {
#if defined(__aarch64__)
  return !gemm_engine_is_named();
#else
  return gemm_engine() == GemmEngine::onednn;
#endif
}

const std::optional<double>& measured_speedup() {
  static const std::optional<double> speedup = measure();
  return speedup;
}

void require_native(std::string_view op) {
  if (measured_speedup()) return;
  throw ValueError(
      op, "widened", "native",
      "native bf16 products need oneDNN and a processor with AVX512_BF16 or AMX, or an ARM one with BFMMLA");
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

GemmTileFunction<BFloat16, float> native_bf16_product() {
#if defined(__aarch64__)
  return has_bf16_instructions() ? gemm_arm_bf16 : nullptr;
#elif defined(MEZZO_HAVE_ONEDNN)
  return onednn_is_there() && onednn_has_native_bf16() ? gemm_onednn_bf16 : nullptr;
#else
  return nullptr;
#endif
}

bool use_native_bf16() {
  if (!engine_takes_native()) return false;
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
  if (!engine_takes_native()) return "widened to f32";
  if (!measured_speedup()) return "widened to f32 (no native ones on this processor)";
  char text[96];
  std::snprintf(text, sizeof text, "%s (native ones measured %.1fx as fast)",
                native ? "native" : "widened to f32", *measured_speedup());
  return text;
}

}  // namespace mezzo::kernels::cpu
