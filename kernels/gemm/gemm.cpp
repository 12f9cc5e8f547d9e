// The part of a product that all devices share: the checks of its arguments, the dtype it is computed in, its
// transposed form, and the switch for cuBLASLt's epilogues. The arithmetic is elsewhere.
#include "mezzo/kernels/gemm/gemm.h"

#include <atomic>
#include <cmath>
#include <string>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::kernels {

namespace {

std::atomic<bool> g_gemm_epilogues{true};

/// Throws DTypeError when floating and integer dtypes meet.
DType compute_dtype_of(const GemmArgs& args) {
  const bool floating = is_floating(args.a_dtype);
  if (is_floating(args.b_dtype) != floating || is_floating(args.c_dtype) != floating) {
    throw DTypeError(
        "gemm", "all matrices floating or all integer",
        to_string(args.a_dtype) + ", " + to_string(args.b_dtype) + " and " + to_string(args.c_dtype),
        "cast one of them");
  }
  if (!floating) return DType::i64;
  const bool wide = args.a_dtype == DType::f64 || args.b_dtype == DType::f64 || args.c_dtype == DType::f64;
  return wide ? DType::f64 : DType::f32;
}

/// Throws ValueError for sizes and factors that make no product.
void check(const GemmArgs& args, DType compute) {
  if (args.batch < 0 || args.m < 0 || args.n < 0 || args.k < 0) {
    throw ValueError("gemm", "sizes of 0 or more",
                     std::to_string(args.batch) + " x [" + std::to_string(args.m) + ", " +
                         std::to_string(args.n) + ", " + std::to_string(args.k) + "]",
                     "check batch, m, n and k");
  }
  if (compute == DType::i64 && (args.alpha != std::trunc(args.alpha) || args.beta != std::trunc(args.beta))) {
    throw ValueError("gemm", "whole alpha and beta for integers",
                     number_text(args.alpha) + " and " + number_text(args.beta), "use a floating dtype");
  }
  if (args.bias != nullptr && args.beta != 0) {
    throw ValueError("gemm", "beta 0 beside a bias", number_text(args.beta), "add one of them to C first");
  }
  if ((args.a_scale == nullptr) != (args.b_scale == nullptr) || (args.a_scale != nullptr && args.beta != 0)) {
    throw ValueError("gemm", "no scale or two of them, beside beta 0", number_text(args.beta),
                     "scale C apart");
  }
  if (args.row_sums != nullptr && args.batch != 1) {
    throw ValueError("gemm", "one matrix for row sums", "a batch of " + std::to_string(args.batch),
                     "reduce the batch apart from the product");
  }
}

}  // namespace

DType product_compute_dtype(const GemmArgs& args) {
  const DType compute = compute_dtype_of(args);
  check(args, compute);
  return compute;
}

GemmArgs transposed(GemmArgs args) {
  std::swap(args.m, args.n);
  std::swap(args.a, args.b);
  std::swap(args.a_dtype, args.b_dtype);
  std::swap(args.a_scale, args.b_scale);
  std::swap(args.a_batch_stride, args.b_batch_stride);
  std::swap(args.a_row_stride, args.b_col_stride);
  std::swap(args.a_col_stride, args.b_row_stride);
  std::swap(args.c_row_stride, args.c_col_stride);
  return args;
}

RowSums row_sums_of(const GemmArgs& args) {
  return {
      {args.row_sums, args.c_dtype, {args.k, args.m}, {0, 1}},
      {const_cast<void*>(args.a), args.a_dtype, {args.k, args.m}, {args.a_col_stride, args.a_row_stride}}};
}

namespace cuda {

bool gemm_epilogues() { return g_gemm_epilogues.load(std::memory_order_relaxed); }
void set_gemm_epilogues(bool on) { g_gemm_epilogues.store(on, std::memory_order_relaxed); }

}  // namespace cuda
}  // namespace mezzo::kernels
