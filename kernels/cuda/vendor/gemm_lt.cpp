// vendor_gemm on cuBLASLt. Its matrices lie by columns: C by rows is C^T by columns, so it is given B^T .
// A^T. The algorithm for a shape is asked for once per device and kept.
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/gemm.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/vendor/blas_lt.h"

namespace mezzo::kernels::cuda {

namespace {

/// What cuBLASLt recommends for Hopper; more than earlier GPUs ask for.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

struct Destroy {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { blas_lt().desc_destroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { blas_lt().layout_destroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { blas_lt().preference_destroy(p); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType operands) {
  if (operands == DType::f64) return CUBLAS_COMPUTE_64F;
  if (operands == DType::f32 && allow_tf32()) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

/// An operand as cuBLASLt sees it: the matrix that lies by columns in its memory, and whether that is the
/// transpose of the one to multiply.
struct Operand {
  DType dtype;
  std::int64_t rows, columns, leading, batch_stride;
  bool transpose;
};

/// The transpose of a `rows` x `columns` matrix with these strides. By rows its memory is that, by columns.
Operand transpose_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t batch_stride,
                     std::int64_t row_stride, std::int64_t column_stride) {
  const bool by_rows = (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
  if (by_rows) return {dtype, columns, rows, rows == 1 ? columns : row_stride, batch_stride, false};
  return {dtype, rows, columns, columns == 1 ? rows : column_stride, batch_stride, true};
}

/// All that an algorithm depends on.
using Key = std::array<std::int64_t, 19>;

class Plan {
 public:
  Plan(const GemmArgs& g, int device_index) {
    const Operand first = transpose_of(g.b_dtype, g.k, g.n, g.b_batch_stride, g.b_row_stride, g.b_col_stride);
    const Operand second =
        transpose_of(g.a_dtype, g.m, g.k, g.a_batch_stride, g.a_row_stride, g.a_col_stride);
    const Operand result{g.c_dtype, g.n, g.m, g.m == 1 ? g.n : g.c_row_stride, g.c_batch_stride, false};
    cublasLtMatmulDesc_t desc = nullptr;
    const cudaDataType_t scale = g.a_dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
    check_blas_lt(blas_lt().desc_create(&desc, compute_type(g.a_dtype), scale), "cublasLtMatmulDescCreate");
    desc_.reset(desc);
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSA, first.transpose);
    set_transpose(CUBLASLT_MATMUL_DESC_TRANSB, second.transpose);
    a_ = layout(first, g.batch);
    b_ = layout(second, g.batch);
    c_ = layout(result, g.batch);
    choose(g, device_index);
  }

  void run(const GemmArgs& g, const mezzo::cuda::Stream& stream, void* workspace) const {
    const float alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
    const bool wide = g.a_dtype == DType::f64;
    const void* const alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
    const void* const beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
    check_blas_lt(blas_lt().matmul(blas_lt_handle(stream.device().index), desc_.get(), alpha, g.b, a_.get(),
                                   g.a, b_.get(), beta, g.c, c_.get(), g.c, c_.get(), &algorithm_.algo,
                                   workspace, algorithm_.workspaceSize, mezzo::cuda::native(stream)),
                  "cublasLtMatmul");
  }
  [[nodiscard]] std::size_t workspace_bytes() const { return algorithm_.workspaceSize; }

 private:
  void set_transpose(cublasLtMatmulDescAttributes_t which, bool transpose) {
    const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_blas_lt(blas_lt().desc_set(desc_.get(), which, &operation, sizeof(operation)),
                  "cublasLtMatmulDescSetAttribute");
  }

  static Owned<cublasLtMatrixLayout_t> layout(const Operand& x, std::int64_t batch) {
    cublasLtMatrixLayout_t raw = nullptr;
    check_blas_lt(blas_lt().layout_create(&raw, data_type(x.dtype), static_cast<std::uint64_t>(x.rows),
                                          static_cast<std::uint64_t>(x.columns), x.leading),
                  "cublasLtMatrixLayoutCreate");
    Owned<cublasLtMatrixLayout_t> result(raw);
    const auto count = static_cast<std::int32_t>(batch);
    check_blas_lt(blas_lt().layout_set(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                  "cublasLtMatrixLayoutSetAttribute");
    check_blas_lt(blas_lt().layout_set(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.batch_stride,
                                       sizeof(x.batch_stride)),
                  "cublasLtMatrixLayoutSetAttribute");
    return result;
  }

  void choose(const GemmArgs& g, int device_index) {
    cublasLtMatmulPreference_t raw = nullptr;
    check_blas_lt(blas_lt().preference_create(&raw), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(raw);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check_blas_lt(blas_lt().preference_set(raw, which, &value, sizeof(value)),
                    "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(g.c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c));
    int found = 0;
    check_blas_lt(blas_lt().heuristic(blas_lt_handle(device_index), desc_.get(), a_.get(), b_.get(), c_.get(),
                                      c_.get(), raw, 1, &algorithm_, &found),
                  "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
      throw DeviceError("matmul", "an algorithm of cuBLASLt for this product", "none",
                        "report shapes, strides and dtypes to mezzo");
    }
  }

 public:
  /// The largest power of two up to 16 that divides the address.
  static std::uint32_t alignment_of(const void* address) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | 16U;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  }

 private:
  Owned<cublasLtMatmulDesc_t> desc_;
  Owned<cublasLtMatrixLayout_t> a_, b_, c_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

Key key_of(const GemmArgs& g, int device_index) {
  return {device_index,
          static_cast<std::int64_t>(g.a_dtype),
          static_cast<std::int64_t>(g.c_dtype),
          static_cast<std::int64_t>(compute_type(g.a_dtype)),
          g.batch,
          g.m,
          g.n,
          g.k,
          g.a_batch_stride,
          g.a_row_stride,
          g.a_col_stride,
          g.b_batch_stride,
          g.b_row_stride,
          g.b_col_stride,
          g.c_batch_stride,
          g.c_row_stride,
          Plan::alignment_of(g.a),
          Plan::alignment_of(g.b),
          Plan::alignment_of(g.c)};
}

const Plan& plan_for(const GemmArgs& g, int device_index) {
  static auto* const mutex = new std::mutex;  // both live as long as CUDA, beyond static destruction
  static auto* const plans = new std::map<Key, std::unique_ptr<Plan>>;
  const std::scoped_lock lock(*mutex);
  std::unique_ptr<Plan>& plan = (*plans)[key_of(g, device_index)];
  if (!plan) plan = std::make_unique<Plan>(g, device_index);
  return *plan;
}

}  // namespace

void vendor_gemm(const GemmArgs& args, const mezzo::cuda::Stream& stream) {
  const Device device = stream.device();
  const mezzo::cuda::DeviceGuard guard(device.index);
  const Plan& plan = plan_for(args, device.index);
  // From the stream's own pool: later products in the stream reuse it, those of other streams do not.
  const Scratch workspace(device, static_cast<std::int64_t>(plan.workspace_bytes()));
  plan.run(args, stream, workspace.data());
}

}  // namespace mezzo::kernels::cuda
