// What an engine has to offer: one product of row- or column-contiguous matrices of one type, on the calling
// thread. Everything else (dtypes, strides, batches, threads) is done around it, once for all engines. Plain
// pointers only, because engines are compiled with other instruction sets than their callers.
#pragma once

#include <cstdint>

#ifdef MEZZO_HAVE_ONEDNN
#include <string>
#endif

namespace mezzo::kernels::cpu {

/// C = alpha * op(A) . op(B) + beta * C, with op(A): [m, k], op(B): [k, n], C: [m, n] row-contiguous with ldc
/// >= n. A matrix is row-contiguous with leading size ld, or column-contiguous ("transposed") with leading
/// size ld. m, n and k are above 0; beta == 0 must not read C.
template <class T>
struct GemmTile {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t lda;
  bool a_transposed;
  const T* b;
  std::int64_t ldb;
  bool b_transposed;
  T* c;
  std::int64_t ldc;
  T alpha, beta;
};

template <class T>
using GemmTileFunction = void (*)(const GemmTile<T>&);

// kernels/cpu/eigen/gemm_eigen.cpp, compiled once per instruction set.
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

#ifdef MEZZO_HAVE_ONEDNN
// kernels/cpu/gemm_onednn.cpp
void gemm_onednn_f32(const GemmTile<float>& tile);
/// "2.6.3"
std::string gemm_onednn_version();
#endif

// kernels/cpu/gemm_integer.cpp: exact modulo 2^64. B must be row-contiguous.
void gemm_integer(const GemmTile<std::int64_t>& tile);

}  // namespace mezzo::kernels::cpu
