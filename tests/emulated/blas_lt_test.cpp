// The emulated cuBLASLt against three loops, and what it refuses.
#include "mezzo/kernels/cuda/vendor/blas_lt.h"

#include <cmath>
#include <functional>
#include <string>

#include "emulated/support.h"
#include "emulated_cuda/blas_lt.h"
#include "mezzo/core/float16.h"
#include "mezzo/core/float8.h"

namespace emulated_test {
namespace {

using mezzo::BFloat16;
using mezzo::Float8E4M3;
using mezzo::Float8E5M2;
using mezzo::Half;
using mezzo::kernels::cuda::blas_lt;

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t kType<Half> = CUDA_R_16F;
template <>
constexpr cudaDataType_t kType<BFloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<Float8E4M3> = CUDA_R_8F_E4M3;
template <>
constexpr cudaDataType_t kType<Float8E5M2> = CUDA_R_8F_E5M2;

/// What a product is, by columns: op(A) is m x k, op(B) k x n.
struct Spec {
  int m = 3, n = 4, k = 5;
  bool transpose_a = false, transpose_b = false;
  int padding = 0;  ///< of every leading dimension
  int batch = 1;
  bool repeat_a = false;  ///< batch offset 0
  double alpha = 1, beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

/// A product of In with results of Out, its descriptors and its device memory.
template <class In, class Out>
class Product {
 public:
  explicit Product(const Spec& spec) : s(spec) {
    const bool wide = std::is_same_v<In, double>;
    a_rows = s.transpose_a ? s.k : s.m, a_columns = s.transpose_a ? s.m : s.k;
    b_rows = s.transpose_b ? s.n : s.k, b_columns = s.transpose_b ? s.k : s.n;
    a_values = numbers<In>(a_rows, a_columns, 1), b_values = numbers<In>(b_rows, b_columns, 2);
    c_values = numbers<Out>(s.m, s.n, 3), vector_values = numbers<Out>(std::max(s.m, s.n), 1, 4);
    const cublasComputeType_t compute = wide ? CUBLAS_COMPUTE_64F : s.compute;
    EXPECT_EQ(blas_lt().create(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(blas_lt().desc_create(&desc, compute, wide ? CUDA_R_64F : CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    a = to_device(a_values), b = to_device(b_values), c = to_device(c_values), d = to_device(c_values);
    vector = to_device(vector_values);
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    a_layout = layout(kType<In>, a_rows, a_columns, s.repeat_a);
    b_layout = layout(kType<In>, b_rows, b_columns, false);
    c_layout = layout(kType<Out>, s.m, s.n, false), d_layout = layout(kType<Out>, s.m, s.n, false);
    EXPECT_EQ(blas_lt().preference_create(&preference), CUBLAS_STATUS_SUCCESS);
    const std::uint64_t bytes = 1 << 20;
    EXPECT_EQ(blas_lt().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, 8),
              CUBLAS_STATUS_SUCCESS);
    workspace = device_array<char>(bytes);
    if (s.batch > 1) {
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, sizeof(In));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, sizeof(In));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, sizeof(Out));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, sizeof(Out));
    }
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) {
    EXPECT_EQ(blas_lt().desc_set(desc, which, &value, sizeof(value)), CUBLAS_STATUS_SUCCESS);
  }

  void prefer(cublasLtMatmulPreferenceAttributes_t which, std::uint32_t value) const {
    EXPECT_EQ(blas_lt().preference_set(preference, which, &value, 4), CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t choose(int wanted = 8) {
    found = 0;
    return blas_lt().heuristic(handle, desc, a_layout, b_layout, c_layout, d_layout, preference, wanted,
                               results, &found);
  }
  cublasStatus_t run(int which = 0) {
    const float alpha = static_cast<float>(s.alpha), beta = static_cast<float>(s.beta);
    const bool wide = std::is_same_v<In, double>;
    return blas_lt().matmul(handle, desc, wide ? static_cast<const void*>(&s.alpha) : &alpha, a, a_layout, b,
                            b_layout, wide ? static_cast<const void*>(&s.beta) : &beta, c, c_layout, d,
                            d_layout, &results[which].algo, workspace, workspace_bytes, nullptr);
  }

  /// All of D's memory after the product, against three loops: what is no element keeps its value.
  void expect_right(const std::string& what) {
    ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS) << what;
    ASSERT_EQ(run(), CUBLAS_STATUS_SUCCESS) << what;
    const std::vector<Out> got = to_host(d, c_values.size());
    std::vector<Out> want = c_values;
    for (int q = 0; q < s.batch; ++q) {
      for (int j = 0; j < s.n; ++j) {
        for (int i = 0; i < s.m; ++i) want[at(q, i, j)] = Out(exact(q, i, j));
      }
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(double(got[i]), double(want[i])) << what << ", " << i;
    }
  }
  double exact(int q, int i, int j) const {
    double sum = 0;
    for (int p = 0; p < s.k; ++p) sum += left(q, i, p) * right(q, p, j);
    sum *= s.alpha;
    if (s.beta != 0) sum += s.beta * double(c_values[at(q, i, j)]);
    if (s.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += double(vector_values[std::size_t(i)]);
    return sum;
  }
  double left(int q, int i, int p) const {
    const int matrix = s.repeat_a ? 0 : q * size(a_rows, a_columns);
    return double(
        a_values[std::size_t(matrix + (s.transpose_a ? index(a_rows, p, i) : index(a_rows, i, p)))]);
  }
  double right(int q, int p, int j) const {
    const int matrix = q * size(b_rows, b_columns);
    return double(
        b_values[std::size_t(matrix + (s.transpose_b ? index(b_rows, j, p) : index(b_rows, p, j)))]);
  }

  Spec s;
  int a_rows, a_columns, b_rows, b_columns;
  std::vector<In> a_values, b_values;
  std::vector<Out> c_values, vector_values;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a_layout, b_layout, c_layout, d_layout;
  cublasLtMatmulPreference_t preference = nullptr;
  In *a, *b;
  Out *c, *d, *vector;
  char* workspace;
  std::size_t workspace_bytes = 1 << 20;
  cublasLtMatmulHeuristicResult_t results[8] = {};
  int found = 0;

 private:
  [[nodiscard]] int index(int rows, int row, int column) const { return row + column * (rows + s.padding); }
  [[nodiscard]] int size(int rows, int columns) const { return (rows + s.padding) * columns; }
  [[nodiscard]] std::size_t at(int q, int i, int j) const {
    return std::size_t(q * size(s.m, s.n) + index(s.m, i, j));
  }
  /// Small whole numbers: sums of their products are exact.
  template <class T>
  [[nodiscard]] std::vector<T> numbers(int rows, int columns, int seed) const {
    std::vector<T> result;
    for (int i = 0; i < s.batch * size(rows, columns); ++i)
      result.push_back(T(float((i * 7 + seed * 5) % 11 - 5)));
    return result;
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int columns, bool repeat) const {
    cublasLtMatrixLayout_t result = nullptr;
    EXPECT_EQ(
        blas_lt().layout_create(&result, type, std::uint64_t(rows), std::uint64_t(columns), rows + s.padding),
        CUBLAS_STATUS_SUCCESS);
    const std::int32_t batch = s.batch;
    const std::int64_t offset = repeat ? 0 : size(rows, columns);
    EXPECT_EQ(blas_lt().layout_set(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 4),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(blas_lt().layout_set(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, 8),
              CUBLAS_STATUS_SUCCESS);
    return result;
  }
};

class BlasLt : public Emulated {};

template <class In, class Out>
void every_form(const std::string& types) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int padding : {0, 3}) {
        for (const int batch : {1, 3}) {
          const std::string what = types + (transpose_a ? " T" : " N") + (transpose_b ? "T " : "N ") +
                                   std::to_string(padding) + " " + std::to_string(batch);
          Spec spec{
              .transpose_a = transpose_a, .transpose_b = transpose_b, .padding = padding, .batch = batch};
          Product<In, Out>(spec).expect_right(what);
          spec.repeat_a = true, spec.alpha = 2, spec.beta = -3;
          Product<In, Out>(spec).expect_right(what + " alpha beta");
          spec.epilogue = CUBLASLT_EPILOGUE_BIAS;
          Product<In, Out>(spec).expect_right(what + " bias");
        }
      }
    }
  }
}

TEST_F(BlasLt, EveryFormOfAProduct) {
  every_form<float, float>("f32");
  every_form<double, double>("f64");
  every_form<Half, Half>("f16");
  every_form<BFloat16, float>("bf16 to f32");
}

TEST_F(BlasLt, BiasGradientsAreSumsOverK) {
  for (const bool transpose : {false, true}) {
    const Spec spec{.m = 6,
                    .n = 5,
                    .k = 7,
                    .transpose_a = transpose,
                    .transpose_b = transpose,
                    .padding = 1,
                    .epilogue = CUBLASLT_EPILOGUE_BGRADA};
    Product<Half, float> of_a(spec);
    of_a.expect_right("BGRADA");
    const std::vector<float> rows = to_host(of_a.vector, 6);
    for (int i = 0; i < 6; ++i) {
      double want = 0;
      for (int p = 0; p < 7; ++p) want += of_a.left(0, i, p);
      EXPECT_EQ(rows[std::size_t(i)], want);
    }
    Spec other = spec;
    other.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    Product<Half, float> of_b(other);
    of_b.expect_right("BGRADB");
    const std::vector<float> columns = to_host(of_b.vector, 5);
    for (int j = 0; j < 5; ++j) {
      double want = 0;
      for (int p = 0; p < 7; ++p) want += of_b.right(0, p, j);
      EXPECT_EQ(columns[std::size_t(j)], want);
    }
  }
}

TEST_F(BlasLt, SixteenBitResultsAreRoundedOnce) {
  // 1 + 2^-11 + 2^-12 rounds up in f16; a product rounded to 1 first could not.
  Product<Half, Half> one({.m = 1, .n = 1, .k = 2, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  one.a = to_device<Half>({Half(1.0F), Half(0x1p-11F)});
  one.b = to_device<Half>({Half(1.0F), Half(1.0F)});
  one.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, to_device<Half>({Half(0x1p-12F)}));
  ASSERT_EQ(one.choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(one.run(one.found - 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(float(to_host(one.d, 1)[0]), 1 + 0x1p-10F);
}

TEST_F(BlasLt, PartsOverKAreRoundedUnlessThePreferenceForbidsIt) {
  for (const std::uint32_t reductions :
       {CUBLASLT_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) {
    Product<Half, Half> one({.m = 8, .n = 8, .k = 8});
    one.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    // 1 + 2^-12 and 2^-12 + 2^-13, the halves over k: together above half a bit of f16, each alone below.
    std::vector<Half> row(64, Half(0.0F));
    row[0] = Half(1.0F), row[8] = Half(0x1p-12F), row[32] = Half(0x1p-12F), row[40] = Half(0x1p-13F);
    one.a = to_device(row), one.b = to_device(std::vector<Half>(64, Half(1.0F)));
    ASSERT_EQ(one.choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(one.found, 3);
    ASSERT_EQ(one.run(0), CUBLAS_STATUS_SUCCESS);
    const bool whole = reductions == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    EXPECT_EQ(float(to_host(one.d, 1)[0]), whole ? 1 + 0x1p-10F : 1.0F);
  }
}

TEST_F(BlasLt, Tf32RoundsTheOperands) {
  for (const auto& [compute, want] :
       {std::pair(CUBLAS_COMPUTE_32F, 1 + 0x1p-12F), std::pair(CUBLAS_COMPUTE_32F_FAST_TF32, 1.0F)}) {
    Product<float, float> one({.m = 1, .n = 1, .k = 1, .compute = compute});
    one.a = to_device<float>({1 + 0x1p-12F}), one.b = to_device<float>({1});
    ASSERT_EQ(one.choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(one.run(one.found - 1), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(to_host(one.d, 1)[0], want);
  }
}

TEST_F(BlasLt, AlgorithmsNeedAlignmentAndWorkspace) {
  using Case = Product<float, float>;
  const Spec even{.m = 4, .n = 4, .k = 4};
  Case all(even);
  ASSERT_EQ(all.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(all.found, 3);
  EXPECT_GT(all.results[0].workspaceSize, all.results[1].workspaceSize);
  EXPECT_EQ(all.results[2].workspaceSize, 0U);
  EXPECT_EQ(all.choose(2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(all.found, 2);
  Case odd({.m = 3, .n = 4, .k = 4});
  ASSERT_EQ(odd.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(odd.found, 2) << "a leading dimension that is no multiple of 16 bytes";
  Case small(even);
  const std::uint64_t none = 0;
  ASSERT_EQ(blas_lt().preference_set(small.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &none, 8),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(small.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(small.found, 1);
  EXPECT_EQ(all.run(0), CUBLAS_STATUS_SUCCESS);
  all.workspace_bytes = all.results[0].workspaceSize - 1;
  EXPECT_EQ(all.run(0), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(all.run(1), CUBLAS_STATUS_SUCCESS);
  all.b += 1;
  EXPECT_EQ(all.run(1), CUBLAS_STATUS_SUCCESS);
  all.workspace_bytes = 1 << 20;
  EXPECT_EQ(all.run(0), CUBLAS_STATUS_INVALID_VALUE) << "B is not aligned as it was when it was asked for";
}

/// What float8 products have to be.
const Spec kFloat8Spec{.m = 16, .n = 5, .k = 32, .transpose_a = true};

TEST_F(BlasLt, Float8WithScalesInDeviceMemory) {
  for (const bool bias : {false, true}) {
    Spec spec = kFloat8Spec;
    spec.padding = 16;
    spec.alpha = 6;
    if (bias) spec.epilogue = CUBLASLT_EPILOGUE_BIAS;
    Product<Float8E4M3, BFloat16> x(spec);
    x.s.alpha = 2;  // for the call; the scales make it 6
    const float* const scales = to_device<float>({1.5F, 2.0F, 0.0F, 0.0F, 2.0F});
    x.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
    x.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales + 1);
    ASSERT_EQ(x.choose(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(x.run(x.found - 1), CUBLAS_STATUS_NOT_SUPPORTED);
    x.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales + 4);
    ASSERT_EQ(x.run(x.found - 1), CUBLAS_STATUS_SUCCESS);
    x.s.alpha = 6;
    const std::vector<BFloat16> got = to_host(x.d, x.c_values.size());
    for (int j = 0; j < 5; ++j) {
      for (int i = 0; i < 16; ++i)
        EXPECT_EQ(float(got[std::size_t(i + j * 32)]), float(BFloat16(float(x.exact(0, i, j)))));
    }
  }
  Product<Float8E5M2, float> both_e5m2(kFloat8Spec);
  EXPECT_EQ(both_e5m2.choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  Product<float, float> f32(Spec{});
  f32.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, to_device<float>({1}));
  EXPECT_EQ(f32.choose(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(BlasLt, Float8ThatARealOneWouldRefuse) {
  using Case = Product<Float8E4M3, float>;
  const auto changed = [](const std::function<void(Spec&)>& change) {
    Spec spec = kFloat8Spec;
    change(spec);
    return Case(spec).choose();
  };
  EXPECT_EQ(changed([](Spec&) {}), CUBLAS_STATUS_SUCCESS);
  for (const auto& change : std::initializer_list<std::function<void(Spec&)>>{
           [](Spec& x) { x.transpose_a = false; }, [](Spec& x) { x.transpose_b = true; },
           [](Spec& x) { x.k = 24; }, [](Spec& x) { x.m = 6; }, [](Spec& x) { x.padding = 4; },
           [](Spec& x) { x.batch = 2; }, [](Spec& x) { x.epilogue = CUBLASLT_EPILOGUE_BIAS; },
           [](Spec& x) { x.epilogue = CUBLASLT_EPILOGUE_BGRADB; }})
    EXPECT_EQ(changed(change), CUBLAS_STATUS_NOT_SUPPORTED);
  Case odd(kFloat8Spec);
  odd.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 8);
  ASSERT_EQ(odd.choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(odd.found, 0);
  Case moved(kFloat8Spec);
  ASSERT_EQ(moved.choose(), CUBLAS_STATUS_SUCCESS);
  moved.a += 8;
  EXPECT_EQ(moved.run(), CUBLAS_STATUS_INVALID_VALUE);
}

/// A product with something changed, before the heuristic or only for the call.
struct Wrong {
  const char* what;
  std::function<void(Product<float, float>&)> change;
  cublasStatus_t status;
};

TEST_F(BlasLt, DescriptionsThatFitNothingAreRefused) {
  using Case = Product<float, float>;
  const auto resized = [](cudaDataType_t type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(blas_lt().layout_create(&layout, type, rows, columns, ld), CUBLAS_STATUS_SUCCESS);
    return layout;
  };
  const auto batch = [](cublasLtMatrixLayout_t layout, std::int32_t count) {
    EXPECT_EQ(blas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, 4),
              CUBLAS_STATUS_SUCCESS);
  };
  const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE, unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
  const Wrong cases[] = {
      {"ld below rows", [&](Case& x) { x.a_layout = resized(CUDA_R_32F, 3, 5, 2); }, invalid},
      {"no rows", [&](Case& x) { x.a_layout = resized(CUDA_R_32F, 0, 5, 3); }, invalid},
      {"k of A", [&](Case& x) { x.a_layout = resized(CUDA_R_32F, 3, 6, 3); }, invalid},
      {"n of B", [&](Case& x) { x.b_layout = resized(CUDA_R_32F, 5, 5, 5); }, invalid},
      {"m of C", [&](Case& x) { x.c_layout = resized(CUDA_R_32F, 4, 4, 4); }, invalid},
      {"rows of D", [&](Case& x) { x.d_layout = resized(CUDA_R_32F, 2, 4, 3); }, invalid},
      {"one batch of two", [&](Case& x) { batch(x.b_layout, 2); }, invalid},
      {"too large", [&](Case& x) { x.a_layout = resized(CUDA_R_32F, 1ULL << 31, 5, 1LL << 31); },
       unsupported},
      {"type of B", [&](Case& x) { x.b_layout = resized(CUDA_R_16F, 5, 4, 5); }, unsupported},
      {"type of D", [&](Case& x) { x.d_layout = resized(CUDA_R_16F, 3, 4, 3); }, unsupported},
      {"transpose", [](Case& x) { x.set(CUBLASLT_MATMUL_DESC_TRANSA, 2); }, invalid},
      {"epilogue", [](Case& x) { x.set(CUBLASLT_MATMUL_DESC_EPILOGUE, 2); }, unsupported},
      {"no bias",
       [](Case& x) {
         x.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
         x.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(nullptr));
       },
       invalid},
      {"scale type",
       [](Case& x) { EXPECT_EQ(blas_lt().desc_create(&x.desc, CUBLAS_COMPUTE_32F, CUDA_R_64F), 0); },
       unsupported},
      {"compute type",
       [](Case& x) { EXPECT_EQ(blas_lt().desc_create(&x.desc, CUBLAS_COMPUTE_64F, CUDA_R_64F), 0); },
       unsupported},
      {"no preference", [](Case& x) { x.preference = nullptr; }, invalid},
      {"destroyed layout", [](Case& x) { EXPECT_EQ(blas_lt().layout_destroy(x.a_layout), 0); }, invalid},
      {"destroyed desc", [](Case& x) { EXPECT_EQ(blas_lt().desc_destroy(x.desc), 0); }, invalid},
      {"no handle", [](Case& x) { x.handle = nullptr; }, CUBLAS_STATUS_NOT_INITIALIZED},
  };
  for (const Wrong& wrong : cases) {
    Case x({});
    wrong.change(x);
    EXPECT_EQ(x.choose(), wrong.status) << wrong.what;
  }
  Case x({});
  EXPECT_EQ(x.choose(0), invalid);
}

TEST_F(BlasLt, CallsThatFitNothingAreRefused) {
  using Case = Product<float, float>;
  static float on_host[64];
  const Wrong cases[] = {
      {"A on the host", [](Case& x) { x.a = on_host; }, CUBLAS_STATUS_INVALID_VALUE},
      {"no D", [](Case& x) { x.d = nullptr; }, CUBLAS_STATUS_INVALID_VALUE},
      {"no C to read", [](Case& x) { x.c = nullptr, x.s.beta = 1; }, CUBLAS_STATUS_INVALID_VALUE},
      {"no workspace", [](Case& x) { x.workspace = nullptr; }, CUBLAS_STATUS_INVALID_VALUE},
      {"no algorithm", [](Case& x) { x.results[0] = {}; }, CUBLAS_STATUS_INVALID_VALUE},
      {"another product's algorithm",
       [](Case& x) { x.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS); },
       CUBLAS_STATUS_INVALID_VALUE},
      {"no handle", [](Case& x) { x.handle = nullptr; }, CUBLAS_STATUS_NOT_INITIALIZED},
      {"nothing", [](Case& /*x*/) {}, CUBLAS_STATUS_SUCCESS},
  };
  for (const Wrong& wrong : cases) {
    Case x({});
    ASSERT_EQ(x.choose(), CUBLAS_STATUS_SUCCESS);
    wrong.change(x);
    EXPECT_EQ(x.run(), wrong.status) << wrong.what;
  }
}

TEST_F(BlasLt, SettersWantTheSizeOfTheirAttribute) {
  Product<float, float> x({});
  const std::int64_t value = 1;
  for (const std::size_t bytes : {2, 8}) {
    EXPECT_EQ(blas_lt().desc_set(x.desc, CUBLASLT_MATMUL_DESC_TRANSA, &value, bytes),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(blas_lt().layout_set(x.a_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &value, bytes),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(
        blas_lt().preference_set(x.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &value, bytes),
        CUBLAS_STATUS_INVALID_VALUE);
  }
  EXPECT_EQ(blas_lt().desc_set(x.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &value, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(blas_lt().layout_set(x.a_layout, static_cast<cublasLtMatrixLayoutAttribute_t>(99), &value, 4),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(BlasLt, RunsInTheStreamsOrder) {
  Product<float, float> x({.m = 1, .n = 1, .k = 1});
  ASSERT_EQ(x.choose(), CUBLAS_STATUS_SUCCESS);
  const float values[] = {3, 4};
  x.a = to_device<float>({0}), x.b = to_device<float>({4});
  const cudaStream_t stream = nullptr;
  MEZZO_OK(cudaMemcpyAsync(x.a, values, 4, cudaMemcpyHostToDevice, stream));
  ASSERT_EQ(x.run(x.found - 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_GE(emulated_cuda::pending(stream), 1U);
  EXPECT_EQ(to_host(x.d, 1)[0], 12);
}

}  // namespace
}  // namespace emulated_test
