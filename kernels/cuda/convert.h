// Conversions between f32 and the 16-bit types in kernels, by the GPU's own instructions (of bf16 compute
// capability 8.0 and above has them): one per element or per pair of them, where core/float16.h takes up to
// 28 of integers. They round to nearest even and keep subnormals as those do. Of a NaN the hardware keeps
// neither sign nor payload:
//
// * `convert`, of one element, puts the sign back: a copy may not lose it (kernels/cpu/convert.h).
// * Pairs leave it out: f32 arithmetic on a GPU makes every NaN the same.
//
// Older GPUs, for bf16, and the emulated device take core/float16.h for both.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cuda {

/// `bits` with the sign, the bit of the mask `sign`, of `from`; in this form one instruction.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t with_sign(std::uint32_t bits, std::uint32_t from,
                                                                     std::uint32_t sign) {
  return ((bits ^ from) & sign) ^ bits;
}

/// cast<To>(x) on a device: a NaN becomes a quiet NaN of the same sign, with a payload that means nothing.
template <class To, class From>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE To convert(From x) {
#if defined(__CUDA_ARCH__)
  using mezzo::detail::bit_cast;
  if constexpr (std::is_same_v<From, float> && kernels::detail::kIs16Bit<To> &&
                (std::is_same_v<To, Half> || __CUDA_ARCH__ >= 800)) {
    std::uint16_t bits;
    if constexpr (std::is_same_v<To, Half>)
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    else
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return To::from_bits(
        static_cast<std::uint16_t>(with_sign(bits, bit_cast<std::uint32_t>(x) >> 16, 0x8000U)));
  } else if constexpr (std::is_same_v<From, Half> && !std::is_same_v<To, Half>) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    const std::uint32_t bits = bit_cast<std::uint32_t>(value);
    return cast<To>(bit_cast<float>(with_sign(bits, std::uint32_t{x.bits} << 16, 0x80000000U)));
  } else {
    return cast<To>(x);
  }
#else
  return cast<To>(x);
#endif
}

/// Two neighbouring elements of S in one word, the first in the lower half; each rounded once.
template <class S>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t pair_of(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  if constexpr (std::is_same_v<S, Half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  return convert<S>(first).bits | std::uint32_t{convert<S>(second).bits} << 16;
#endif
}
template <class S>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t pair_of(S first, S second) {
  return first.bits | std::uint32_t{second.bits} << 16;
}

/// Element 0 or 1 of a pair.
template <class S>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE S element_of(std::uint32_t pair, int k) {
  return S::from_bits(static_cast<std::uint16_t>(pair >> (16 * k)));
}

/// The elements of a pair as f32, which is exact.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void widen_pair(std::uint32_t pair, float& first, float& second) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<S, Half>) {
    asm("{\n"
        " .reg .b16 low, high;\n"
        " mov.b32 {low, high}, %2;\n"
        " cvt.f32.f16 %0, low;\n"
        " cvt.f32.f16 %1, high;\n"
        "}"
        : "=f"(first), "=f"(second)
        : "r"(pair));
  } else {
    first = mezzo::detail::bit_cast<float>(pair << 16);
    second = mezzo::detail::bit_cast<float>(pair & 0xffff0000U);
  }
#else
  first = cast<float>(element_of<S>(pair, 0));
  second = cast<float>(element_of<S>(pair, 1));
#endif
}

}  // namespace mezzo::kernels::cuda
