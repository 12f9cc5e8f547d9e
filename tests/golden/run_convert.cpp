// Conversions between f32 and the 16-bit formats: every pattern of the file, bit for bit, through the public
// cast. A NaN only has to stay one.
#include <cmath>
#include <cstring>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "mezzo/core/float16.h"
#include "mezzo/ops/cast.h"

namespace mezzo::golden {

namespace {

template <class Bits>
Tensor tensor_of_bits(const std::vector<Bits>& bits, DType dtype) {
  const Tensor x = empty({static_cast<std::int64_t>(bits.size())}, {.dtype = dtype});
  std::memcpy(x.impl().data(), bits.data(), bits.size() * sizeof(Bits));
  return x.to(run_device());
}

template <class Bits>
std::vector<Bits> bits_of(const Tensor& converted) {
  const Tensor x = converted.to(Device::cpu());
  std::vector<Bits> bits(static_cast<std::size_t>(x.numel()));
  std::memcpy(bits.data(), x.impl().data(), bits.size() * sizeof(Bits));
  return bits;
}

/// All bits of the exponent set and some of the fraction.
template <class Bits>
bool is_nan(Bits bits, DType dtype) {
  const std::uint32_t exponent = dtype == DType::f32 ? 0x7F800000U : dtype == DType::f16 ? 0x7C00U : 0x7F80U;
  const std::uint32_t sign = dtype == DType::f32 ? 0x80000000U : 0x8000U;
  return (bits & ~sign) > exponent;
}

template <class From, class To>
void check(const CaseFile& file, const char* from_name, DType from, const char* to_name, DType to_dtype) {
  const auto inputs = io::copy_as<From>(file.raw(from_name));
  const auto want = io::copy_as<To>(file.raw(to_name));
  const Tensor converted = to(tensor_of_bits(inputs, from), to_dtype);
  expect_dtype(to_name, converted.dtype(), to_dtype);
  const std::vector<To> got = bits_of<To>(converted);
  if (want.empty() || got.size() != want.size()) throw Mismatch(std::string(to_name) + ": sizes differ");
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (is_nan(want[i], to_dtype) ? is_nan(got[i], to_dtype) : got[i] == want[i]) continue;
    throw Mismatch(std::string(to_name) + "[" + std::to_string(i) + "] of bits " + std::to_string(inputs[i]) +
                   ": got bits " + std::to_string(got[i]) + ", want " + std::to_string(want[i]));
  }
}

}  // namespace

void run_convert(const CaseFile& file, std::size_t /*index*/) {
  using Wide = std::uint32_t;
  using Narrow = std::uint16_t;
  check<Wide, Narrow>(file, "f32_bits", DType::f32, "f16_bits", DType::f16);
  check<Wide, Narrow>(file, "f32_bits", DType::f32, "bf16_bits", DType::bf16);
  check<Narrow, Wide>(file, "decode.bits", DType::f16, "decode.f16_as_f32_bits", DType::f32);
  check<Narrow, Wide>(file, "decode.bits", DType::bf16, "decode.bf16_as_f32_bits", DType::f32);
}

}  // namespace mezzo::golden
