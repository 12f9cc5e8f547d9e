// Decides who computes a product: checks the arguments, brings them into one form, and picks the engine by
// dtype, size and setting. The work itself is in gemm_blocked.cpp and the engines.
#include "mezzo/kernels/gemm.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/gemm_bf16.h"
#include "mezzo/kernels/cpu/gemm_blocked.h"
#include "mezzo/kernels/cpu/gemm_tile.h"
#include "mezzo/kernels/cpu/isa.h"

namespace mezzo::kernels::cpu {
namespace {

/// Up to this m * n * k our own loops are faster than a library's call.
constexpr double kSmallProduct = 8192;

/// Process-wide setting of set_gemm_engine().
std::atomic<GemmEngine> g_engine{GemmEngine::automatic};

std::string_view engine_name(GemmEngine engine) { return engine == GemmEngine::onednn ? "oneDNN" : "Eigen"; }

void require_engine(std::string_view op, GemmEngine engine) {
  if (has_gemm_engine(engine)) return;
  throw ValueError(op, "an engine of this build (eigen)", std::string(engine_name(engine)),
                   "install libdnnl-dev and configure again with -DMEZZO_ONEDNN=ON");
}

/// MEZZO_CPU_GEMM, or automatic when it is not set.
GemmEngine engine_of_environment() {
  const char* const value = std::getenv("MEZZO_CPU_GEMM");
  if (value == nullptr || *value == '\0') return GemmEngine::automatic;
  const std::string_view name = value;
  if (name != "eigen" && name != "onednn") {
    throw ValueError("MEZZO_CPU_GEMM", "eigen or onednn", "'" + std::string(name) + "'",
                     "unset it to use the default");
  }
  const GemmEngine engine = name == "eigen" ? GemmEngine::eigen : GemmEngine::onednn;
  require_engine("MEZZO_CPU_GEMM", engine);
  return engine;
}

/// What set_gemm_engine() or the environment ask for; automatic when neither does.
GemmEngine wanted_engine() {
  const GemmEngine set = g_engine.load(std::memory_order_relaxed);
  if (set != GemmEngine::automatic) return set;
  static const GemmEngine from_environment = engine_of_environment();
  return from_environment;
}

GemmTileFunction<float> eigen_f32() {
#ifdef MEZZO_HAVE_ISA_VARIANTS
  switch (isa()) {
    case Isa::v4:
      return gemm_eigen_v4_f32;
    case Isa::v3:
      return gemm_eigen_v3_f32;
    case Isa::base:
      break;
  }
#endif
  return gemm_eigen_base_f32;
}

GemmTileFunction<double> eigen_f64() {
#ifdef MEZZO_HAVE_ISA_VARIANTS
  switch (isa()) {
    case Isa::v4:
      return gemm_eigen_v4_f64;
    case Isa::v3:
      return gemm_eigen_v3_f64;
    case Isa::base:
      break;
  }
#endif
  return gemm_eigen_base_f64;
}

/// Whether our own loops take the product: not when an engine was named, whose arithmetic is then wanted.
/// Asks for the setting first, in every build: a bad one is refused whatever the size.
bool goes_to_loops(const GemmArgs& args) {
  return wanted_engine() == GemmEngine::automatic &&
         static_cast<double>(args.m) * static_cast<double>(args.n) * static_cast<double>(args.k) <=
             kSmallProduct;
}

/// Brings C to rows, and a batch that is one tall matrix times one B (or one A times a wide matrix) into one
/// product.
GemmArgs normal_form(GemmArgs args) {
  const bool by_rows = args.n == 1 || args.c_col_stride == 1;
  if (!by_rows && (args.m == 1 || args.c_row_stride == 1)) args = transposed(args);
  if (args.batch > 1 && args.b_batch_stride == 0 && args.a_batch_stride == args.m * args.a_row_stride &&
      args.c_batch_stride == args.m * args.c_row_stride) {
    args.m *= args.batch;
    args.batch = 1;
  } else if (args.batch > 1 && args.a_batch_stride == 0 &&
             args.b_batch_stride == args.n * args.b_col_stride &&
             args.c_batch_stride == args.n * args.c_col_stride) {
    args.n *= args.batch;
    args.batch = 1;
  }
  return args;
}

template <class In, class Acc>
void run(const GemmArgs& args, GemmTileFunction<In, Acc> engine, bool b_by_rows = false) {
  if (args.k == 0 || args.alpha == 0)
    gemm_scale<Acc>(args);
  else
    gemm_blocked(args, engine, b_by_rows);
}

void run_f32(const GemmArgs& args) {
  if (goes_to_loops(args)) return run(args, gemm_loops<float>, true);
#ifdef MEZZO_HAVE_ONEDNN
  if (gemm_engine() == GemmEngine::onednn) {
    const bool bf16 = args.a_dtype == DType::bf16 && args.b_dtype == DType::bf16;
    if (bf16 && use_native_bf16()) return run(args, gemm_onednn_bf16);
    return run(args, gemm_onednn_f32);
  }
#endif
  run(args, eigen_f32());
}

void run_f64(const GemmArgs& args) {
  if (goes_to_loops(args)) return run(args, gemm_loops<double>, true);
  run(args, eigen_f64());
}

}  // namespace

void gemm(const GemmArgs& args) {
  const DType compute = product_compute_dtype(args);
  if (args.batch == 0 || args.m == 0 || args.n == 0) return;
  const GemmArgs normal = normal_form(args);
  switch (compute) {
    case DType::f32:
      return run_f32(normal);
    case DType::f64:
      return run_f64(normal);
    default:
      return run(normal, gemm_loops<std::int64_t>, true);
  }
}

bool has_gemm_engine(GemmEngine engine) {
#ifdef MEZZO_HAVE_ONEDNN
  static_cast<void>(engine);
  return true;
#else
  return engine != GemmEngine::onednn;
#endif
}

GemmEngine gemm_engine() {
  const GemmEngine wanted = wanted_engine();
  if (wanted != GemmEngine::automatic) return wanted;
  return has_gemm_engine(GemmEngine::onednn) && isa() == best_isa() ? GemmEngine::onednn : GemmEngine::eigen;
}

void set_gemm_engine(GemmEngine engine) {
  require_engine("set_gemm_engine", engine);
  g_engine.store(engine, std::memory_order_relaxed);
}

std::string gemm_description() {
#ifdef MEZZO_HAVE_ONEDNN
  if (gemm_engine() == GemmEngine::onednn) return "oneDNN " + gemm_onednn_version();
#endif
  return std::string("Eigen ") + gemm_eigen_base_version() + " " + isa_name();
}

}  // namespace mezzo::kernels::cpu
