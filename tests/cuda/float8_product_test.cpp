// Float8 products on a CUDA device: of every layout against f64, linear under amp::Fp8 against the CPU, and
// in a captured step against the eager one.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/twin.h"
#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/mezzo.h"
#include "support/caught_warnings.h"
#include "support/gpu.h"
#if defined(MEZZO_CUDA_EMULATED)
#include "emulated_cuda/blas_lt.h"
#endif

namespace mezzo {
namespace {

using namespace twin;
using CudaFloat8Product = CudaTwin;

const Device kGpu = Device::cuda(0);

bool has_float8() { return cuda::compute_capability(0) >= 89; }

enum class Lie { by_rows, by_columns, padded, padded_columns, unaligned, spread };
constexpr Lie kLies[] = {Lie::by_rows,        Lie::by_columns, Lie::padded,
                         Lie::padded_columns, Lie::unaligned,  Lie::spread};

/// [batch, rows, columns] of numbers on the device, in memory of the wanted form.
Tensor operand(std::uint64_t seed, std::int64_t batch, std::int64_t rows, std::int64_t columns, DType dtype,
               Lie lie) {
  const auto made = [&](const Shape& shape) { return values(seed, shape, dtype, kGpu); };
  switch (lie) {
    case Lie::by_rows:
      return made({batch, rows, columns});
    case Lie::by_columns:
      return transpose(made({batch, columns, rows}), 1, 2);
    case Lie::padded:
      return slice(made({batch, rows, columns + 16}), 2, 0, columns);
    case Lie::padded_columns:
      return slice(transpose(made({batch, columns, rows + 4}), 1, 2), 1, 4);
    case Lie::unaligned:
      return slice(made({batch, rows, columns + 1}), 2, 1);
    case Lie::spread:
      return slice(made({batch, rows, 3 * columns}), 2, 0, std::nullopt, 3);
  }
  return {};
}

struct Product {
  std::int64_t m = 16, n = 32, k = 48;
  DType a = DType::f8_e4m3, b = DType::f8_e4m3, out = DType::bf16;
  Lie a_lies = Lie::by_rows, b_lies = Lie::by_columns;
  bool bias = false, scaled = true;
  std::int64_t batch = 1;
  double alpha = 1;
};

/// The dtype in which float8 sums in f32 are compared.
DType dtype_of_sums() { return test::is_gpu(kGpu) ? DType::f16 : DType::f32; }

/// Runs it on the device against the product in f64. No product of two elements is above 1.
void expect_right(const Product& p) {
  const Tensor a = operand(1, p.batch, p.m, p.k, p.a, p.a_lies),
               b = operand(2, p.batch, p.k, p.n, p.b, p.b_lies),
               c = empty({p.batch, p.m, p.n}, {.dtype = p.out, .device = kGpu}),
               bias = values(3, {p.n}, p.out, kGpu),
               scales = tensor(std::vector<float>{0.75F, 3.5F}).to(kGpu);
  kernels::GemmArgs args{.batch = p.batch, .m = p.m, .n = p.n, .k = p.k, .alpha = p.alpha};
  args.a = a.impl().data(), args.a_dtype = p.a;
  args.a_batch_stride = a.strides()[0], args.a_row_stride = a.strides()[1],
  args.a_col_stride = a.strides()[2];
  args.b = b.impl().data(), args.b_dtype = p.b;
  args.b_batch_stride = b.strides()[0], args.b_row_stride = b.strides()[1],
  args.b_col_stride = b.strides()[2];
  args.c = c.impl().data(), args.c_dtype = p.out, args.c_batch_stride = p.m * p.n, args.c_row_stride = p.n;
  const auto* const numbers = static_cast<const float*>(scales.impl().data());
  if (p.scaled) args.a_scale = numbers, args.b_scale = numbers + 1;
  if (p.bias) args.bias = bias.impl().data();
  kernels::gemm(kGpu, args);
  const auto wide = [](const Tensor& x) { return x.to(DType::f64).to(Device::cpu()); };
  const double factor = p.alpha * (p.scaled ? 0.75 * 3.5 : 1.0);
  Tensor want = matmul(wide(a), wide(b)) * factor, size = matmul(wide(a).abs(), wide(b).abs()) * factor;
  if (p.bias) want = want + wide(bias), size = size + wide(bias).abs();
  const auto got = c.to_vector<double>(), exact = want.to_vector<double>(),
             magnitude = size.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto terms = static_cast<double>(p.k);
    const double bound = (terms + 4) * 0x1p-24 * std::abs(magnitude[i]) +
                         terms * test::float8_cut(kGpu) * std::abs(factor) +
                         (p.out == DType::f32 ? 0x1p-24 : tolerance(p.out)) * std::abs(exact[i]);
    ASSERT_NEAR(got[i], exact[i], bound)
        << i << ": " << p.m << " x " << p.n << " x " << p.k << " " << to_string(p.a) << " " << to_string(p.b)
        << " to " << to_string(p.out) << " lie " << int(p.a_lies) << int(p.b_lies) << (p.bias ? " bias" : "");
  }
}

TEST_F(CudaFloat8Product, ProductsOfEverySizeFormatAndResult) {
  for (const std::int64_t m : {1, 5, 16, 24}) {
    for (const DType out : {DType::bf16, DType::f16, DType::f32}) {
      for (const bool bias : {false, true}) {
        expect_right({.m = m, .out = out, .bias = bias});
        expect_right({.m = m, .b = DType::f8_e5m2, .out = out, .bias = bias});
        expect_right({.m = m, .a = DType::f8_e5m2, .out = out, .bias = bias});
        expect_right({.m = m, .a = DType::f8_e5m2, .b = DType::f8_e5m2, .out = out, .bias = bias});
        expect_right({.m = m, .n = 20, .out = out, .bias = bias});
        expect_right({.m = m, .k = 5, .out = out, .bias = bias, .alpha = -1.5});
      }
    }
  }
}

TEST_F(CudaFloat8Product, ProductsOfEveryLayout) {
  for (const Lie a : kLies) {
    for (const Lie b : kLies) {
      for (const std::int64_t k : {48, 37, 130}) {
        expect_right({.m = 24, .k = k, .out = DType::f32, .a_lies = a, .b_lies = b});
        expect_right({.m = 70, .n = 80, .k = k, .a_lies = a, .b_lies = b, .bias = true});
      }
      expect_right({.m = 9, .n = 7, .a_lies = a, .b_lies = b, .batch = 3});
    }
  }
}

TEST_F(CudaFloat8Product, ProductsThatAreNotOfTwoScaledFloat8Operands) {
  for (const DType other : {DType::f16, DType::bf16, DType::f32}) {
    for (const bool bias : {false, true}) {
      expect_right({.b = other, .out = DType::f32, .bias = bias});
      expect_right({.a = other, .b = DType::f8_e5m2, .bias = bias, .scaled = false});
      expect_right({.a = other, .b = other, .out = DType::f16, .bias = bias, .alpha = 2});
    }
  }
  expect_right({.scaled = false});
  expect_right({.out = DType::f32, .bias = true, .scaled = false, .alpha = 0.5});
}

TEST_F(CudaFloat8Product, AWarningSaysOnceWhereItIsComputedIn16Bits) {
  const test::CaughtWarnings caught;
  expect_right({});
  expect_right({.out = DType::f32});
  if (has_float8()) {
    EXPECT_TRUE(caught.names().empty());
    return;
  }
  ASSERT_EQ(caught.names(), std::vector<std::string>{"float8_in_16_bits"});
  EXPECT_EQ(caught.texts()[0].find("matmul: expected a GPU of compute capability 8.9 or above for float8, "
                                   "got cuda:0 of "),
            0U)
      << caught.texts()[0];
}

#if defined(MEZZO_CUDA_EMULATED)

TEST_F(CudaFloat8Product, CublasLtMultipliesCodesWhereItCan) {
  emulated_cuda::BlasLt& lt = emulated_cuda::blas_lt();
  const auto runs = [&](const Product& p, const std::string& what) {
    const std::uint64_t epilogues = lt.epilogues;
    expect_right(p);
    EXPECT_EQ(cuda::plans().find(what) != std::string::npos, has_float8()) << cuda::plans();
    return lt.epilogues - epilogues;
  };
  // Sizes that no other test has.
  EXPECT_EQ(runs({.m = 3, .n = 16, .k = 64, .bias = true},
                 "[3, 64] x [64, 16], f8_e4m3 to bf16, with bias: algorithm"),
            has_float8() ? 1U : 0U);
  EXPECT_EQ(runs({.m = 3, .n = 16, .k = 65, .a = DType::f8_e5m2, .out = DType::f32, .bias = true},
                 "[3, 80] x [80, 16], f8_e5m2 and f8_e4m3 to f32: algorithm"),
            0U);
  kernels::cuda::set_gemm_epilogues(false);
  EXPECT_EQ(runs({.m = 3, .n = 16, .k = 96, .bias = true}, "[3, 96] x [96, 16], f8_e4m3 to f32: algorithm"),
            0U);
  kernels::cuda::set_gemm_epilogues(true);
  lt.offered = emulated_cuda::Epilogues::none;
  EXPECT_EQ(
      runs({.m = 3, .n = 16, .k = 112, .bias = true}, "[3, 112] x [112, 16], f8_e4m3 to f32: algorithm"), 0U);
  lt.offered = emulated_cuda::Epilogues::all;
}

TEST_F(CudaFloat8Product, WithoutAnAlgorithmItIsComputedFromCopies) {
  emulated_cuda::blas_lt().multiple = 32;  // 16-bit runs of 80 are at such multiples, float8's are not
  for (const DType out : {DType::bf16, DType::f32}) {
    for (const bool bias : {false, true}) {
      for (const std::int64_t k : {80, 75}) {
        EXPECT_NO_THROW(expect_right({.m = 6, .n = 112, .k = k, .out = out, .bias = bias}));
      }
    }
  }
  emulated_cuda::blas_lt().multiple = 1;
  const std::string refused = "[6, 80] x [80, 112], f8_e4m3 to bf16: none, so it is computed another way";
  EXPECT_EQ(cuda::plans().find(refused) != std::string::npos, has_float8()) << cuda::plans();
}

#endif

// --- layers

/// Linear with its gradients in a float8 region.
void run_linear(Device device, Trace& trace, const amp::Fp8& fp8, DType region, std::int64_t rows,
                bool bias) {
  const Tensor x = leaf(1, {rows, 32}, DType::f32, device), weight = leaf(2, {48, 32}, DType::f32, device),
               b = bias ? leaf(3, {48}, DType::f32, device) : Tensor();
  Tensor y;
  {
    const amp::Autocast autocast(device, region, {.fp8 = fp8});
    y = linear(x, weight, b);
  }
  y.backward(values(4, {rows, 48}, region, device));
  trace.add("y", y, 1);
  trace.add("dx", x.grad().to(dtype_of_sums()), 1);
  trace.add("dw", weight.grad().to(dtype_of_sums()), 4);
  if (bias) trace.add("db", b.grad(), 4);
}

TEST_F(CudaFloat8Product, LinearIsTheCpus) {
  for (const DType region : {DType::bf16, DType::f16}) {
    for (const std::int64_t rows : {1, 5, 16, 24}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(to_string(region) + " " + std::to_string(rows));
        for (const amp::Fp8& fp8 : {amp::Fp8{}, amp::Fp8{.gradients = DType::f8_e4m3, .power_of_two = true},
                                    amp::Fp8{.gradient_weight = GradientWeight::high}})
          expect_same(
              [&](Device device, Trace& trace) { run_linear(device, trace, fp8, region, rows, bias); });
      }
    }
  }
}

TEST_F(CudaFloat8Product, WhatIsNotFiniteMakesTheResultNan) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = values(1, {5, 32}, DType::f32, device), weight = leaf(2, {48, 32}, DType::f32, device);
    set_element(x, 7, kInf);
    const amp::Autocast autocast(device, DType::bf16, {.fp8 = true});
    const Tensor y = linear(x, weight);
    EXPECT_TRUE(std::isnan(y.detach().to_vector<double>()[47]));
    trace.add("y", y);
  });
}

/// A training in float8, whose steps a test runs eagerly or captured.
struct Float8Training {
  Float8Training() {
    net.to(kGpu);
    optimizer = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.01});
    input = zeros({24, 32}, {.device = kGpu}), target = zeros({24, 16}, {.device = kGpu});
  }
  void load(std::uint64_t i) const {
    input.copy_(values(100 + i, {24, 32}, DType::f32, kGpu));
    target.copy_(values(200 + i, {24, 16}, DType::f32, kGpu));
  }
  Tensor step() {
    optimizer->zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(kGpu, DType::f16, {.fp8 = true});
      loss = mse_loss(net.forward(input).to(DType::f32), target);
    }
    scaler.scale(loss).backward();
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
    return loss.detach();
  }
  [[nodiscard]] std::vector<std::uint32_t> state() const {
    std::vector<std::uint32_t> all;
    for (const Tensor& p : net.parameters()) {
      for (const float value : p.detach().to_vector<float>())
        all.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return all;
  }
  static const Generator* seeded() {
    manual_seed(3);
    return nullptr;
  }
  const Generator* drawn = seeded();  ///< before `net`, which draws its weights
  nn::Sequential net{nn::make<nn::Linear>(32, 48), nn::make<nn::ReLU>(), nn::make<nn::Linear>(48, 16)};
  std::unique_ptr<optim::Optimizer> optimizer;
  amp::GradScaler scaler{{.init_scale = 1024}};
  Tensor input, target;
};

TEST_F(CudaFloat8Product, CapturedStepHasTheBitsOfTheEagerOne) {
  Float8Training eager, captured;
  amp::CapturedStep step(
      kGpu, [&] { return captured.step(); }, 2);
  for (std::uint64_t i = 0; i < 6; ++i) {
    eager.load(i), captured.load(i);
    const float want = eager.step().item<float>(), got = step().item<float>();
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << "loss of call " << i;
    ASSERT_EQ(captured.state(), eager.state()) << "after call " << i;
    ASSERT_EQ(step.is_recorded(), i >= 2);
  }
}

}  // namespace
}  // namespace mezzo
