// Decides who computes a product: checks the arguments, brings them into one form, and picks the engine by
// dtype, size and setting. The work itself is in cpu_blocked.cpp and the engines.
#include "mezzo/kernels/gemm/gemm.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/gemm/cpu_bf16.h"
#include "mezzo/kernels/gemm/cpu_blocked.h"
#include "mezzo/kernels/gemm/cpu_tile.h"
#include "mezzo/kernels/reduce/cpu.h"
#include "mezzo/kernels/reduce/reducers.h"

namespace mezzo::kernels::cpu {
namespace {

/// Up to this m * n * k our own loops are faster than a library's call.
constexpr double kSmallProduct = 8192;

/// Process-wide setting of set_gemm_engine().
std::atomic<GemmEngine> g_engine{GemmEngine::automatic};

std::string_view engine_name(GemmEngine engine) { return engine == GemmEngine::onednn ? "oneDNN" : "Eigen"; }

void require_engine(std::string_view op, GemmEngine engine) {
  if (has_gemm_engine(engine)) return;
#ifdef MEZZO_HAVE_ONEDNN
  throw ValueError(op, "an engine that this machine has (eigen)", std::string(engine_name(engine)),
                   "install the oneDNN that mezzo was built with (" + why_no_onednn() + ")");
#else
  throw ValueError(op, "an engine of this build (eigen)", std::string(engine_name(engine)),
                   "install libdnnl-dev and configure again with -DMEZZO_ONEDNN=ON");
#endif
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

/// The engine that set_gemm_engine() or the environment ask for; automatic when neither does.
GemmEngine wanted_engine() {
  const GemmEngine set = g_engine.load(std::memory_order_relaxed);
  if (set != GemmEngine::automatic) return set;
  static const GemmEngine from_environment = engine_of_environment();
  return from_environment;
}

#ifdef MEZZO_HAVE_ISA_VARIANTS
template <class T>
GemmTileFunction<T> of_isa(GemmTileFunction<T> base, GemmTileFunction<T> v3, GemmTileFunction<T> v4) {
  if (isa() == Isa::v4) return v4;
  return isa() == Isa::v3 ? v3 : base;
}
GemmTileFunction<float> eigen_f32() {
  return of_isa<float>(gemm_eigen_base_f32, gemm_eigen_v3_f32, gemm_eigen_v4_f32);
}
GemmTileFunction<double> eigen_f64() {
  return of_isa<double>(gemm_eigen_base_f64, gemm_eigen_v3_f64, gemm_eigen_v4_f64);
}
#else
GemmTileFunction<float> eigen_f32() { return gemm_eigen_base_f32; }
GemmTileFunction<double> eigen_f64() { return gemm_eigen_base_f64; }
#endif

/// Whether our own loops take the product: not when an engine was named, whose arithmetic is then wanted.
/// Asks for the setting first, in every build: a bad one is refused whatever the size.
bool goes_to_loops(std::int64_t m, std::int64_t n, std::int64_t k) {
  return wanted_engine() == GemmEngine::automatic &&
         static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kSmallProduct;
}
bool goes_to_loops(const GemmArgs& args) { return goes_to_loops(args.m, args.n, args.k); }

/// A small tile by our loops, for which B is brought by rows.
template <class T>
void small_tile(GemmTile<T> tile) {
  T by_rows[static_cast<std::size_t>(kSmallProduct)];
  if (tile.b_transposed) {
    for (std::int64_t p = 0; p < tile.k; ++p) {
      for (std::int64_t j = 0; j < tile.n; ++j) by_rows[p * tile.n + j] = tile.b[j * tile.ldb + p];
    }
    tile.b = by_rows, tile.ldb = tile.n, tile.b_transposed = false;
  }
  gemm_loops(tile);
}

/// Every row of C = the bias.
void store_bias(const GemmArgs& args) {
  if (args.batch * args.m * args.n == 0) return;
  const std::int64_t size = size_of(args.c_dtype),
                     grain = std::max<std::int64_t>(1, (1 << 18) / (args.n * size));
  parallel_for(args.batch * args.m, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t offset = r / args.m * args.c_batch_stride + r % args.m * args.c_row_stride;
      scatter(args.bias, args.c_dtype, static_cast<std::byte*>(args.c) + offset * size, args.c_dtype,
              args.c_col_stride, args.n);
    }
  });
}

/// Whether the tiles of a product begin with the bias.
bool takes_bias(const GemmArgs& args) {
  return args.k > 0 && args.alpha == 1 && (args.n == 1 || args.c_col_stride == 1);
}

/// Row sums, and a bias that the product does not take, as steps before it: it is added to a C that holds the
/// bias. Scales of float8 operands become part of alpha.
GemmArgs spelled_out(GemmArgs args) {
  if (args.a_scale != nullptr)
    args.alpha *= static_cast<double>(*args.a_scale) * static_cast<double>(*args.b_scale);
  args.a_scale = args.b_scale = nullptr;
  if (args.row_sums != nullptr) {
    const RowSums rows = row_sums_of(args);
    dispatch_compute(args.c_dtype, [&]<class T>(TypeTag<T>) { reduce<T>(Sum<>{}, rows.sums, rows.terms); });
    args.row_sums = nullptr;
  }
  if (args.bias != nullptr && !takes_bias(args)) {
    store_bias(args);
    args.beta = 1;
    args.bias = nullptr;
  }
  return args;
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
  } else if (args.batch > 1 && args.a_batch_stride == 0 && args.bias == nullptr &&
             args.b_batch_stride == args.n * args.b_col_stride &&
             args.c_batch_stride == args.n * args.c_col_stride) {
    args.n *= args.batch;
    args.batch = 1;
  }
  return args;
}

template <class In, class Acc>
void run(const GemmArgs& args, GemmTileFunction<In, Acc> engine, const EngineNeeds& needs = {}) {
  if (args.k == 0 || args.alpha == 0)
    gemm_scale<Acc>(args);
  else
    gemm_blocked(args, engine, needs);
}

void run_f32(const GemmArgs& args) {
  if (goes_to_loops(args)) return run(args, gemm_loops<float>, {.b_by_rows = true});
  const auto in_bf16 = [](DType dtype) { return dtype == DType::bf16 || is_float8(dtype); };
  if (in_bf16(args.a_dtype) && in_bf16(args.b_dtype) && use_native_bf16())
    return run(args, native_bf16_product());
#ifdef MEZZO_HAVE_ONEDNN
  if (gemm_engine() == GemmEngine::onednn)
    return run(args, gemm_onednn_f32, {.spaced_lines = onednn_needs_spaced_lines()});
#endif
  run(args, eigen_f32());
}

void run_f64(const GemmArgs& args) {
  if (goes_to_loops(args)) return run(args, gemm_loops<double>, {.b_by_rows = true});
  run(args, eigen_f64());
}

}  // namespace

void gemm(const GemmArgs& given) {
  const DType compute = product_compute_dtype(given);
  const GemmArgs plain = spelled_out(given);
  if (plain.batch == 0 || plain.m == 0 || plain.n == 0) return;
  const GemmArgs normal = normal_form(plain);
  if (compute == DType::f32) return run_f32(normal);
  if (compute == DType::f64) return run_f64(normal);
  run(normal, gemm_loops<std::int64_t>, {.b_by_rows = true});
}

void gemm_eigen_f32(const GemmTile<float>& tile) { eigen_f32()(tile); }

template <>
void gemm_tile(const GemmTile<float>& tile) {
  if (goes_to_loops(tile.m, tile.n, tile.k)) return small_tile(tile);
#ifdef MEZZO_HAVE_ONEDNN
  if (gemm_engine() == GemmEngine::onednn) return gemm_onednn_f32(tile);
#endif
  eigen_f32()(tile);
}
template <>
void gemm_tile(const GemmTile<double>& tile) {
  if (goes_to_loops(tile.m, tile.n, tile.k)) return small_tile(tile);
  eigen_f64()(tile);
}

bool has_gemm_engine(GemmEngine engine) {
#ifdef MEZZO_HAVE_ONEDNN
  return engine != GemmEngine::onednn || onednn_is_there();
#else
  return engine != GemmEngine::onednn;
#endif
}

GemmEngine gemm_engine() {
#ifdef MEZZO_HAVE_ONEDNN
  if (onednn_is_ending()) [[unlikely]]
    return GemmEngine::eigen;
#endif
  const GemmEngine wanted = wanted_engine();
  if (wanted != GemmEngine::automatic) return wanted;
  return has_gemm_engine(GemmEngine::onednn) && isa() == best_isa() ? GemmEngine::onednn : GemmEngine::eigen;
}

void set_gemm_engine(GemmEngine engine) {
  require_engine("set_gemm_engine", engine);
  g_engine.store(engine, std::memory_order_relaxed);
}

bool gemm_engine_is_named() { return wanted_engine() != GemmEngine::automatic; }

std::string gemm_description() {
#ifdef MEZZO_HAVE_ONEDNN
  if (gemm_engine() == GemmEngine::onednn) return "oneDNN " + gemm_onednn_version();
#endif
  return std::string("Eigen ") + gemm_eigen_base_version() + " " + isa_name();
}

}  // namespace mezzo::kernels::cpu
