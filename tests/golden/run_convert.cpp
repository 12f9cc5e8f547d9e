// Conversions between f32 and the narrow formats: every pattern of the file, bit for bit, through the public
// cast. A NaN only has to stay one.
#include <cstring>
#include <string>
#include <utility>

#include "golden/compare.h"
#include "golden/kinds.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/optim/detail/packed_state.h"

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

/// The largest magnitude that is no NaN: infinity, where there is one.
std::uint32_t last_pattern(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x7C00U;
    case DType::bf16:
      return 0x7F80U;
    case DType::f8_e4m3:
      return 0x7EU;
    case DType::f8_e5m2:
      return 0x7CU;
    default:
      return 0x7F800000U;
  }
}
template <class Bits>
bool is_nan(Bits bits, DType dtype) {
  constexpr auto kMagnitude = static_cast<Bits>(static_cast<Bits>(-1) >> 1);
  return (bits & kMagnitude) > last_pattern(dtype);
}

template <class From, class To>
void check(const CaseFile& file, const std::string& from_name, DType from, const std::string& to_name,
           DType to_dtype) {
  const auto inputs = io::copy_as<From>(file.raw(from_name));
  const auto want = io::copy_as<To>(file.raw(to_name));
  const Tensor converted = to(tensor_of_bits(inputs, from), to_dtype);
  expect_dtype(to_name, converted.dtype(), to_dtype);
  const std::vector<To> got = bits_of<To>(converted);
  if (want.empty() || got.size() != want.size()) throw Mismatch(to_name + ": sizes differ");
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (is_nan(want[i], to_dtype) ? is_nan(got[i], to_dtype) : got[i] == want[i]) continue;
    throw Mismatch(to_name + "[" + std::to_string(i) + "] of bits " + std::to_string(inputs[i]) +
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

void run_convert_f8(const CaseFile& file, std::size_t /*index*/) {
  using Wide = std::uint32_t;
  using Narrow = std::uint16_t;
  using Byte = std::uint8_t;
  for (const auto& [name, dtype] :
       {std::pair{std::string("e4m3"), DType::f8_e4m3}, std::pair{std::string("e5m2"), DType::f8_e5m2}}) {
    check<Wide, Byte>(file, "f32", DType::f32, "f32." + name, dtype);
    check<Narrow, Byte>(file, "f16_bits", DType::f16, "f16." + name, dtype);
    check<Narrow, Byte>(file, "bf16_bits", DType::bf16, "bf16." + name, dtype);
    check<Byte, Wide>(file, "codes", dtype, "decode." + name, DType::f32);
  }
}

void run_split_masters(const CaseFile& file, std::size_t /*index*/) {
  const auto masters = io::copy_as<std::uint32_t>(file.raw("master"));
  const Tensor parameter = empty({std::ssize(masters)}, {.dtype = DType::bf16, .device = run_device()});
  const Tensor remainder = optim::split_masters(tensor_of_bits(masters, DType::f32), parameter);
  const auto same = [](const std::string& name, const auto& got, const auto& want) {
    if (got.size() != want.size()) throw Mismatch(name + ": sizes differ");
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (got[i] != want[i])
        throw Mismatch(name + "[" + std::to_string(i) + "]: got bits " + std::to_string(got[i]) + ", want " +
                       std::to_string(want[i]));
    }
  };
  using Narrow = std::uint16_t;
  same("parameter_bits", bits_of<Narrow>(parameter), io::copy_as<Narrow>(file.raw("parameter_bits")));
  same("remainder", bits_of<Narrow>(remainder), io::copy_as<Narrow>(file.raw("remainder")));
  same("master", bits_of<std::uint32_t>(optim::joined_masters(parameter, remainder)), masters);
}

}  // namespace mezzo::golden
