// The arithmetic of the emulated cuBLASLt: the CPU's matrix product, and one rounding at the end.
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "problem.h"

namespace emulated_cuda::lt {
namespace {

using mezzo::DType;
using mezzo::kernels::GemmArgs;
namespace cpu = mezzo::kernels::cpu;

DType dtype_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return DType::f64;
    case CUDA_R_16F:
      return DType::f16;
    case CUDA_R_16BF:
      return DType::bf16;
    case CUDA_R_8F_E4M3:
      return DType::f8_e4m3;
    case CUDA_R_8F_E5M2:
      return DType::f8_e5m2;
    default:
      return DType::f32;
  }
}

/// To the 10 bits of TF32's mantissa, half up.
float round_to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & ~0x1FFFU);
}

/// One matrix of an operand as it is multiplied: rows and columns after the transpose.
struct Operand {
  const void* data;
  DType dtype;
  std::int64_t row_stride, column_stride;
};

/// Matrix `index` of a batch; in TF32 a rounded copy, kept in `copy`.
Operand operand(const void* base, const cublasLtMatrixLayoutOpaque_t& x, bool transpose, std::int64_t index,
                bool tf32, std::vector<float>& copy) {
  const void* data = static_cast<const std::byte*>(base) + index * x.batch_offset * bytes_of(x.type);
  std::int64_t leading = x.leading;
  if (tf32) {
    const auto* const given = static_cast<const float*>(data);
    const auto rows = static_cast<std::int64_t>(x.rows), columns = static_cast<std::int64_t>(x.columns);
    copy.resize(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      copy[static_cast<std::size_t>(i)] = round_to_tf32(given[i / rows * leading + i % rows]);
    }
    data = copy.data();
    leading = rows;
  }
  return {data, dtype_of(x.type), transpose ? leading : 1, transpose ? 1 : leading};
}

/// out = a . b, by columns, in T.
template <class T>
void multiply(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k,
              std::vector<T>& out) {
  out.resize(static_cast<std::size_t>(m * n));
  GemmArgs args;
  args.m = m, args.n = n, args.k = k;
  args.a = a.data, args.a_dtype = a.dtype, args.a_row_stride = a.row_stride;
  args.a_col_stride = a.column_stride;
  args.b = b.data, args.b_dtype = b.dtype, args.b_row_stride = b.row_stride;
  args.b_col_stride = b.column_stride;
  args.c = out.data(), args.c_dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  args.c_row_stride = 1, args.c_col_stride = m;
  cpu::gemm(args);
}

/// x rounded to `type`.
template <class T>
void round_to(DType type, std::vector<T>& x) {
  const DType wide = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<double> narrow(x.size());
  cpu::convert(x.data(), wide, narrow.data(), type, count);
  cpu::convert(narrow.data(), type, x.data(), wide, count);
}

/// out = a . b of two halves over k, each rounded to the type of D.
template <class T>
void multiply_in_parts(const Problem& p, const Operand& a, const Operand& b, std::vector<T>& out) {
  const std::int64_t half = p.k / 2, rest = p.k - half;
  const auto behind = [half](const Operand& x, std::int64_t stride) {
    const auto* const start = static_cast<const std::byte*>(x.data) + half * stride * mezzo::size_of(x.dtype);
    return Operand{start, x.dtype, x.row_stride, x.column_stride};
  };
  const DType type = dtype_of(p.d.type);
  std::vector<T> second;
  multiply(a, b, p.m, p.n, half, out);
  multiply(behind(a, a.column_stride), behind(b, b.row_stride), p.m, p.n, rest, second);
  round_to(type, out), round_to(type, second);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += second[i];
  round_to(type, out);
}

/// The bias gradient: sums over k of A's rows or of B's columns.
template <class T>
void store_bias_gradient(const Problem& p, const Operand& a, const Operand& b) {
  const std::vector<T> ones(static_cast<std::size_t>(p.k), T(1));
  const DType wide = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  std::vector<T> sums;
  if (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    multiply(a, {ones.data(), wide, 1, p.k}, p.m, 1, p.k, sums);
  } else {
    multiply({ones.data(), wide, 1, 1}, b, 1, p.n, p.k, sums);
  }
  cpu::convert(sums.data(), wide, p.desc.bias, dtype_of(p.d.type), static_cast<std::int64_t>(sums.size()));
}

/// D = alpha product + beta C + bias for one matrix. Each element is rounded once, but where a 16-bit C takes
/// part the product is rounded to its type first: so does the library (13.0) on an H200.
template <class T>
void store_result(const Call& call, std::int64_t index, const std::vector<T>& product) {
  const Problem& p = call.problem;
  const DType wide = std::is_same_v<T, double> ? DType::f64 : DType::f32, type = dtype_of(p.d.type);
  const std::int64_t bytes = bytes_of(p.d.type);
  std::vector<T> bias(static_cast<std::size_t>(p.m)), column(static_cast<std::size_t>(p.m));
  const float scale_a = p.desc.scale_a == nullptr ? 1 : *p.desc.scale_a,
              scale_b = p.desc.scale_b == nullptr ? 1 : *p.desc.scale_b;
  const T alpha = static_cast<T>(call.alpha) * static_cast<T>(scale_a * scale_b);
  const bool with_bias = p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (with_bias) cpu::convert(p.desc.bias, type, bias.data(), wide, p.m);
  for (std::int64_t j = 0; j < p.n; ++j) {
    const std::int64_t from = index * p.c.batch_offset + j * p.c.leading;
    const std::int64_t to = index * p.d.batch_offset + j * p.d.leading;
    if (call.beta != 0) {
      cpu::convert(static_cast<const std::byte*>(call.c) + from * bytes, type, column.data(), wide, p.m);
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      T& x = column[static_cast<std::size_t>(i)];
      const T old = call.beta != 0 ? static_cast<T>(call.beta) * x : T(0);
      T scaled = alpha * product[static_cast<std::size_t>(j * p.m + i)];
      if (call.beta != 0 && bytes == 2) {
        std::uint16_t bits = 0;
        cpu::convert(&scaled, wide, &bits, type, 1);
        cpu::convert(&bits, type, &scaled, wide, 1);
      }
      x = scaled + old;
      if (with_bias) x += bias[static_cast<std::size_t>(i)];
    }
    cpu::convert(column.data(), wide, static_cast<std::byte*>(call.d) + to * bytes, type, p.m);
  }
}

template <class T>
void compute_in(const Call& call) {
  const Problem& p = call.problem;
  const bool tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  std::vector<float> rounded_a, rounded_b;
  std::vector<T> product;
  for (std::int64_t index = 0; index < p.d.batch; ++index) {
    const Operand a = operand(call.a, p.a, p.desc.transpose_a == CUBLAS_OP_T, index, tf32, rounded_a);
    const Operand b = operand(call.b, p.b, p.desc.transpose_b == CUBLAS_OP_T, index, tf32, rounded_b);
    if (call.rounds_parts) {
      multiply_in_parts(p, a, b, product);
    } else {
      multiply(a, b, p.m, p.n, p.k, product);
    }
    store_result(call, index, product);
    const bool gradient = has_epilogue(p) && p.desc.epilogue != CUBLASLT_EPILOGUE_BIAS;
    if (gradient) store_bias_gradient<T>(p, a, b);
  }
}

}  // namespace

void compute(const Call& call) {
  if (call.workspace != nullptr) std::memset(call.workspace, 0xFF, call.workspace_bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(call.milliseconds));
  if (call.problem.desc.compute == CUBLAS_COMPUTE_64F) return compute_in<double>(call);
  compute_in<float>(call);
}

}  // namespace emulated_cuda::lt
