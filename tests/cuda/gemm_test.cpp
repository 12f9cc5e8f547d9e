// Matrix products on a CUDA device, through cuBLASLt or the emulation's: every form against the product in
// f64, bias and row sums in the product's own pass and beside it, TF32, timed algorithms, and what happens
// without the library.
#include "mezzo/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device_fixture.h"
#include "kernels/test_matrix.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/ops/ops.h"
#if defined(MEZZO_CUDA_EMULATED)
#include "emulated_cuda/blas_lt.h"
#endif

namespace mezzo::kernels {
namespace {

using mezzo::test::has_tf32;
using test::Exact;
using test::Layout;
using test::Matrix;

constexpr DType kFloating[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

/// Restores the process's settings.
class CudaGemm : public mezzo::test::CudaTest {
 protected:
  void TearDown() override {
    mezzo::cuda::set_allow_tf32(false);
    cuda::set_gemm_epilogues(true);
    mezzo::cuda::set_benchmark(false);
#if defined(MEZZO_CUDA_EMULATED)
    emulated_cuda::blas_lt().offered = emulated_cuda::Epilogues::all;
    emulated_cuda::blas_lt().multiple = 1;
    for (int& milliseconds : emulated_cuda::blas_lt().slowness) milliseconds = 0;
#endif
  }
  static Device gpu() { return Device::cuda(0); }
};

/// A matrix with its guards in device memory.
class OnDevice {
 public:
  explicit OnDevice(Matrix& host)
      : host_(host),
        first_(host.data() - host.bytes().data()),
        memory_(Device::cuda(0), static_cast<std::int64_t>(host.bytes().size())) {
    backend(Device::cuda(0)).copy_from_host(memory_.data(), host.bytes().data(), host.bytes().size(), 0);
  }
  [[nodiscard]] void* data() const { return static_cast<std::uint8_t*>(memory_.data()) + first_; }
  void read_back() {
    backend(Device::cuda(0)).copy_to_host(host_.data() - first_, memory_.data(), host_.bytes().size(), 0);
  }

 private:
  Matrix& host_;
  std::ptrdiff_t first_;
  cuda::Scratch memory_;
};

/// Runs the product on the device and compares all of C, and bias and row sums if they are given, with what
/// they are in f64.
void expect_right(Matrix a, Matrix b, Matrix c, double alpha = 1, double beta = 0, Matrix* bias = nullptr,
                  Matrix* row_sums = nullptr) {
  std::vector<Exact> exact = exact_product(a, b, c, alpha, beta);
  OnDevice device_a(a), device_b(b), device_c(c);
  GemmArgs args = test::make_args(a, b, c, alpha, beta);
  const DType compute = product_compute_dtype(args);
  args.a = device_a.data(), args.b = device_b.data(), args.c = device_c.data();
  std::optional<OnDevice> device_bias, device_sums;
  if (bias != nullptr) args.bias = device_bias.emplace(*bias).data();
  if (row_sums != nullptr) args.row_sums = device_sums.emplace(*row_sums).data();
  gemm(Device::cuda(0), args);
  device_c.read_back();
  EXPECT_TRUE(c.guards_intact());
  std::size_t next = 0;
  c.for_each([&](std::int64_t q, std::int64_t i, std::int64_t j) {
    Exact& want = exact[next++];
    if (bias != nullptr) {
      want.value += bias->get(0, 0, j);
      want.magnitude += std::fabs(bias->get(0, 0, j));
    }
    EXPECT_NEAR(c.get(q, i, j), want.value, error_bound(want, a.cols(), compute, c.dtype())) << q << i << j;
  });
  if (row_sums == nullptr) return;
  device_sums->read_back();
  EXPECT_TRUE(row_sums->guards_intact());
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    Exact sum;
    for (std::int64_t p = 0; p < a.cols(); ++p) {
      sum.value += a.get(0, i, p);
      sum.magnitude += std::fabs(a.get(0, i, p));
    }
    const double bound = error_bound(sum, a.cols(), compute_dtype(c.dtype()), c.dtype());
    EXPECT_NEAR(row_sums->get(0, 0, i), sum.value, bound) << i;
  }
}

Matrix filled(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t cols, unsigned seed,
              Layout layout = Layout::by_rows) {
  return Matrix(dtype, batch, rows, cols, layout).randomize(seed);
}

TEST_F(CudaGemm, EveryDtypeCombination) {
  for (const DType a : kFloating) {
    for (const DType b : kFloating) {
      for (const DType c : kFloating) {
        SCOPED_TRACE(to_string(a) + " " + to_string(b) + " " + to_string(c));
        expect_right(filled(a, 1, 17, 9, 1), filled(b, 1, 9, 12, 2), filled(c, 1, 17, 12, 3));
        expect_right(filled(a, 2, 5, 9, 1), filled(b, 2, 9, 6, 2), filled(c, 2, 5, 6, 3), -1.5, 0.5);
      }
    }
  }
}

TEST_F(CudaGemm, EveryLayout) {
  for (const Layout a : test::kLayouts) {
    for (const Layout b : test::kLayouts) {
      for (const Layout c : test::kLayouts) {
        SCOPED_TRACE(std::to_string(int(a)) + std::to_string(int(b)) + std::to_string(int(c)));
        const DType dtype = a == c ? DType::f16 : DType::f32;
        Matrix bias = filled(dtype, 1, 1, 6, 4), sums = filled(dtype, 1, 1, 7, 5);
        expect_right(filled(dtype, 2, 7, 5, 1, a), filled(dtype, 2, 5, 6, 2, b), filled(dtype, 2, 7, 6, 3, c),
                     2, 1);
        expect_right(filled(dtype, 1, 7, 5, 1, a), filled(dtype, 1, 5, 6, 2, b), filled(dtype, 1, 7, 6, 3, c),
                     1, 0, &bias);
        expect_right(filled(dtype, 1, 7, 5, 1, a), filled(dtype, 1, 5, 6, 2, b), filled(dtype, 1, 7, 6, 3, c),
                     1, 0, nullptr, &sums);
      }
    }
  }
}

TEST_F(CudaGemm, SizesOfOne) {
  for (const Layout layout : {Layout::by_rows, Layout::by_cols, Layout::padded_rows, Layout::spread}) {
    for (const std::int64_t m : {1, 2, 17}) {
      for (const std::int64_t n : {1, 2, 17}) {
        for (const std::int64_t k : {1, 2, 17}) {
          SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k));
          Matrix bias = filled(DType::f32, 1, 1, n, 4), sums = filled(DType::f32, 1, 1, m, 5);
          expect_right(filled(DType::f32, 2, m, k, 1, layout), filled(DType::f32, 2, k, n, 2, layout),
                       filled(DType::f32, 2, m, n, 3, layout));
          expect_right(filled(DType::f32, 1, m, k, 1, layout), filled(DType::f32, 1, k, n, 2, layout),
                       filled(DType::f32, 1, m, n, 3, layout), 1, 0, &bias, &sums);
        }
      }
    }
  }
}

TEST_F(CudaGemm, BiasAndRowSumsInThePassAndBesideIt) {
  for (const bool epilogues : {true, false}) {
    cuda::set_gemm_epilogues(epilogues);
    for (const DType in : kFloating) {
      for (const DType out : kFloating) {
        SCOPED_TRACE(to_string(in) + " " + to_string(out) + (epilogues ? " in the pass" : " beside"));
        Matrix bias = filled(out, 1, 1, 24, 4), sums = filled(out, 1, 1, 16, 5);
        expect_right(filled(in, 1, 16, 40, 1), filled(in, 1, 40, 24, 2), filled(out, 1, 16, 24, 3), 0.5, 0,
                     &bias);
        // The gradient of a weight: A is dY^T, which lies by columns.
        expect_right(filled(in, 1, 16, 40, 1, Layout::by_cols), filled(in, 1, 40, 24, 2),
                     filled(out, 1, 16, 24, 3), 1, 0, nullptr, &sums);
      }
    }
  }
}

TEST_F(CudaGemm, NothingToMultiply) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i32}) {
    const TensorOptions options{.dtype = dtype, .device = gpu()};
    const Tensor x = full({3, 0}, 1, options), weight = full({4, 0}, 1, options),
                 bias = full({4}, 7, options);
    EXPECT_EQ(linear(x, weight, bias).to(Device::cpu()).to_vector<double>(), std::vector<double>(12, 7.0));
  }
}

TEST_F(CudaGemm, BatchesLargerThanAGrid) {
  constexpr std::int64_t kBatch = 70000;
  const TensorOptions options{.dtype = DType::f32, .device = gpu()};
  const Tensor numbers = arange(kBatch, {.dtype = DType::f32, .device = gpu()}),
               two = full({1, 1}, 2, options);
  const std::vector<float> got =
      matmul(reshape(numbers, {kBatch, 1, 1}), two).to(Device::cpu()).to_vector<float>();
  ASSERT_EQ(got.size(), std::size_t{kBatch});
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * static_cast<float>(i));
}

TEST_F(CudaGemm, SizesBeyond32BitsAreRefused) {
  const cuda::Scratch memory(gpu(), 64);
  GemmArgs args;
  args.m = std::int64_t{1} << 31, args.n = 1, args.k = 1;
  args.a = args.b = args.c = memory.data();
  args.a_row_stride = args.b_row_stride = args.c_row_stride = 1;
  EXPECT_THROW(gemm(gpu(), args), DeviceError);
}

TEST_F(CudaGemm, SixteenBitSumOfProductAndBiasIsRoundedOnce) {
  // 1 + 2 * 2^-12 + 2^-12 rounds up in f16; a product rounded to 1 first could not.
  const TensorOptions options{.dtype = DType::f16, .device = gpu()};
  for (const std::int64_t n : {8, 64}) {
    const Tensor x = full({n, 2 * n}, 1, options), weight = full({n, 2 * n}, 0, options);
    slice(weight, 1, 0, 1).fill_(1);
    slice(weight, 1, 2 * n - 2).fill_(0x1p-12);
    const Tensor bias = full({n}, 0x1p-12, options), matrix = full({n, n}, 0x1p-12, options);
    const Tensor transposed = transpose(weight, 0, 1);
    for (const bool epilogues : {true, false}) {
      cuda::set_gemm_epilogues(epilogues);
      for (const Tensor& sum :
           {linear(x, weight, bias), addmm(bias, x, transposed), addmm(matrix, x, transposed)}) {
        EXPECT_EQ(sum.to_vector<double>(), std::vector<double>(static_cast<std::size_t>(n * n), 1 + 0x1p-10))
            << n << (epilogues ? ", epilogues" : "");
      }
    }
  }
}

TEST_F(CudaGemm, BiasThatBeginsAnywhere) {
  for (const std::int64_t first : {0, 1, 2, 0}) {
    const TensorOptions options{.dtype = DType::f32, .device = gpu()};
    const Tensor x = full({32, 16}, 1, options), weight = full({16, 16}, 1, options);
    const Tensor bias = slice(full({20}, 3, options), 0, first, first + 16);
    EXPECT_EQ(linear(x, weight, bias).to(Device::cpu()).to_vector<double>(), std::vector<double>(512, 19.0));
  }
}

/// 1 + 2^-12, which TF32 cannot hold, times 1, in this dtype. TF32 is a permission: of small products
/// cuBLASLt computes some in f32 all the same, so these are of a size that keeps tensor cores busy.
double just_above_one(DType dtype) {
  constexpr std::int64_t kSize = 512;
  const TensorOptions options{.dtype = dtype, .device = Device::cuda(0)};
  return matmul(full({kSize, kSize}, 1 + 0x1p-12, options),
                eye(kSize, {}, {.dtype = dtype, .device = Device::cuda(0)}))
      .to(Device::cpu())
      .to_vector<double>()[0];
}

TEST_F(CudaGemm, Tf32IsUsedOnlyWhereItIsAllowed) {
  EXPECT_EQ(just_above_one(DType::f32), 1 + 0x1p-12);
  mezzo::cuda::set_allow_tf32(true);
  EXPECT_EQ(just_above_one(DType::f32), has_tf32() ? 1 : 1 + 0x1p-12)
      << "the same sizes as before: the setting is part of what is kept";
  EXPECT_EQ(just_above_one(DType::f64), 1 + 0x1p-12);
  // f16 has TF32's bits; what would be lost is its range of sums.
  EXPECT_EQ(just_above_one(DType::f16), 1);
  mezzo::cuda::set_allow_tf32(false);
  EXPECT_EQ(just_above_one(DType::f32), 1 + 0x1p-12);
}

TEST_F(CudaGemm, RowSumsKeepAllBitsBesideTf32) {
  mezzo::cuda::set_allow_tf32(true);
  Matrix a = Matrix(DType::f32, 1, 8, 16).fill(1 + 0x1p-12), b = Matrix(DType::f32, 1, 16, 8).fill(1);
  Matrix c(DType::f32, 1, 8, 8), sums(DType::f32, 1, 1, 8);
  OnDevice device_a(a), device_b(b), device_c(c), device_sums(sums);
  GemmArgs args = test::make_args(a, b, c);
  args.a = device_a.data(), args.b = device_b.data(), args.c = device_c.data();
  args.row_sums = device_sums.data();
  gemm(gpu(), args);
  device_sums.read_back();
  EXPECT_EQ(sums.get(0, 0, 3), 16 + 0x1p-8);
}

TEST_F(CudaGemm, ThreadsShareWhatIsKeptAndNotTheirBias) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([number, &wrong] {
      const mezzo::cuda::Stream own(gpu());
      const mezzo::cuda::StreamGuard use(own);
      const TensorOptions options{.dtype = DType::f32, .device = gpu()};
      const Tensor x = full({4, 8}, 1, options), weight = full({4, 8}, 1, options);
      const Tensor bias = full({4}, number, options);
      std::vector<Tensor> results;
      for (int again = 0; again < 300; ++again) results.push_back(linear(x, weight, bias));
      for (const Tensor& out : results) {
        const std::vector<double> got = out.to(Device::cpu()).to_vector<double>();
        if (got != std::vector<double>(16, 8.0 + number)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CudaGemm, FirstProductOfItsSizesInACapture) {
  mezzo::cuda::set_benchmark(true);  // which must not wait in a capture
  const TensorOptions options{.dtype = DType::f32, .device = gpu()};
  const Tensor x = full({5, 11}, 2, options), weight = full({13, 11}, 1, options),
               bias = full({13}, 3, options);
  const Tensor out = zeros({5, 13}, options);
  mezzo::cuda::Graph graph(gpu(), [&] { out.copy_(linear(x, weight, bias)); });
  EXPECT_EQ(out.to(Device::cpu()).to_vector<float>(), std::vector<float>(65, 0.0F));
  graph.replay();
  EXPECT_EQ(out.to(Device::cpu()).to_vector<float>(), std::vector<float>(65, 25.0F));
}

TEST_F(CudaGemm, TimingLeavesResultsRight) {
  mezzo::cuda::set_benchmark(true);
  Matrix bias = filled(DType::f16, 1, 1, 40, 4), sums = filled(DType::f32, 1, 1, 24, 5);
  for (int again = 0; again < 2; ++again) {
    expect_right(filled(DType::f16, 3, 24, 33, 1), filled(DType::f16, 3, 33, 40, 2),
                 filled(DType::f16, 3, 24, 40, 3), 2, -1);
    expect_right(filled(DType::f16, 1, 24, 33, 1), filled(DType::f16, 1, 33, 40, 2),
                 filled(DType::f16, 1, 24, 40, 3), 1, 0, &bias);
    expect_right(filled(DType::f16, 1, 24, 33, 1), filled(DType::f16, 1, 33, 40, 2),
                 filled(DType::f32, 1, 24, 40, 3), 1, 0, nullptr, &sums);
  }
}

#if defined(MEZZO_CUDA_EMULATED)

/// Products that run while `body` does.
template <class F>
std::uint64_t products(F body) {
  const std::uint64_t before = emulated_cuda::blas_lt().products;
  body();
  return emulated_cuda::blas_lt().products - before;
}

TEST_F(CudaGemm, FastestAlgorithmIsFoundOnceAndKept) {
  emulated_cuda::BlasLt& lt = emulated_cuda::blas_lt();
  const TensorOptions options{.dtype = DType::f32, .device = gpu()};
  const Tensor x = full({48, 32}, 1, options), y = full({32, 16}, 1, options);
  const auto product = [&] {
    EXPECT_EQ(matmul(x, y).to(Device::cpu()).to_vector<float>(),
              std::vector<float>(std::size_t{48 * 16}, 32.0F));
  };
  lt.slowness[0] = lt.slowness[2] = 20;
  EXPECT_EQ(products(product), 1U) << "off: the recommended algorithm, untimed";
  EXPECT_EQ(lt.last_algorithm, 0);
  mezzo::cuda::set_benchmark(true);
  EXPECT_EQ(products(product), 3U * 16 + 1) << "three algorithms, 1 + 5 x 3 times each, and the product";
  EXPECT_EQ(lt.last_algorithm, 1);
  EXPECT_EQ(products(product), 1U) << "timed once";
  EXPECT_EQ(lt.last_algorithm, 1);
  mezzo::cuda::set_benchmark(false);
  EXPECT_EQ(products(product), 1U);
  EXPECT_EQ(lt.last_algorithm, 1) << "what was found stays";
}

TEST_F(CudaGemm, NothingIsTimedInACapture) {
  mezzo::cuda::set_benchmark(true);
  const TensorOptions options{.dtype = DType::f32, .device = gpu()};
  const Tensor x = full({80, 32}, 1, options), y = full({32, 16}, 1, options), out = zeros({80, 16}, options);
  EXPECT_EQ(products([&] { mezzo::cuda::Graph(gpu(), [&] { out.copy_(matmul(x, y)); }); }), 1U);
  EXPECT_EQ(products([&] { static_cast<void>(matmul(x, y)); }), 3U * 16 + 1);
}

/// Epilogues that a step of a layer uses, forward and backward.
std::uint64_t epilogues_of_a_layer(DType dtype, DType parameters) {
  const std::uint64_t before = emulated_cuda::blas_lt().epilogues;
  const Tensor x = full({8, 16}, 1, {.dtype = dtype, .device = Device::cuda(0)});
  const Tensor weight = full({4, 16}, 1, {.dtype = parameters, .device = Device::cuda(0)});
  const Tensor bias = full({4}, 3, {.dtype = parameters, .device = Device::cuda(0)});
  weight.requires_grad_(), bias.requires_grad_();
  const Tensor out = linear(x, weight.to(dtype), bias.to(dtype));
  EXPECT_EQ(out.detach().to(Device::cpu()).to_vector<double>(), std::vector<double>(32, 19.0));
  sum(out).backward();
  EXPECT_EQ(weight.grad().dtype(), parameters);
  EXPECT_EQ(weight.grad().to(Device::cpu()).to_vector<double>(), std::vector<double>(64, 8.0));
  EXPECT_EQ(bias.grad().to(Device::cpu()).to_vector<double>(), std::vector<double>(4, 8.0));
  return emulated_cuda::blas_lt().epilogues - before;
}

TEST_F(CudaGemm, LayersUseTheEpiloguesOfBothPasses) {
  EXPECT_EQ(epilogues_of_a_layer(DType::f32, DType::f32), 2U);
  EXPECT_EQ(epilogues_of_a_layer(DType::f16, DType::f32), 2U) << "f32 gradients straight from f16";
  EXPECT_EQ(epilogues_of_a_layer(DType::bf16, DType::bf16), has_tf32() ? 2U : 0U);
  cuda::set_gemm_epilogues(false);
  EXPECT_EQ(epilogues_of_a_layer(DType::f32, DType::f32), 0U);
  cuda::set_gemm_epilogues(true);
  mezzo::cuda::set_allow_tf32(true);
  EXPECT_EQ(epilogues_of_a_layer(DType::f32, DType::f32), 1U) << "sums beside TF32";
}

// Sizes that no other test has plans of.
TEST_F(CudaGemm, WithoutAnAlgorithmForItsMemoryItIsComputedFromCopies) {
  emulated_cuda::blas_lt().multiple = 16;
  for (const DType dtype : kFloating) {
    for (const Layout layout : {Layout::by_rows, Layout::by_cols}) {
      SCOPED_TRACE(to_string(dtype));
      expect_right(filled(dtype, 1, 13, 11, 1, layout), filled(dtype, 1, 11, 15, 2, layout),
                   filled(dtype, 1, 13, 15, 3), 0.5, 0);
      expect_right(filled(dtype, 3, 13, 11, 1, layout), filled(dtype, 3, 11, 15, 2, layout),
                   filled(dtype, 3, 13, 15, 3), -1.5, 0.5);
    }
  }
  Matrix bias = filled(DType::f16, 1, 1, 15, 4), sums = filled(DType::f32, 1, 1, 13, 5);
  expect_right(filled(DType::f16, 1, 13, 11, 1), filled(DType::f16, 1, 11, 15, 2),
               filled(DType::f16, 1, 13, 15, 3), 1, 0, &bias);
  expect_right(filled(DType::f16, 1, 13, 11, 1), filled(DType::f16, 1, 11, 15, 2),
               filled(DType::f32, 1, 13, 15, 3), 1, 0, nullptr, &sums);
}

TEST_F(CudaGemm, WithoutAnyAlgorithmTheErrorNamesTheProduct) {
  emulated_cuda::blas_lt().multiple = 0;
  const TensorOptions options{.dtype = DType::f16, .device = gpu()};
  try {
    static_cast<void>(matmul(full({19, 21}, 1, options), full({21, 23}, 1, options)));
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("none for [1, 19, 21] times [1, 21, 23] in f16"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(CudaGemm, WithoutAnAlgorithmForAnEpilogueItIsDoneBeside) {
  emulated_cuda::blas_lt().offered = emulated_cuda::Epilogues::none;
  Matrix bias = filled(DType::f16, 1, 1, 9, 4), sums = filled(DType::f32, 1, 1, 10, 5);
  expect_right(filled(DType::f16, 1, 10, 7, 1), filled(DType::f16, 1, 7, 9, 2),
               filled(DType::f16, 1, 10, 9, 3), 1, 0, &bias);
  expect_right(filled(DType::f16, 1, 10, 7, 1), filled(DType::f16, 1, 7, 9, 2),
               filled(DType::f32, 1, 10, 9, 3), 1, 0, nullptr, &sums);
}

#endif

/// In a process that has not opened the library yet.
void use_without_library() {
  setenv("MEZZO_CUBLASLT", "/nonexistent/libcublasLt.so", 1);
  const TensorOptions options{.dtype = DType::f32, .device = Device::cuda(0)};
  const Tensor x = full({2, 2}, 1, options);
  try {
    static_cast<void>(matmul(x, x));
    std::exit(1);
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    for (const char* const part :
         {"matmul: expected the library ", "libcublasLt", "/nonexistent/libcublasLt.so",
          "install the CUDA toolkit", "pip install nvidia-cublas", "LD_LIBRARY_PATH",
          "or name the file in MEZZO_CUBLASLT"}) {
      if (text.find(part) == std::string::npos) std::exit(2);
    }
  }
  const std::vector<float> twos(4, 2.0F);
  if (matmul(x.to(Device::cpu()), x.to(Device::cpu())).to_vector<float>() != twos) std::exit(3);
  unsetenv("MEZZO_CUBLASLT");
  if (matmul(x, x).to(Device::cpu()).to_vector<float>() != twos) std::exit(4);
  std::exit(0);
}

TEST_F(CudaGemm, WithoutTheLibraryTheErrorSaysHowToGetItAndTheProcessGoesOn) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(use_without_library(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mezzo::kernels
