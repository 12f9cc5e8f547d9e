// The interface of an engine: one product of row- or column-contiguous matrices of one type, on the calling
// thread. Everything else (dtypes, strides, batches, factors, threads) is done around it, once for all
// engines. Plain pointers only, because engines are compiled with other instruction sets than their callers.
#pragma once

#include <cstdint>

#include "mezzo/core/float16.h"

#ifdef MEZZO_HAVE_ONEDNN
#include <string>
#endif

namespace mezzo::kernels::cpu {

/// C = op(A) . op(B), or C += op(A) . op(B) when `accumulate`, with op(A): [m, k], op(B): [k, n] of type In
/// and C: [m, n] of type Acc, row-contiguous with ldc >= n. A or B is row-contiguous with leading size ld, or
/// column-contiguous ("transposed") with leading size ld. m, n and k are above 0; C is not read unless
/// `accumulate`.
template <class In, class Acc = In>
struct GemmTile {
  std::int64_t m, n, k;
  const In* a;
  std::int64_t lda;
  bool a_transposed;
  const In* b;
  std::int64_t ldb;
  bool b_transposed;
  Acc* c;
  std::int64_t ldc;
  bool accumulate;
};

template <class In, class Acc = In>
using GemmTileFunction = void (*)(const GemmTile<In, Acc>&);

/// Multiplies one tile by the engine in use, small tiles by our own loops, as gemm() chooses
/// (kernels/gemm/gemm.h); for kernels that make products of their own. T is float or double. In
/// kernels/gemm/cpu.cpp.
template <class T>
void gemm_tile(const GemmTile<T>& tile);

// kernels/gemm/eigen/gemm_eigen.cpp, compiled once per instruction set.
void gemm_eigen_base_f32(const GemmTile<float>& tile);
void gemm_eigen_base_f64(const GemmTile<double>& tile);
const char* gemm_eigen_base_version();  ///< "3.4.0"
#ifdef MEZZO_HAVE_ISA_VARIANTS
void gemm_eigen_v3_f32(const GemmTile<float>& tile);
void gemm_eigen_v3_f64(const GemmTile<double>& tile);
const char* gemm_eigen_v3_version();
void gemm_eigen_v4_f32(const GemmTile<float>& tile);
void gemm_eigen_v4_f64(const GemmTile<double>& tile);
const char* gemm_eigen_v4_version();
#endif

/// The variant for this processor. In kernels/gemm/cpu.cpp.
void gemm_eigen_f32(const GemmTile<float>& tile);

#ifdef MEZZO_HAVE_ONEDNN
// kernels/gemm/cpu_onednn.cpp. Products that oneDNN refuses are Eigen's.
void gemm_onednn_f32(const GemmTile<float>& tile);
/// The processor's own bf16 products (AVX512_BF16, AMX), added up in f32: products and sums are f32's but for
/// subnormal numbers, which count as 0.
void gemm_onednn_bf16(const GemmTile<BFloat16, float>& tile);
/// Whether oneDNN uses the processor's bf16 products; else it takes bf16 all the same, computing in f32.
bool onednn_has_native_bf16();
/// Whether oneDNN's f32 products read lines that lie a multiple of 2 KB apart two or three times slower: its
/// kernels for processors without AVX-512 go down such lines, which share a few sets of the cache.
bool onednn_needs_spaced_lines();
/// Whether the library could be opened; warns once where not. Before any other call of it.
[[nodiscard]] bool onednn_is_there();       // kernels/cpu/onednn_library.cpp
[[nodiscard]] std::string why_no_onednn();  // the same file; for messages
/// "2.6.3"
std::string gemm_onednn_version();
/// True from when exit() begins to destroy oneDNN's objects: what begins then is computed without it.
[[nodiscard]] bool onednn_is_ending() noexcept;  // kernels/cpu/onednn.cpp
#endif

#if defined(__aarch64__)
/// kernels/gemm/cpu_arm_bf16.cpp, for processors with FEAT_BF16. Products are exact; sums are f32's, but
/// rounded to odd (an error below one unit of the last place instead of a half), and subnormals count as 0.
void gemm_arm_bf16(const GemmTile<BFloat16, float>& tile);
#endif

// kernels/gemm/cpu_loops.cpp: float, double and std::int64_t (exact modulo 2^64). B must be row-contiguous.
template <class T>
void gemm_loops(const GemmTile<T>& tile);

/// Whether somebody named gemm_engine(), whose arithmetic is then wanted whatever the size.
[[nodiscard]] bool gemm_engine_is_named();

}  // namespace mezzo::kernels::cpu
