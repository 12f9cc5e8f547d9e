// A product as the descriptors of the emulated cuBLASLt describe it, and what its algorithms need.
#pragma once

#include "objects.h"

namespace emulated_cuda::lt {

struct Problem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  std::int64_t m, n, k;
};

/// Fills in `problem`, or says why there is none: INVALID_VALUE for handles that are not live and for sizes
/// and attributes that do not fit each other, NOT_SUPPORTED for types, epilogues and sizes that cuBLASLt has
/// no product for.
cublasStatus_t describe(Problem& problem, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d);

[[nodiscard]] std::int64_t bytes_of(cudaDataType_t type);
[[nodiscard]] inline bool is_float8(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
[[nodiscard]] inline bool has_epilogue(const Problem& problem) {
  return problem.desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
}

/// One of the algorithms, as it is kept in a cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t magic, id, problem, workspace, alignment;
  std::uint64_t rounds_parts = 0;  ///< adds up the two halves over k in the type of D
};
inline constexpr int kAlgorithms = 3;
/// The algorithm `id` for this problem; alignment 0 when it has none.
[[nodiscard]] Algorithm algorithm(int id, const Problem& problem);
/// The alignment that it needs of a matrix or vector of this type.
[[nodiscard]] std::uint64_t needed(const Algorithm& algo, cudaDataType_t type);
/// Whether `algo` is one that `algorithm` made for this problem.
[[nodiscard]] bool fits(const Algorithm& algo, const Problem& problem);

/// A product in device memory: what a task needs.
struct Call {
  Problem problem;
  const void *a, *b, *c;
  void *d, *workspace;
  std::size_t workspace_bytes;
  double alpha, beta;
  bool rounds_parts;
  int milliseconds;  ///< to wait
};
/// Computes it, on the host's stack, in device memory.
void compute(const Call& call);

}  // namespace emulated_cuda::lt
