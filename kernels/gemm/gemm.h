// The seam for matrix products: one description of a product, and for the CPU one function and a choice of
// engine. Everything above (matmul, linear, convolution as columns) fills in GemmArgs and knows neither Eigen
// nor oneDNN.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/dtype.h"
#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// C[b] = alpha * A[b] . B[b] + beta * C[b] + bias for b in [0, batch); A[b]: [m, k], B[b]: [k, n], C[b]: [m,
/// n]; bias and row_sums are contiguous vectors of C's dtype, or null for none.
/// Element (i, j) of matrix b stands at `data + b * batch_stride + i * row_stride + j * col_stride`, in
/// elements. A and B may have any strides (0 repeats: a batch stride of 0 broadcasts one matrix). The
/// elements of C must be distinct and must not overlap A or B.
struct GemmArgs {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;

  const void* a = nullptr;
  DType a_dtype = DType::f32;
  std::int64_t a_batch_stride = 0, a_row_stride = 0, a_col_stride = 1;

  const void* b = nullptr;
  DType b_dtype = DType::f32;
  std::int64_t b_batch_stride = 0, b_row_stride = 0, b_col_stride = 1;

  void* c = nullptr;
  DType c_dtype = DType::f32;
  std::int64_t c_batch_stride = 0, c_row_stride = 0, c_col_stride = 1;

  double alpha = 1, beta = 0;
  /// Numbers in the device's memory that alpha is multiplied by: the inverse scales of float8 operands. Both
  /// or none; only with beta == 0.
  const float *a_scale = nullptr, *b_scale = nullptr;

  /// Added to every row of C, in the one rounding: [n]. Only with beta == 0.
  const void* bias = nullptr;
  /// Receives the sums of A's rows over k, with A's elements in C's compute type, rounded once: [m]. Only
  /// with batch == 1. For A = dY^T that is the gradient of a bias. It must overlap nothing else.
  void* row_sums = nullptr;
};

/// The dtype a product is computed in: f64 when one of the three is, else f32; i64 for integers. Throws
/// DTypeError and ValueError for arguments that make no product (see gemm).
[[nodiscard]] DType product_compute_dtype(const GemmArgs& args);

/// The product of C^T = B^T . A^T, which writes the same memory: for a C that lies by columns. Without bias
/// and row sums.
[[nodiscard]] GemmArgs transposed(GemmArgs args);

/// Row sums as a reduction (kernels/reduce/reduce.h): `sums` in the shape [k, m] of `terms`, which are A's
/// elements.
struct RowSums {
  View sums, terms;
};
[[nodiscard]] RowSums row_sums_of(const GemmArgs& args);

/// Computes `args` on the device, where its memory is.
///  * Floating dtypes in any mix: computed in f64 when one of the three is f64, else in f32 (16-bit operands
///    are widened exactly, unless both are bf16 and bf16_gemm() is native), and rounded once when stored.
///  * Float8 operands count as bf16, which holds their values, and so do their products.
///  * Integer and boolean dtypes in any mix: exact modulo 2^64, then stored modulo 2^bits (boolean: != 0).
///    alpha and beta must be whole numbers.
///  * beta == 0 does not read C, so a NaN there does not leak. k == 0 or alpha == 0 gives beta * C (or the
///    bias) and does not multiply. An empty batch, m or n leaves C alone.
///  * Row sums are accumulated as every sum is (kernels/reduce/reduce.h): in f64, or modulo 2^64; on a CUDA
///    device perhaps in f32: |sum - exact| <= (k + 2) * eps * sum |a|.
///  * Error for floating dtypes: |c - exact| <= (k + 2) * eps * (|alpha| * (|A|.|B|) + |beta * C|), with the
///    eps of the dtype it is computed in, plus one rounding to the dtype of C.
///  * The bits depend on sizes, strides, dtypes, engine, bf16_gemm() and isa(), not on the number of threads.
/// Throws DTypeError when floating and integer dtypes meet, ValueError for negative sizes, for a fractional
/// alpha or beta with integers, for a bias with beta != 0, and for row sums of a batch.
MEZZO_KERNEL(gemm, void(const GemmArgs& args));

namespace cuda {

/// Whether bias and row sums are left to the product's own kernel where the vendor library can (one pass over
/// C or A less), instead of to kernels before and after it. On at first; for measuring what it is worth (a
/// step of three Linear layers takes 0.89 to 0.97 of its time on an H200). Results differ within the error
/// bound. ReLU is no epilogue: what cuBLASLt's makes of a NaN, which GradScaler must see, is not documented.
[[nodiscard]] bool gemm_epilogues();
void set_gemm_epilogues(bool on);

}  // namespace cuda

namespace cpu {

/// Who multiplies f32 (and 16-bit) matrices. f64 is always Eigen's, integers are our own loops'.
enum class GemmEngine { automatic, eigen, onednn };

/// The engine in use, `eigen` or `onednn`: the engine that was set, else the engine that MEZZO_CPU_GEMM names
/// (`eigen`, `onednn`), else oneDNN when build and machine have it, unless MEZZO_CPU_ISA asks for less than
/// the CPU has (which oneDNN would not follow), else Eigen. An engine that nobody named leaves products of m
/// * n * k <= 8192 to our own loops, which have less overhead. Throws ValueError when the variable holds
/// anything else, or an engine that the build lacks.
[[nodiscard]] GemmEngine gemm_engine();

/// Sets the engine for the whole process; `automatic` goes back to the default. Throws ValueError when the
/// build lacks it.
void set_gemm_engine(GemmEngine engine);

/// True when this build contains the engine, and the machine its library.
[[nodiscard]] bool has_gemm_engine(GemmEngine engine);

/// How the product of two bf16 matrices is computed: widened to f32 like every other 16-bit product, or by
/// the processor's own bf16 instructions (AVX512_BF16, AMX; through oneDNN), which add up in f32 too but take
/// subnormal numbers for 0.
enum class Bf16Gemm { automatic, widened, native };

/// The way in use, `widened` or `native`: the way that was set, else the way that MEZZO_CPU_BF16 names, else
/// native when it was measured at least 1.2 times as fast on this machine, once per process at the first such
/// product. f16 is always widened.
[[nodiscard]] Bf16Gemm bf16_gemm();

/// Sets the way for the whole process; `automatic` goes back to the default. Throws ValueError when oneDNN or
/// the processor has no native bf16 products.
void set_bf16_gemm(Bf16Gemm way);

/// The way in use and what was measured, for banners: "native (native ones measured 2.0x as fast)".
[[nodiscard]] std::string bf16_gemm_description();

/// The engine in use with its version, for banners: "oneDNN 2.6.3" or "Eigen 3.4.0 x86-64-v4".
[[nodiscard]] std::string gemm_description();

}  // namespace cpu
}  // namespace mezzo::kernels
