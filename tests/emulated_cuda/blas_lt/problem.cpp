// Which products the emulated cuBLASLt has, and its three algorithms.
#include "problem.h"

#include <algorithm>
#include <initializer_list>

#include "emulated_cuda/device.h"

namespace emulated_cuda::lt {
namespace {

constexpr std::uint64_t kMagic = 0x6d657a7a6f6c74;
constexpr std::int32_t kMaxBatch = 65535;

bool is_transpose(std::int32_t operation) { return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T; }

cublasStatus_t check_layout(const cublasLtMatrixLayoutOpaque_t& x, std::int32_t batch) {
  if (x.rows == 0 || x.columns == 0 || x.leading < 1 || x.batch != batch || batch < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (x.rows > INT32_MAX || x.columns > INT32_MAX || batch > kMaxBatch || x.batch_offset < 0) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return x.leading < static_cast<std::int64_t>(x.rows) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

/// Float8 as compute capability 9.0 has it: the operands' runs along k, everything at multiples of 16 bytes.
/// (Of batches nothing is known, so there are none.)
bool has_float8(const Problem& p) {
  const cudaDataType_t out = p.d.type;
  const bool types = is_float8(p.a.type) && is_float8(p.b.type) &&
                     !(p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2) && p.c.type == out &&
                     (out == CUDA_R_32F || out == CUDA_R_16F || out == CUDA_R_16BF);
  const bool epilogue = p.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                        (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS && out != CUDA_R_32F);
  if (compute_capability() < 89 || !types || !epilogue || p.desc.compute != CUBLAS_COMPUTE_32F ||
      p.desc.scale != CUDA_R_32F || p.desc.transpose_a != CUBLAS_OP_T || p.desc.transpose_b != CUBLAS_OP_N)
    return false;
  const std::int64_t bytes = bytes_of(out);
  return p.d.batch == 1 && p.k % 16 == 0 && p.m * bytes % 16 == 0 && p.a.leading % 16 == 0 &&
         p.b.leading % 16 == 0 && p.c.leading * bytes % 16 == 0 && p.d.leading * bytes % 16 == 0;
}

/// The rows of cuBLASLt's table of types that mezzo needs.
bool has_types(const Problem& p) {
  const cudaDataType_t in = p.a.type, out = p.d.type;
  if (is_float8(in) || is_float8(p.b.type)) return has_float8(p);
  if (p.b.type != in || p.c.type != out) return false;
  const bool newer =
      in == CUDA_R_16BF || out == CUDA_R_16BF || p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (newer && compute_capability() < 80) return false;
  switch (p.desc.compute) {
    case CUBLAS_COMPUTE_64F:
      return p.desc.scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return p.desc.scale == CUDA_R_32F && in == CUDA_R_32F && out == CUDA_R_32F;
    case CUBLAS_COMPUTE_32F:
      return p.desc.scale == CUDA_R_32F && in != CUDA_R_64F && (out == in || out == CUDA_R_32F);
  }
  return false;
}

cublasStatus_t check_epilogue(const Problem& p) {
  switch (p.desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      if (p.d.batch > 1) return CUBLAS_STATUS_NOT_SUPPORTED;
      break;
    case CUBLASLT_EPILOGUE_BIAS:
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return p.desc.bias == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

std::uint64_t fingerprint(const Problem& p) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211U; };
  add(p.desc.compute), add(p.desc.transpose_a), add(p.desc.transpose_b), add(p.desc.epilogue);
  for (const auto* x : {&p.a, &p.b, &p.c, &p.d}) {
    add(x->type), add(x->rows), add(x->columns), add(x->leading), add(x->batch), add(x->batch_offset);
  }
  return hash;
}

}  // namespace

std::int64_t bytes_of(cudaDataType_t type) {
  return is_float8(type) ? 1 : type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

cublasStatus_t describe(Problem& problem, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  if (!is_live(desc) || !is_live(a) || !is_live(b) || !is_live(c) || !is_live(d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Problem& p = problem;
  p = {*desc, *a, *b, *c, *d, 0, 0, 0};
  if (!is_transpose(desc->transpose_a) || !is_transpose(desc->transpose_b))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto* x : {&p.a, &p.b, &p.c, &p.d}) {
    if (const auto status = check_layout(*x, p.d.batch); status != CUBLAS_STATUS_SUCCESS) return status;
  }
  const bool flip_a = desc->transpose_a == CUBLAS_OP_T, flip_b = desc->transpose_b == CUBLAS_OP_T;
  p.m = static_cast<std::int64_t>(flip_a ? a->columns : a->rows);
  p.k = static_cast<std::int64_t>(flip_a ? a->rows : a->columns);
  p.n = static_cast<std::int64_t>(flip_b ? b->rows : b->columns);
  const auto is = [](const cublasLtMatrixLayoutOpaque_t& x, std::int64_t rows, std::int64_t columns) {
    return static_cast<std::int64_t>(x.rows) == rows && static_cast<std::int64_t>(x.columns) == columns;
  };
  if (!is(p.c, p.m, p.n) || !is(p.d, p.m, p.n) || !is(p.b, flip_b ? p.n : p.k, flip_b ? p.k : p.n)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (p.d.batch > 1 && p.d.batch_offset == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool scaled = desc->scale_a != nullptr || desc->scale_b != nullptr;
  if (scaled && !(is_float8(p.a.type) && is_float8(p.b.type))) return CUBLAS_STATUS_INVALID_VALUE;
  return has_types(p) ? check_epilogue(p) : CUBLAS_STATUS_NOT_SUPPORTED;
}

Algorithm algorithm(int id, const Problem& problem) {
  constexpr std::uint64_t kWorkspace[kAlgorithms] = {64 << 10, 4 << 10, 0};
  constexpr std::uint64_t kAlignment[kAlgorithms] = {16, 4, 1};
  Algorithm algo{kMagic, static_cast<std::uint64_t>(id), fingerprint(problem), kWorkspace[id],
                 is_float8(problem.a.type) ? 16 : kAlignment[id]};
  // Columns of the first have to start aligned too. For the matrices of a batch the preference answers.
  for (const auto* x : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (id == 0 && x->leading * bytes_of(x->type) % 16 != 0) algo.alignment = 0;
  }
  return algo;
}

std::uint64_t needed(const Algorithm& algo, cudaDataType_t type) {
  return std::max(algo.alignment, static_cast<std::uint64_t>(bytes_of(type)));
}

bool fits(const Algorithm& algo, const Problem& problem) {
  return algo.magic == kMagic && algo.problem == fingerprint(problem);
}

}  // namespace emulated_cuda::lt
