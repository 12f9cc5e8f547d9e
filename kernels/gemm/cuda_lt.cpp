// vendor_gemm on cuBLASLt. Its matrices lie by columns: C by rows is C^T by columns, so it is given B^T .
// A^T. Our bias runs along its rows of D (EPILOGUE_BIAS), our row sums are sums over k of its B (BGRADB). The
// algorithm for a shape is asked for once per device and kept.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/vendor/blas_lt.h"
#include "mezzo/kernels/gemm/cuda_lt.h"
#include "mezzo/kernels/plans.h"

namespace mezzo::kernels::cuda {

namespace {

/// The workspace that cuBLASLt recommends for Hopper; more than earlier GPUs ask for.
constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{32} << 20;
/// How parts of a product over k may be added up. The other schemes add them in the dtype of C, so 16-bit
/// results would be rounded more than once.
constexpr std::uint32_t kReduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
/// Matrices per call: what fits a dimension of a grid, whatever kernel is behind it.
constexpr std::int64_t kMaxBatch = 65535;
/// With set_benchmark(true): algorithms that are timed, timings of each, and products per timing.
constexpr int kCandidates = 8, kTimings = 5, kRunsPerTiming = 3;

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
    case DType::f8_e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType operands, int device_index) {
  if (operands == DType::f64) return CUBLAS_COMPUTE_64F;
  if (operands == DType::f32 && mezzo::cuda::allow_tf32() &&
      mezzo::cuda::compute_capability(device_index) >= 80)
    return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

/// An operand as cuBLASLt sees it: the matrix that lies by columns in its memory, and whether it is the
/// transpose of the matrix to multiply.
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

cublasLtEpilogue_t epilogue_of(const GemmArgs& g) {
  if (g.bias != nullptr) return CUBLASLT_EPILOGUE_BIAS;
  return g.row_sums != nullptr ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT;
}
/// The vector of the epilogue, read or written.
void* epilogue_vector(const GemmArgs& g) {
  return g.bias != nullptr ? const_cast<void*>(g.bias) : g.row_sums;
}

/// The largest power of two up to 256 (what cuBLASLt assumes when nobody says) that divides the address of
/// each matrix of a batch.
std::uint32_t alignment_of(const void* data, DType dtype, std::int64_t batch_stride) {
  const auto bits = reinterpret_cast<std::uintptr_t>(data) |
                    static_cast<std::uintptr_t>(batch_stride * size_of(dtype)) | std::uintptr_t{256};
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

using Algorithm = cublasLtMatmulHeuristicResult_t;

/// Descriptors of a product, and the algorithm that it runs with.
class Plan {
 public:
  Plan(const GemmArgs& g, cublasComputeType_t compute, int device_index)
      : handle_(blas_lt_handle(device_index)) {
    const Operand first = transpose_of(g.b_dtype, g.k, g.n, g.b_batch_stride, g.b_row_stride, g.b_col_stride);
    const Operand second =
        transpose_of(g.a_dtype, g.m, g.k, g.a_batch_stride, g.a_row_stride, g.a_col_stride);
    const Operand result{g.c_dtype, g.n, g.m, g.m == 1 ? g.n : g.c_row_stride, g.c_batch_stride, false};
    cublasLtMatmulDesc_t desc = nullptr;
    const cudaDataType_t scale = g.a_dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
    check_blas_lt(blas_lt().desc_create(&desc, compute, scale), "cublasLtMatmulDescCreate");
    desc_.reset(desc);
    set(CUBLASLT_MATMUL_DESC_TRANSA, first.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second.transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g));
    a_ = layout(first, g.batch);
    b_ = layout(second, g.batch);
    c_ = layout(result, g.batch);
    set_pointers(g);  // the heuristic looks at the alignment of the epilogue's
    const std::vector<Algorithm> best = algorithms(g, 1);
    found_ = !best.empty();
    if (found_) algorithm_ = best.front();
  }

  /// Whether cuBLASLt has an algorithm for this product with its epilogue.
  [[nodiscard]] bool found() const { return found_; }

  /// Puts the product into the stream. One at a time: the epilogue's vector and the scales are fields of the
  /// descriptor.
  void run(const GemmArgs& g, const mezzo::cuda::Stream& stream) {
    const std::scoped_lock lock(mutex_);
    if (!timed_ && mezzo::cuda::benchmark() && !stream.is_capturing()) {
      timed_ = true;
      take_fastest(g, stream);
    }
    // From the stream's own pool: later products in the stream reuse it, products in other streams do not.
    const Scratch workspace(stream.device(), static_cast<std::int64_t>(algorithm_.workspaceSize));
    check_blas_lt(start(g, g.c, algorithm_, workspace.data(), stream), "cublasLtMatmul");
    mezzo::cuda::after_launch(stream);
  }

  /// The algorithm that the product runs with.
  [[nodiscard]] std::string description() {
    const std::scoped_lock lock(mutex_);
    if (!found_) return "none, so it is computed another way";
    return "algorithm " + config<std::int32_t>(CUBLASLT_ALGO_CONFIG_ID) + ", tile " +
           config<std::uint32_t>(CUBLASLT_ALGO_CONFIG_TILE_ID) + ", stages " +
           config<std::uint32_t>(CUBLASLT_ALGO_CONFIG_STAGES_ID) + ", split " +
           config<std::int32_t>(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + ", workspace " +
           std::to_string(algorithm_.workspaceSize) + " bytes, " + (timed_ ? "fastest" : "recommended");
  }

 private:
  /// A number of the algorithm's configuration, "?" where the library does not say it.
  template <class T>
  [[nodiscard]] std::string config(cublasLtMatmulAlgoConfigAttributes_t which) const {
    T value{};
    std::size_t written = 0;
    const cublasStatus_t status =
        blas_lt().algo_get(&algorithm_.algo, which, &value, sizeof(value), &written);
    return status == CUBLAS_STATUS_SUCCESS ? std::to_string(value) : "?";
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) {
    check_blas_lt(blas_lt().desc_set(desc_.get(), which, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
  }

  void set_pointers(const GemmArgs& g) {
    void* const vector = epilogue_vector(g);
    if (vector != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    if (g.a_scale == nullptr) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g.b_scale);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g.a_scale);
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

  /// The `wanted` algorithms that cuBLASLt takes for the fastest, best first; none when it has none.
  [[nodiscard]] std::vector<Algorithm> algorithms(const GemmArgs& g, int wanted) const {
    cublasLtMatmulPreference_t raw = nullptr;
    check_blas_lt(blas_lt().preference_create(&raw), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check_blas_lt(blas_lt().preference_set(raw, which, &value, sizeof(value)),
                    "cublasLtMatmulPreferenceSetAttribute");
    };
    const std::uint32_t of_c = alignment_of(g.c, g.c_dtype, g.c_batch_stride);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReduction);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b, g.b_dtype, g.b_batch_stride));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a, g.a_dtype, g.a_batch_stride));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c);
    std::vector<Algorithm> result(static_cast<std::size_t>(wanted));
    int found = 0;
    const cublasStatus_t status = blas_lt().heuristic(handle_, desc_.get(), a_.get(), b_.get(), c_.get(),
                                                      c_.get(), raw, wanted, result.data(), &found);
    // There is a way without the epilogue, and one without float8: whatever cuBLASLt has against them is no
    // failure.
    const bool optional = (epilogue_of(g) != CUBLASLT_EPILOGUE_DEFAULT || is_float8(g.a_dtype)) &&
                          status == CUBLAS_STATUS_INVALID_VALUE;
    if (optional || status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check_blas_lt(status, "cublasLtMatmulAlgoGetHeuristic");
    result.resize(static_cast<std::size_t>(found));
    std::erase_if(result, [](const Algorithm& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
    return result;
  }

  /// Puts the product into the stream with this algorithm, its result to `d`, which lies as C does.
  [[nodiscard]] cublasStatus_t start(const GemmArgs& g, void* d, const Algorithm& algorithm, void* workspace,
                                     const mezzo::cuda::Stream& stream) {
    set_pointers(g);
    const float alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
    const bool wide = g.a_dtype == DType::f64;
    const void* const alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
    const void* const beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
    return blas_lt().matmul(handle_, desc_.get(), alpha, g.b, a_.get(), g.a, b_.get(), beta, g.c, c_.get(), d,
                            c_.get(), &algorithm.algo, workspace, algorithm.workspaceSize,
                            mezzo::cuda::native(stream));
  }

  /// Times up to kCandidates algorithms, with results into memory of their own, and keeps the fastest. Where
  /// there is no memory for that, the recommended one stays.
  void take_fastest(const GemmArgs& g, const mezzo::cuda::Stream& stream) {
    const std::vector<Algorithm> candidates = algorithms(g, kCandidates);
    if (candidates.size() < 2) return;
    std::size_t workspace_bytes = 0;
    for (const Algorithm& one : candidates) workspace_bytes = std::max(workspace_bytes, one.workspaceSize);
    const std::int64_t extent = (g.batch - 1) * g.c_batch_stride + (g.m - 1) * g.c_row_stride + g.n;
    try {
      const Scratch result(stream.device(), extent * size_of(g.c_dtype));
      const Scratch workspace(stream.device(), static_cast<std::int64_t>(workspace_bytes));
      float least = std::numeric_limits<float>::infinity();
      for (const Algorithm& one : candidates) {
        const float time = median_ms(g, result.data(), one, workspace.data(), stream);
        if (time >= least) continue;
        least = time;
        algorithm_ = one;
      }
    } catch (const OutOfMemoryError&) {
    }
  }

  /// Milliseconds of kRunsPerTiming products; infinite for an algorithm that refuses.
  [[nodiscard]] float median_ms(const GemmArgs& g, void* d, const Algorithm& algorithm, void* workspace,
                                const mezzo::cuda::Stream& stream) {
    constexpr float kRefused = std::numeric_limits<float>::infinity();
    if (start(g, d, algorithm, workspace, stream) != CUBLAS_STATUS_SUCCESS) return kRefused;  // warms up too
    std::array<float, kTimings> times{};
    mezzo::cuda::Event begin(mezzo::cuda::Timing::on), end(mezzo::cuda::Timing::on);
    for (float& time : times) {
      begin.record(stream);
      for (int run = 0; run < kRunsPerTiming; ++run) {
        if (start(g, d, algorithm, workspace, stream) != CUBLAS_STATUS_SUCCESS) return kRefused;
      }
      end.record(stream);
      end.synchronize();
      time = end.elapsed_ms(begin);
    }
    std::sort(times.begin(), times.end());
    return times[kTimings / 2];
  }

  cublasLtHandle_t handle_;
  std::mutex mutex_;
  Owned<cublasLtMatmulDesc_t> desc_;
  Owned<cublasLtMatrixLayout_t> a_, b_, c_;
  Algorithm algorithm_{};
  bool found_ = false, timed_ = false;
};

/// All that an algorithm depends on.
using Key = std::array<std::int64_t, 22>;

Key key_of(const GemmArgs& g, cublasComputeType_t compute, int device_index) {
  return {device_index,
          static_cast<std::int64_t>(g.a_dtype),
          static_cast<std::int64_t>(g.c_dtype),
          static_cast<std::int64_t>(compute),
          static_cast<std::int64_t>(epilogue_of(g)),
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
          alignment_of(g.a, g.a_dtype, g.a_batch_stride),
          alignment_of(g.b, g.b_dtype, g.b_batch_stride),
          alignment_of(g.c, g.c_dtype, g.c_batch_stride),
          alignment_of(epilogue_vector(g), g.c_dtype, 0),
          static_cast<std::int64_t>(g.b_dtype)};
}

struct KnownPlans {
  std::mutex mutex;
  std::map<Key, std::unique_ptr<Plan>> plans;
};
KnownPlans& known_plans() {
  static auto* const known = new KnownPlans;  // lives as long as CUDA, beyond static destruction
  return *known;
}

Plan& plan_for(const GemmArgs& g, int device_index) {
  const cublasComputeType_t compute =
      compute_type(g.a_dtype, device_index);  // read once: another thread may set it
  const Key key = key_of(g, compute, device_index);
  KnownPlans& known = known_plans();
  const std::scoped_lock lock(known.mutex);
  std::unique_ptr<Plan>& plan = known.plans[key];
  if (!plan) plan = std::make_unique<Plan>(g, compute, device_index);
  return *plan;
}

/// The product that a key stands for.
std::string text_of(const Key& key) {
  const auto dtype = [&](std::size_t at) { return to_string(static_cast<DType>(key[at])); };
  const std::int64_t batch = key[5], m = key[6], n = key[7], k = key[8];
  const bool batched = batch != 1;
  const std::string operands = dtype(1) + (key[1] == key.back() ? "" : " and " + dtype(key.size() - 1));
  std::string text = to_string(Device::cuda(static_cast<int>(key[0]))) + " matmul " +
                     to_string(batched ? Shape{batch, m, k} : Shape{m, k}) + " x " +
                     to_string(batched ? Shape{batch, k, n} : Shape{k, n}) + ", " + operands + " to " +
                     dtype(2);
  if (key[3] == CUBLAS_COMPUTE_32F_FAST_TF32) text += " in TF32";
  if (key[4] == CUBLASLT_EPILOGUE_BIAS) text += ", with bias";
  if (key[4] == CUBLASLT_EPILOGUE_BGRADB) text += ", with the gradient of a bias";
  return text;
}

void require_32bit_sizes(const GemmArgs& g) {
  const std::int64_t largest = std::max({g.m, g.n, g.k});
  if (largest <= std::numeric_limits<std::int32_t>::max()) return;
  throw DeviceError("matmul", "matrices of at most 2147483647 rows and columns on a CUDA device",
                    std::to_string(largest), "cut the product into pieces");
}

/// The part of a batch that begins with matrix `first`, of at most kMaxBatch matrices.
GemmArgs part_of(const GemmArgs& g, std::int64_t first) {
  const auto advance = [first](const void* data, DType dtype, std::int64_t stride) {
    return static_cast<const std::byte*>(data) + first * stride * size_of(dtype);
  };
  GemmArgs part = g;
  part.batch = std::min(kMaxBatch, g.batch - first);
  part.a = advance(g.a, g.a_dtype, g.a_batch_stride);
  part.b = advance(g.b, g.b_dtype, g.b_batch_stride);
  part.c = const_cast<std::byte*>(advance(g.c, g.c_dtype, g.c_batch_stride));
  if (part.batch == 1) part.a_batch_stride = part.b_batch_stride = part.c_batch_stride = 0;
  return part;
}

}  // namespace

std::string gemm_plans() {
  KnownPlans& known = known_plans();
  const std::scoped_lock lock(known.mutex);
  std::string text;
  for (const auto& [key, plan] : known.plans) text += text_of(key) + ": " + plan->description() + "\n";
  return text;
}

bool vendor_gemm(const GemmArgs& args, const mezzo::cuda::Stream& stream) {
  require_32bit_sizes(args);
  const int device_index = stream.device().index;
  const mezzo::cuda::DeviceGuard guard(device_index);
  // A handle takes memory of the device, and the first use of a kernel loads it: allowed in a capture too.
  const mezzo::cuda::RelaxedCapture relaxed;
  std::vector<std::pair<GemmArgs, Plan*>> parts;
  for (std::int64_t first = 0; first < args.batch; first += kMaxBatch) {
    const GemmArgs part = part_of(args, first);
    parts.emplace_back(part, &plan_for(part, device_index));
    if (!parts.back().second->found()) return false;
  }
  for (const auto& [part, plan] : parts) plan->run(part, stream);
  return true;
}

}  // namespace mezzo::kernels::cuda
