// 16-bit arrays on the device, which conversions take in pairs and loops in vectors of eight: the CPU's bits
// at every size and place at which vectors begin and end, beside arrays of other dtypes, and for all values.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/float16.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/cuda/twin.h"

namespace mezzo {
namespace {

using namespace twin;
using CudaHalfPacks = CudaTwin;

enum class NanSigns { compared, free };

/// Equal numbers of equal sign, or NaNs: copies keep the sign of those, arithmetic on a GPU does not.
void expect_equal_values(const Tensor& got, const Tensor& expected, const std::string& what,
                         NanSigns nans = NanSigns::free) {
  ASSERT_EQ(got.dtype(), expected.dtype()) << what;
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool nan = std::isnan(b[i]), same_sign = std::signbit(a[i]) == std::signbit(b[i]);
    const bool same =
        nan ? std::isnan(a[i]) && (same_sign || nans == NanSigns::free) : a[i] == b[i] && same_sign;
    ASSERT_TRUE(same) << what << ", element " << i << ": " << a[i] << " on the CUDA device, " << b[i]
                      << " on the CPU";
  }
}

/// `n` elements that begin `offset` elements behind an address that takes vectors.
Tensor placed(const Tensor& cpu_values, std::int64_t offset, Device device) {
  const std::int64_t n = cpu_values.numel();
  const Tensor place =
      slice(zeros({n + offset}, {.dtype = cpu_values.dtype(), .device = device}), 0, offset, offset + n);
  place.copy_(cpu_values.to(device));
  return place;
}

/// One result per op on `n` elements that begin at `offset`: kernels of one and two operands, arrays of one
/// and several dtypes, results of another dtype and into a place.
std::vector<Tensor> pointwise_results(std::int64_t n, std::int64_t offset, DType half, Device device) {
  const Tensor a = values(1, {n}, half, Device::cpu()), b = values(2, {n}, half, Device::cpu()),
               c = values(3, {n}, DType::f32, Device::cpu());
  const Tensor x = placed(a, offset, device), y = placed(b, 0, device), z = placed(c, offset, device);
  const Tensor written = placed(a, offset, device), wide = placed(c, 4, device);
  written.mul_(z);
  wide.add_(x);
  return {relu(x), add(x, y),        add(x, z), gt(x, y),   where(gt(x, y), x, y),     x * 0.5,
          written, x.to(DType::f32), wide,      z.to(half), z.to(DType::f64).to(half), maximum(z, z * 2.0)};
}

void expect_same_pointwise(std::int64_t n, std::int64_t offset, DType half) {
  const std::vector<Tensor> cpu = pointwise_results(n, offset, half, Device::cpu()),
                            cuda = pointwise_results(n, offset, half, Device::cuda(0));
  for (std::size_t k = 0; k < cpu.size(); ++k) {
    expect_equal_values(cuda[k], cpu[k],
                        "result " + std::to_string(k) + " of " + std::to_string(n) + " elements from " +
                            std::to_string(offset) + " on, " + std::string(to_string(half)));
  }
}

TEST_F(CudaHalfPacks, EverySizeAtWhichVectorsBeginAndEnd) {
  for (const DType half : {DType::f16, DType::bf16}) {
    for (const std::int64_t n :
         {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 255, 256, 257, 2047, 2049})
      expect_same_pointwise(n, 0, half);
  }
}
TEST_F(CudaHalfPacks, EveryPlaceInAVector) {
  for (const DType half : {DType::f16, DType::bf16}) {
    for (std::int64_t offset = 1; offset <= 9; ++offset) {
      for (const std::int64_t n : {3, 8, 29}) expect_same_pointwise(n, offset, half);
    }
  }
}
// A block takes 1024 elements, and less than that is one block of as many warps as it takes. Its second
// vector of f32, or of 16-bit elements in vectors of four, lies 512 behind the first, is there or not, and in
// the last block too.
TEST_F(CudaHalfPacks, ElementsAroundWholeBlocks) {
  for (const std::int64_t offset : {0, 4}) {
    for (const std::int64_t n :
         {508, 512, 516, 1020, 1023, 1024, 1025, 1028, 1032, 1535, 1536, 1540, 2052, 5123, 65537})
      expect_same_pointwise(n, offset, DType::f16);
  }
}

/// All bit patterns of a 16-bit type, as f32 on the CPU by core/float16.h.
template <class S>
Tensor all_patterns() {
  std::vector<S> patterns(1U << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = S::from_bits(static_cast<std::uint16_t>(i));
  return from_data<S>(patterns, {static_cast<std::int64_t>(patterns.size())});
}

TEST_F(CudaHalfPacks, EveryValueIsWidenedAsOnTheCpu) {
  for (const std::int64_t offset : {0, 1, 4}) {
    for (const Tensor& x : {all_patterns<Half>(), all_patterns<BFloat16>()}) {
      const Tensor on_device = placed(x, offset, Device::cuda(0));
      expect_equal_values(on_device.to(DType::f32), x.to(DType::f32), "widened", NanSigns::compared);
      expect_equal_values(relu(on_device), relu(x), "relu");
    }
  }
}

// These have a form of their own for 16 bits (kernels/math/float_parts.h, Fused), whose results are the CPU's
// for every argument.
TEST_F(CudaHalfPacks, MathOfEveryValueIsThatOfTheCpu) {
  const std::pair<const char*, Tensor (*)(const Tensor&)> ops[] = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu's tanh form", [](const Tensor& x) { return gelu(x, GeluApproximation::tanh); }}};
  for (const Tensor& x : {all_patterns<Half>(), all_patterns<BFloat16>()}) {
    for (const auto& [name, op] : ops) expect_equal_values(op(x.to(Device::cuda(0))), op(x), name);
  }
}

/// f32 values around every number of S: the number, its neighbours, the ties to both sides and their
/// neighbours, with either sign; infinities and NaNs.
template <class S>
Tensor around_every_number() {
  std::vector<float> numbers;
  for (std::uint32_t bits = 0; bits < 0x8000; ++bits) {
    const float number = static_cast<float>(S::from_bits(static_cast<std::uint16_t>(bits)));
    const float next = static_cast<float>(S::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float tie = std::isfinite(next) ? number + (next - number) / 2 : number;
    for (const float x : {number, tie}) {
      for (const float y : {x, std::nextafter(x, 0.0F), std::nextafter(x, HUGE_VALF)}) {
        numbers.push_back(y);
        numbers.push_back(-y);
      }
    }
  }
  for (const float x : {65519.996F, 65520.0F, 3.3961775e38F, 1e-45F, 1e-30F}) numbers.push_back(x);
  return from_data<float>(numbers, {static_cast<std::int64_t>(numbers.size())});
}

TEST_F(CudaHalfPacks, EveryRoundingIsThatOfTheCpu) {
  const Tensor cases[] = {around_every_number<Half>(), around_every_number<BFloat16>()};
  const DType dtypes[] = {DType::f16, DType::bf16};
  for (int k = 0; k < 2; ++k) {
    const Tensor expected = cases[k].to(dtypes[k]);
    // In vectors of eight, of four and one by one; and in arithmetic, which converts pairs.
    for (const std::int64_t offset : {0, 4, 1}) {
      const Tensor x = placed(cases[k], offset, Device::cuda(0));
      expect_equal_values(x.to(dtypes[k]), expected, "rounded from " + std::to_string(offset),
                          NanSigns::compared);
      const Tensor place = placed(zeros_like(expected), offset, Device::cuda(0));
      place.copy_(x);
      expect_equal_values(place, expected, "rounded to " + std::to_string(offset), NanSigns::compared);
    }
    const Tensor x = nan_to_num(cases[k], 1.0, 65536.0, -65536.0);
    const Tensor none = zeros({x.numel()}, {.dtype = dtypes[k]});
    expect_equal_values(none.to(Device::cuda(0)).add_(x.to(Device::cuda(0))), none.clone().add_(x), "0 + x");
  }
}

}  // namespace
}  // namespace mezzo
