// How a CUDA kernel reads and writes elements of any dtype as its compute type. The dtype is a run-time
// value, the same for a whole launch, so the switch costs a branch that never diverges, and one kernel serves
// all storage types.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "mezzo/core/dtype.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cuda {

/// How many neighbours a thread loads at once: 16 bytes of f32, 8 of a 16-bit type.
inline constexpr int kPack = 4;

/// What dtypes an array may have. A kernel holds code for each of them, once per place that reads or writes.
enum class Among {
  all,
  floating,  ///< f16, bf16, f32, f64
  packed,    ///< f16, bf16, f32, bool: what a training step reads and writes in f32 arithmetic
};

[[nodiscard]] constexpr bool is_among(Among among, DType dtype) {
  if (among == Among::packed) return dtype <= DType::f32 || dtype == DType::boolean;
  return among == Among::all || dtype <= DType::f64;
}

/// Calls f with a value of the stored type of `dtype`, which must be one of kAmong.
template <Among kAmong = Among::all, class F>
__device__ MEZZO_ALWAYS_INLINE decltype(auto) with_stored(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f32:
      return f(float{});
    default:
      break;
  }
  if constexpr (kAmong == Among::floating) {
    return f(double{});
  } else {
    if constexpr (kAmong == Among::all) {
      switch (dtype) {
        case DType::f64:
          return f(double{});
        case DType::i8:
          return f(std::int8_t{});
        case DType::i16:
          return f(std::int16_t{});
        case DType::i32:
          return f(std::int32_t{});
        case DType::i64:
          return f(std::int64_t{});
        case DType::u8:
          return f(std::uint8_t{});
        default:
          break;
      }
    }
    return f(BoolByte{});
  }
}

/// Element `i` of an array of `dtype`, as T.
template <class T, Among kAmong = Among::all>
__device__ MEZZO_ALWAYS_INLINE T load(const void* array, DType dtype, std::int64_t i) {
  return with_stored<kAmong>(dtype, [&](auto stored) -> T {
    using S = decltype(stored);
    return cast<T>(static_cast<const S*>(array)[i]);
  });
}

/// Element `i` of an array of `dtype` = value, rounded once. T may be bool.
template <class T, Among kAmong = Among::all>
__device__ MEZZO_ALWAYS_INLINE void store(void* array, DType dtype, std::int64_t i, T value) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    static_cast<S*>(array)[i] = cast<S>(static_cast<From>(value));
  });
}

/// Four neighbours of type S, moved by one instruction.
template <class S>
struct alignas(sizeof(S) * kPack) Pack {
  S values[kPack];
};

/// Whether load_pack and store_pack may be used on the array.
[[nodiscard]] inline bool takes_packs(const Array& array) {
  const auto bytes = static_cast<std::uintptr_t>(kPack * size_of(array.dtype));
  return reinterpret_cast<std::uintptr_t>(array.data) % bytes == 0;
}

/// Elements 4 i to 4 i + 3 of an array that is aligned to four of them.
template <class T, Among kAmong>
__device__ MEZZO_ALWAYS_INLINE void load_pack(const void* array, DType dtype, std::int64_t i, T* values) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    const Pack<S> pack = static_cast<const Pack<S>*>(array)[i];
    for (int k = 0; k < kPack; ++k) values[k] = cast<T>(pack.values[k]);
  });
}

/// The reverse of load_pack, each element rounded once.
template <class T, Among kAmong>
__device__ MEZZO_ALWAYS_INLINE void store_pack(void* array, DType dtype, std::int64_t i, const T* values) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    Pack<S> pack;
    for (int k = 0; k < kPack; ++k) pack.values[k] = cast<S>(static_cast<From>(values[k]));
    static_cast<Pack<S>*>(array)[i] = pack;
  });
}

}  // namespace mezzo::kernels::cuda
