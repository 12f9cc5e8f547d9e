// The heuristic and the product of the emulated cuBLASLt: every check that the call can make, then the work
// in the stream's order.
#include <cstring>

#include "emulated_cuda/blas_lt.h"
#include "emulated_cuda/control.h"
#include "problem.h"

namespace emulated_cuda::lt {
namespace {

/// Whether each matrix of a batch starts where the algorithm needs it.
bool aligned(const void* data, const cublasLtMatrixLayoutOpaque_t& x, const Algorithm& algo) {
  const std::uint64_t offset =
      x.batch > 1 ? static_cast<std::uint64_t>(x.batch_offset * bytes_of(x.type)) : std::uint64_t{0};
  return (reinterpret_cast<std::uintptr_t>(data) | offset) % needed(algo, x.type) == 0;
}

bool bias_aligned(const Problem& p, const Algorithm& algo) {
  return !has_epilogue(p) || reinterpret_cast<std::uintptr_t>(p.desc.bias) % needed(algo, p.d.type) == 0;
}

bool on_device(const void* data) {
  cudaPointerAttributes attributes{};
  return cudaPointerGetAttributes(&attributes, data) == cudaSuccess &&
         attributes.type == cudaMemoryTypeDevice;
}

/// A real one refuses to multiply where a scale begins elsewhere, though it has offered an algorithm.
bool scales_aligned(const Problem& p) {
  return (reinterpret_cast<std::uintptr_t>(p.desc.scale_a) |
          reinterpret_cast<std::uintptr_t>(p.desc.scale_b)) %
             16 ==
         0;
}

/// What a call has to keep to beyond what describe() sees.
cublasStatus_t check_call(const Call& call, const Algorithm& algo) {
  const Problem& p = call.problem;
  if (!fits(algo, p)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool reads_c = call.beta != 0;
  if (call.c == call.d && (p.c.leading != p.d.leading || p.c.batch_offset != p.d.batch_offset)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!on_device(call.a) || !on_device(call.b) || !on_device(call.d) || (reads_c && !on_device(call.c)) ||
      (has_epilogue(p) && !on_device(p.desc.bias)) ||
      (p.desc.scale_a != nullptr && !on_device(p.desc.scale_a)) ||
      (p.desc.scale_b != nullptr && !on_device(p.desc.scale_b))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!scales_aligned(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algo.workspace > 0) {
    if (call.workspace_bytes < algo.workspace || !on_device(call.workspace))
      return CUBLAS_STATUS_INVALID_VALUE;
    if (reinterpret_cast<std::uintptr_t>(call.workspace) % 16 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool all_aligned = aligned(call.a, p.a, algo) && aligned(call.b, p.b, algo) &&
                           aligned(call.d, p.d, algo) && bias_aligned(p, algo) &&
                           (!reads_c || aligned(call.c, p.c, algo));
  return all_aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

double factor(const Problem& p, const void* value) {
  return p.desc.scale == CUDA_R_64F ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

}  // namespace
}  // namespace emulated_cuda::lt

using namespace emulated_cuda::lt;  // the functions below have cuBLASLt's names, in no namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_live(preference) || wanted < 1 || results == nullptr || found == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  Problem problem;
  if (const auto status = describe(problem, desc, a, b, c, d); status != CUBLAS_STATUS_SUCCESS) return status;
  emulated_cuda::BlasLt& state = emulated_cuda::blas_lt();
  ++state.heuristics;
  if (has_epilogue(problem) && state.offered == emulated_cuda::Epilogues::none) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const auto* x : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (state.multiple == 0 || x->leading * bytes_of(x->type) % state.multiple != 0)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (int id = 0; id < kAlgorithms && *found < wanted; ++id) {
    Algorithm algo = algorithm(id, problem);
    algo.rounds_parts = id == 0 && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
    bool offered = algo.alignment > 0 && algo.workspace <= preference->workspace;
    const cublasLtMatrixLayoutOpaque_t* const layouts[] = {&problem.a, &problem.b, &problem.c, &problem.d};
    for (int x = 0; x < 4; ++x)
      offered = offered && preference->alignment[x] >= needed(algo, layouts[x]->type);
    if (!offered || !bias_aligned(problem, algo)) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    std::memcpy(result.algo.data, &algo, sizeof(algo));
    result.workspaceSize = algo.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Algorithms are numbered, have neither tiles nor stages, and do not split k.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  if (algo == nullptr || value == nullptr || bytes != sizeof(std::int32_t))
    return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm known;
  std::memcpy(&known, algo->data, sizeof(known));
  const auto id = static_cast<std::int32_t>(known.id);
  const std::int32_t number = which == CUBLASLT_ALGO_CONFIG_ID           ? id
                              : which == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1
                                                                         : 0;
  std::memcpy(value, &number, sizeof(number));
  if (written != nullptr) *written = sizeof(number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (alpha == nullptr || beta == nullptr || algo == nullptr || device != handle->device) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Call call{};
  const auto status = describe(call.problem, desc, a_layout, b_layout, c_layout, d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  call.a = a, call.b = b, call.c = c, call.d = d;
  call.alpha = factor(call.problem, alpha), call.beta = factor(call.problem, beta);
  Algorithm chosen{};
  std::memcpy(&chosen, algo->data, sizeof(chosen));
  call.workspace = workspace, call.workspace_bytes = workspace_bytes;
  if (const auto wrong = check_call(call, chosen); wrong != CUBLAS_STATUS_SUCCESS) return wrong;
  call.workspace_bytes = chosen.workspace;
  call.rounds_parts = chosen.rounds_parts != 0;
  if (chosen.workspace == 0) call.workspace = nullptr;
  emulated_cuda::BlasLt& state = emulated_cuda::blas_lt();
  call.milliseconds = state.slowness[chosen.id];
  if (emulated_cuda::enqueue(stream, [call] { compute(call); }) != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  ++state.products;
  state.epilogues += has_epilogue(call.problem) ? 1 : 0;
  state.last_algorithm = static_cast<int>(chosen.id);
  return CUBLAS_STATUS_SUCCESS;
}
