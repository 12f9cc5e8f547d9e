// Float8 tensors on a CUDA device: codes and scales against the CPU's as bits, casts and copies. A NaN only
// has to stay one.
#include "mezzo/ops/float8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/twin.h"
#include "mezzo/kernels/quantize/quantize.h"

namespace mezzo {
namespace {

using namespace twin;
using CudaFloat8 = CudaTwin;

constexpr DType kFormats[] = {DType::f8_e4m3, DType::f8_e5m2};
constexpr DType kSources[] = {DType::f32, DType::f16, DType::bf16};
constexpr DType kAll[] = {DType::f16, DType::bf16,    DType::f32,     DType::f64,
                          DType::i8,  DType::i16,     DType::i32,     DType::i64,
                          DType::u8,  DType::boolean, DType::f8_e4m3, DType::f8_e5m2};

const Device kGpu = Device::cuda(0);

/// The bytes of a float8 tensor, every NaN as 0x7f.
std::vector<int> codes_of(const Tensor& x) {
  const Tensor host = x.to(Device::cpu()).contiguous();
  const auto* const bytes = static_cast<const std::uint8_t*>(host.impl().data());
  std::vector<int> result(bytes, bytes + host.numel());
  for (int& code : result) {
    const bool nan = x.dtype() == DType::f8_e4m3 ? (code & 0x7f) == 0x7f : (code & 0x7f) > 0x7c;
    if (nan) code = 0x7f;
  }
  return result;
}

std::vector<std::uint32_t> bits_of(const Tensor& x) {
  std::vector<std::uint32_t> result;
  for (const float value : x.to(Device::cpu()).to_vector<float>())
    result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

/// Numbers of all magnitudes that the dtype has, subnormals and zeros too.
Tensor wide_values(std::uint64_t seed, const Shape& shape, DType dtype) {
  const double range = dtype == DType::f16 ? 12 : 25;  // of exponents of e
  const Tensor signs = values(seed, shape, DType::f64, Device::cpu());
  const Tensor sizes = exp(values(seed + 1, shape, DType::f64, Device::cpu()) * range - 5);
  return (signs * sizes).to(dtype);
}

/// Codes, scales and inverses of `x`, a CPU tensor, on both devices, element `skip` being the first.
void expect_same_codes(const Tensor& x, const QuantizeF8Options& options, std::int64_t skip = 0) {
  const auto part = [&](const Tensor& all) { return skip == 0 ? all : slice(all, 0, skip); };
  const QuantizedF8 want = quantize_f8(part(x), options), got = quantize_f8(part(x.to(kGpu)), options);
  ASSERT_EQ(got.codes.shape(), want.codes.shape());
  EXPECT_EQ(bits_of(got.scale), bits_of(want.scale));
  EXPECT_EQ(bits_of(got.inverse), bits_of(want.inverse));
  EXPECT_EQ(codes_of(got.codes), codes_of(want.codes));
}

/// With every format and kind of scale.
void expect_same_codes_in_all_ways(const Tensor& x, std::int64_t skip = 0) {
  for (const DType format : kFormats) {
    for (const bool power_of_two : {false, true}) {
      for (const bool per_row : {false, true}) {
        if (per_row && x.dim() == 0) continue;
        SCOPED_TRACE(to_string(x.dtype()) + " " + to_string(x.shape()) + " from " + std::to_string(skip) +
                     " to " + to_string(format) + (power_of_two ? ", powers of two" : "") +
                     (per_row ? ", per row" : ""));
        expect_same_codes(x, {.dtype = format, .power_of_two = power_of_two, .per_row = per_row}, skip);
      }
    }
  }
}

TEST_F(CudaFloat8, CodesAndScalesHaveTheBitsOfTheCpu) {
  for (const DType dtype : kSources) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{3, 7}, Shape{4, 16},
                               Shape{2, 3, 33}, Shape{0, 4}, Shape{4, 0}, Shape{1030}})
      expect_same_codes_in_all_ways(wide_values(1, shape, dtype));
    // Of many blocks, whose elements come in packs or one by one.
    expect_same_codes(wide_values(3, {50000}, dtype), {});
    expect_same_codes(wide_values(3, {3, 20001}, dtype), {.dtype = DType::f8_e5m2, .per_row = true});
    expect_same_codes(wide_values(3, {3, 20000}, dtype), {.dtype = DType::f8_e5m2, .per_row = true});
    expect_same_codes(wide_values(3, {3000, 3}, dtype), {.per_row = true});
  }
}

TEST_F(CudaFloat8, MemoryThatBeginsAnywhere) {
  for (const DType dtype : kSources) {
    for (const std::int64_t skip : {1, 2, 3})
      expect_same_codes_in_all_ways(wide_values(1, {1030}, dtype), skip);
    // Rows of which every other one begins at a pack.
    expect_same_codes_in_all_ways(wide_values(1, {6, 18}, dtype), 1);
  }
}

TEST_F(CudaFloat8, SpecialNumbersHaveTheCodesOfTheCpu) {
  for (const DType dtype : kSources) {
    const std::int64_t largest_exponent = dtype == DType::f16 ? 15 : 127;
    for (const double special : {kInf, -kInf, kNan, 0.0, std::ldexp(1.9, static_cast<int>(largest_exponent)),
                                 0x1p-149, 0x1p-24, 0x1p-126}) {
      for (const std::int64_t at : {0, 6, 32}) {
        for (const bool alone : {false, true}) {
          const Tensor x = alone ? zeros({33}, {.dtype = dtype}) : wide_values(7, {33}, dtype);
          set_element(x, at, special);
          expect_same_codes_in_all_ways(x);
        }
      }
    }
  }
}

TEST_F(CudaFloat8, ValuesAtTheBordersOfRounding) {
  // The scale is 1, as one is infinite or the largest is the format's: ties, overflow, subnormals.
  for (const DType format : kFormats) {
    for (const double top : {format == DType::f8_e4m3 ? 448.0 : 57344.0, kInf}) {
      std::vector<float> all{static_cast<float>(top)};
      const float most = format == DType::f8_e4m3 ? 448.0F : 57344.0F;
      for (float x = 0x1p-18F; x < 0x1p17F; x *= 2) {
        for (const float steps : {1.0F, 1.0625F, 1.125F, 1.1875F, 1.375F, 1.875F, 1.9375F}) {
          for (const float value : {x * steps, std::nextafter(x * steps, 0.0F), -x * steps}) {
            if (top == kInf || std::abs(value) <= most) all.push_back(value);
          }
        }
      }
      const Tensor x = tensor(all);
      EXPECT_EQ(quantize_f8(x, {.dtype = format}).scale.item<float>(), 1.0F);
      expect_same_codes(x, {.dtype = format});
    }
  }
}

/// Codes and scale of x, which counts as rounded, from the kernel itself.
void quantize_rounded(const Tensor& x, DType rounded, DType format, std::vector<int>& codes,
                      std::vector<std::uint32_t>& scales) {
  const Tensor to = empty(x.shape(), {.dtype = format, .device = x.device()}),
               scale = empty({2}, {.device = x.device()});
  auto* const numbers = static_cast<float*>(scale.impl().data());
  kernels::quantize_float8(x.device(), {.x = x.impl().data(),
                                        .dtype = x.dtype(),
                                        .rounded = rounded,
                                        .rows = 1,
                                        .columns = x.numel(),
                                        .format = format,
                                        .codes = to.impl().data(),
                                        .scale = numbers,
                                        .inverse = numbers + 1});
  codes = codes_of(to), scales = bits_of(scale);
}

TEST_F(CudaFloat8, ElementsAreRoundedToTheRegionsDtypeFirst) {
  for (const DType rounded : {DType::f16, DType::bf16, DType::f32}) {
    for (const DType dtype : kSources) {
      for (const std::int64_t count : {1, 37, 20000}) {
        const Tensor x = wide_values(9, {count}, dtype);
        std::vector<int> want, got;
        std::vector<std::uint32_t> want_scales, scales;
        quantize_rounded(x, rounded, DType::f8_e4m3, want, want_scales);
        quantize_rounded(x.to(kGpu), rounded, DType::f8_e4m3, got, scales);
        EXPECT_EQ(got, want) << to_string(rounded) << to_string(dtype) << count;
        EXPECT_EQ(scales, want_scales) << to_string(rounded) << to_string(dtype) << count;
      }
    }
  }
}

TEST_F(CudaFloat8, DequantizedValuesAreTheCpus) {
  for (const DType format : kFormats) {
    for (const bool per_row : {false, true}) {
      for (const Shape& shape : {Shape{4, 16}, Shape{5, 33}, Shape{2, 9001}, Shape{0, 3}}) {
        const QuantizedF8 q =
            quantize_f8(values(1, shape, DType::f32, Device::cpu()), {.dtype = format, .per_row = per_row});
        for (const DType dtype : kSources) {
          const Tensor want = dequantize_f8(q.codes, q.inverse, dtype),
                       got = dequantize_f8(q.codes.to(kGpu), q.inverse.to(kGpu), dtype);
          EXPECT_EQ(got.dtype(), dtype);
          EXPECT_EQ(got.to_vector<double>(), want.to_vector<double>()) << to_string(shape);
          const Tensor wide = q.codes.to(DType::f32);
          for (const Device device : {Device::cpu(), kGpu})
            EXPECT_EQ(dequantize_f8(wide.to(device), q.inverse.to(device), dtype).to_vector<double>(),
                      want.to_vector<double>());
        }
      }
    }
  }
}

TEST_F(CudaFloat8, AllCodesAndAllDtypesAreCastAsOnTheCpu) {
  std::vector<double> numbers;
  for (const double x :
       {0.0,     1.0,     1.0625,  1.1875, 3.0,     100.0,     447.0,   448.0,   464.0, 465.0, 1e9,
        57344.0, 61439.0, 61440.0, 0x1p-9, 0x1p-10, 0x1.8p-10, 0x1p-16, 0x1p-17, kInf,  kNan})
    numbers.push_back(x), numbers.push_back(-x);
  for (const DType format : kFormats) {
    const Tensor all = empty({256}, {.dtype = format});
    for (int code = 0; code < 256; ++code)
      static_cast<std::uint8_t*>(all.impl().data())[code] = static_cast<std::uint8_t>(code);
    EXPECT_EQ(codes_of(all.to(kGpu)), codes_of(all));
    for (const DType dtype : kAll) {
      SCOPED_TRACE(to_string(format) + " " + to_string(dtype));
      const Tensor want = all.to(dtype), got = all.to(kGpu).to(dtype).to(Device::cpu());
      if (is_float8(dtype)) {
        EXPECT_EQ(codes_of(got), codes_of(want));
      } else {
        const auto a = got.to_vector<double>(), b = want.to_vector<double>();
        for (std::size_t i = 0; i < a.size(); ++i)
          EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << i;
      }
      const bool floating = is_floating(dtype) && !is_float8(dtype);
      const Tensor x = floating ? tensor(numbers).to(dtype) : arange(300).to(dtype);
      EXPECT_EQ(codes_of(x.to(kGpu).to(format)), codes_of(x.to(format)));
    }
  }
}

TEST_F(CudaFloat8, ViewsAndCopies) {
  for (const DType format : kFormats) {
    const Tensor x = wide_values(5, {7, 12}, DType::f32).to(format), on_device = x.to(kGpu);
    EXPECT_EQ(codes_of(transpose(on_device, 0, 1).contiguous()), codes_of(transpose(x, 0, 1).contiguous()));
    EXPECT_EQ(codes_of(slice(on_device, 1, 1, 10, 3).contiguous()),
              codes_of(slice(x, 1, 1, 10, 3).contiguous()));
    EXPECT_EQ(codes_of(slice(on_device, 0, 2).clone()), codes_of(slice(x, 0, 2).clone()));
  }
}

}  // namespace
}  // namespace mezzo
