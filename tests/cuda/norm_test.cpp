// Normalizations on the device as on the CPU, forward and backward: row lengths on both sides of every change
// of way, rows cut into pieces, columns, more rows than there are parts for the sums of parameters; and by
// the number of kernels, that the way meant for a size is taken.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/row_plan.h"
#include "mezzo/ops/norm.h"
#include "mezzo/ops/norm/common.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;

using CudaNorm = CudaTwin;

constexpr std::int64_t kLongest = kernels::cuda::kLongestRegisterRow;

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

/// What a case is besides the norm: `terms`, how many elements a gradient of a parameter sums over.
struct NormCase {
  Shape shape;
  Shape parameters;
  double terms;
  DType dtype = DType::f32;
  bool affine = true;
  double mean = 0;
};

void run_case(const NormCase& c, const Norm& norm, Device device, Trace& trace) {
  const DType parameter = c.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor x = (values(1, c.shape, c.dtype, device) + c.mean).to(c.dtype).detach();
  x.requires_grad_();
  const Tensor weight = c.affine ? leaf(2, c.parameters, parameter, device) : Tensor();
  const Tensor bias = c.affine ? leaf(3, c.parameters, parameter, device) : Tensor();
  const Tensor y = norm(x, weight, bias);
  trace.add("result", y, 4);
  const Tensor grad = values(4, c.shape, c.dtype, device);
  sum(y * grad).backward();
  trace.add("gradient of x", x.grad(), 8);
  if (!c.affine) return;
  trace.add("gradient of weight", weight.grad(), 4 * c.terms);
  trace.add("gradient of bias", bias.grad(), 4 * c.terms);
}

void expect_same_norm(const NormCase& c, const Norm& norm) {
  SCOPED_TRACE(::testing::Message() << to_string(c.shape) << " " << to_string(c.dtype));
  expect_same([&](Device device, Trace& trace) { run_case(c, norm, device, trace); });
}

void expect_same_layer_norm(std::int64_t rows, std::int64_t n, DType dtype = DType::f32) {
  const auto terms = static_cast<double>(rows);
  for (const bool affine : {true, false}) {
    expect_same_norm(
        {{rows, n}, {n}, terms, dtype, affine},
        [n](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {n}, w, b); });
  }
  expect_same_norm({{rows, n}, {n}, terms, dtype, false},
                   [n](const Tensor& x, const Tensor& w, const Tensor&) { return rms_norm(x, {n}, w); });
}

Norm groups(std::int64_t count) {
  return [count](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, count, w, b); };
}
Tensor batch(const Tensor& x, const Tensor& w, const Tensor& b) { return batch_norm(x, {}, {}, w, b, true); }

TEST_F(CudaNorm, RowsOfEveryLength) {
  for (const std::int64_t n : {2, 31, 33, 128, 129, 512, 513, 1024, 8188, 8192, 8193})
    expect_same_layer_norm(3, n);
}
TEST_F(CudaNorm, TheLongestRowsInRegistersAndLonger) {
  for (const std::int64_t n : {kLongest, kLongest + 1}) expect_same_layer_norm(2, n);
}
TEST_F(CudaNorm, RowsOfEveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    for (const std::int64_t n : {32, 129, 768}) expect_same_layer_norm(5, n, dtype);
  }
}
TEST_F(CudaNorm, ResultsOfAnotherDtype) {
  constexpr std::array kDTypes{DType::f16, DType::bf16, DType::f32, DType::f64};
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      for (const DType parameter : kDTypes) {
        if (parameter == DType::f64 && from != DType::f64 && to != DType::f64) continue;
        SCOPED_TRACE(to_string(from) + " to " + to_string(to) + ", parameters " + to_string(parameter));
        expect_same([&](Device device, Trace& trace) {
          const Tensor x = leaf(1, {5, 132}, from, device), weight = leaf(2, {132}, parameter, device);
          const Tensor y = layer_norm(x, {132}, weight, {}, 1e-5, to);
          trace.add("layer_norm", y, 4);
          const Tensor z = rms_norm(x, {132}, weight, 1e-5, to);
          trace.add("rms_norm", z, 4);
          sum(y * values(4, {5, 132}, to, device) + z).backward();
          trace.add("gradient of x", x.grad(), 8);
          trace.add("gradient of weight", weight.grad(), 20);
        });
      }
    }
  }
}
TEST_F(CudaNorm, MoreRowsThanParts) {
  for (const std::int64_t rows : {1, 2, 5, 2113, 2600}) expect_same_layer_norm(rows, 5);
  expect_same_layer_norm(300, 520);
  expect_same_layer_norm(300, 12, DType::f64);
}

TEST_F(CudaNorm, RowsThatLieApart) {
  expect_same([](Device device, Trace& trace) {
    const Tensor all = leaf(1, {40, 70, 3}, DType::f32, device), weight = leaf(2, {70}, DType::f32, device);
    const Tensor columns = leaf(3, {70, 40}, DType::f32, device);
    const Tensor y =
        layer_norm(select(all, 2, 1), {70}, weight) + rms_norm(transpose(columns, 0, 1), {70}, weight);
    trace.add("result", y, 4);
    sum(y * y).backward();
    trace.add("gradient of every third", all.grad(), 16);
    trace.add("gradient of columns", columns.grad(), 16);
    trace.add("gradient of weight", weight.grad(), 640);
  });
}

TEST_F(CudaNorm, GroupsInOneKernelAndInPieces) {
  const auto expect = [](std::int64_t n, std::int64_t channels, std::int64_t length, std::int64_t count,
                         DType dtype = DType::f32) {
    expect_same_norm({{n, channels, length}, {channels}, static_cast<double>(n * length), dtype},
                     groups(count));
  };
  expect(3, 6, 1, 2);
  expect(2, 6, 7, 3);
  expect(2, 12, 129, 3, DType::f16);
  expect(2, 4, 64, 2, DType::f64);
  expect(1, 8, kLongest / 4, 2);        // the longest row at once
  expect(1, 8, kLongest / 4 + 1, 2);    // and in pieces of a run each
  expect(1, 4, 12300, 2);               // runs of several pieces
  expect(1, 2, 16411, 1, DType::bf16);  // a prime: one piece that no registers hold
}

TEST_F(CudaNorm, BatchesInPiecesAndColumns) {
  const auto expect = [](const Shape& shape, DType dtype = DType::f32) {
    double terms = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) terms *= d == 1 ? 1.0 : static_cast<double>(shape[d]);
    expect_same_norm({shape, {shape[1]}, terms, dtype}, batch);
  };
  expect({3, 5, 49});
  expect({2, 3, 8, 516}, DType::f16);
  expect({2, 3, 12300});  // few rows: pieces
  for (const std::int64_t channels : {3, 32, 40}) expect({96, channels}, DType::bf16);
  expect({130, 33});
  expect({131, 33}, DType::f64);  // a prime count: one piece per column
}

TEST_F(CudaNorm, GivenAndRunningStatistics) {
  expect_same([](Device device, Trace& trace) {
    for (const bool training : {true, false}) {
      const Tensor x = leaf(1, {4, 6, 30}, DType::f32, device), weight = leaf(2, {6}, DType::f32, device);
      const Tensor mean = values(3, {6}, DType::f32, device),
                   variance = values(4, {6}, DType::f32, device) + 2.0;
      const Tensor y = batch_norm(x, mean, variance, weight, {}, training);
      trace.add("result", y, 4);
      trace.add("running mean", mean);
      trace.add("running variance", variance);
      sum(y * y).backward();
      trace.add("gradient of x", x.grad(), 16);
      trace.add("gradient of weight", weight.grad(), 480);
    }
  });
}

// A mean that is large beside the deviation must not cost the digits of the variance.
TEST_F(CudaNorm, ALargeMean) {
  for (const double mean : {1000.0, -30000.0}) {
    expect_same_norm(
        {{3, 700}, {700}, 3, DType::f32, true, mean},
        [](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {700}, w, b); });
    expect_same_norm({{2, 4, 9000}, {4}, 18000, DType::f32, true, mean}, groups(1));
    expect_same_norm({{6, 3, 50}, {3}, 300, DType::f32, true, mean}, batch);
    expect_same_norm({{96, 40}, {40}, 96, DType::f32, true, mean}, batch);
  }
}

// Moments are taken again in f64, from memory: in a warp, in blocks with few warps and with many, packed and
// not.
TEST_F(CudaNorm, RowsWhoseSumsLeaveF32) {
  for (const std::int64_t n : {128, 500, 511, 2048, 8192, 8191}) {
    SCOPED_TRACE(n);
    expect_same([&](Device device, Trace& trace) {
      const Tensor x = ((values(1, {2, n}, DType::f32, device) + 2.0) * 1e37).detach();
      trace.add("layer_norm", layer_norm(x, {n}), 8);
      trace.add("rms_norm", rms_norm(x, {n}), 8);
    });
  }
}

/// Kernels that f starts.
template <class F>
std::uint64_t launches_of(const F& f) {
  const std::uint64_t before = cuda::launches();
  (void)f();
  return cuda::launches() - before;
}

TEST_F(CudaNorm, WholeRowsTakeOneKernel) {
  const Device device = Device::cuda(0);
  const Tensor x = values(1, {2, 8, kLongest / 4 + 1}, DType::f32, device);
  const Tensor fits = slice(x, 2, 0, kLongest / 4).contiguous();
  EXPECT_EQ(launches_of([&] { return group_norm(fits, 2); }), 1U);
  EXPECT_EQ(launches_of([&] { return group_norm(x, 2); }), 3U) << "moments of pieces, of rows, result";
  EXPECT_EQ(launches_of([&] { return layer_norm(fits, {kLongest / 4}); }), 1U);
}

/// Whether the numbers are the same, zeros with their signs.
bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

/// The gradient of x of batch_norm in evaluation with and without those of the parameters, which alone take
/// the kernels that find sums.
void expect_lone_gradient(const Shape& shape, DType dtype, MemoryFormat format) {
  SCOPED_TRACE(::testing::Message() << to_string(shape) << " " << to_string(dtype));
  const Device device = Device::cuda(0);
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor x = values(1, shape, dtype, device).to(format);
  const Tensor grad = relu(values(2, shape, dtype, device)).to(format);  // many zeros
  const Tensor weight = values(3, {shape[1]}, compute, device), mean = values(4, {shape[1]}, compute, device);
  const Tensor variance = mean * mean + 0.5;
  weight[1].fill_(kInf);
  const auto gradient = [&](bool of_weight, bool of_bias, std::uint64_t kernels) {
    const ops::BatchNormBackwardAttrs attrs{{true, of_weight, of_bias, {}, compute}};
    Outputs found;
    EXPECT_EQ(
        launches_of([&] { return found = ops::batch_norm_backward(grad, x, mean, variance, weight, attrs); }),
        kernels);
    return found[0];
  };
  // 2: the functions of the rows, the result. With sums also statistics, pieces, and one per parameter.
  const Tensor alone = gradient(false, false, 2);
  EXPECT_TRUE(same_bits(alone, gradient(true, true, 6)));
  EXPECT_TRUE(same_bits(alone, gradient(true, false, 5)));
  EXPECT_TRUE(same_bits(alone, gradient(false, true, 5)));
}
TEST_F(CudaNorm, InEvaluationOnlyParametersTakeSums) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
      for (const Shape& shape : {Shape{2, 4, 5, 13}, Shape{2, 3, 7, 9}, Shape{1, 8, 1, 12300}})
        expect_lone_gradient(shape, dtype, format);
    }
  }
}

// Rows that registers do not hold, and many of them.
TEST_F(CudaNorm, ManyLongRows) {
  expect_same([](Device device, Trace& trace) {
    const Tensor x = values(1, {132, 4, kLongest / 2 + 1}, DType::f32, device);
    const Tensor weight = values(2, {4}, DType::f32, device), bias = values(3, {4}, DType::f32, device);
    trace.add("result", group_norm(x, 2, weight, bias), 4);
  });
}

}  // namespace
}  // namespace mezzo
