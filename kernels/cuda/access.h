// How a CUDA kernel reads and writes elements of any dtype as its compute type. The dtype is a run-time
// value, the same for a whole launch, so the switch costs a branch that never diverges, and one kernel serves
// all storage types.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "mezzo/core/dtype.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/convert.h"
#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cuda {

/// How many neighbours a thread loads at once: 16 bytes of f32, 8 of a 16-bit type.
inline constexpr int kPack = 4;

/// The dtypes an array may have. A kernel holds code for each of them, once per place that reads or writes.
enum class Among {
  stored,    ///< all of them
  all,       ///< all that ops compute with: not float8
  floating,  ///< f16, bf16, f32, f64
  packed,    ///< f16, bf16, f32, bool: what a training step reads and writes in f32 arithmetic
};

[[nodiscard]] constexpr bool is_among(Among among, DType dtype) {
  if (among == Among::packed) return dtype <= DType::f32 || dtype == DType::boolean;
  if (among == Among::floating) return dtype <= DType::f64;
  return among == Among::stored || !is_float8(dtype);
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
    if constexpr (kAmong == Among::stored) {
      if (dtype == DType::f8_e4m3) return f(Float8E4M3{});
      if (dtype == DType::f8_e5m2) return f(Float8E5M2{});
    }
    if constexpr (kAmong == Among::all || kAmong == Among::stored) {
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
    return convert<T>(static_cast<const S*>(array)[i]);
  });
}

/// Element `i` of an array of `dtype` = value, rounded once. T may be bool.
template <class T, Among kAmong = Among::all>
__device__ MEZZO_ALWAYS_INLINE void store(void* array, DType dtype, std::int64_t i, T value) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    static_cast<S*>(array)[i] = convert<S>(static_cast<From>(value));
  });
}

/// Four neighbours of type S, moved by one instruction.
template <class S>
struct alignas(sizeof(S) * kPack) Pack {
  S values[kPack];
};
/// Two or four words of an array of any type, moved by one instruction.
template <int kWords>
struct alignas(4 * kWords) RawWords {
  std::uint32_t words[kWords];
} __attribute__((may_alias));

/// Whether an array begins at a multiple of `elements` of them.
[[nodiscard]] inline bool is_aligned_to(const Array& array, std::int64_t elements) {
  const auto bytes = static_cast<std::uintptr_t>(elements * size_of(array.dtype));
  return reinterpret_cast<std::uintptr_t>(array.data) % bytes == 0;
}
/// Whether load_pack and store_pack may be used on the array.
[[nodiscard]] inline bool takes_packs(const Array& array) { return is_aligned_to(array, kPack); }
[[nodiscard]] constexpr bool is_16_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// Whether a NaN keeps its sign on its way between f32 and 16 bits: see kernels/cuda/convert.h.
enum class NanSign { any, kept };

/// Elements of a 16-bit type S, two to a word, as T.
template <class S, NanSign kSign, int kWords, class T>
__device__ MEZZO_ALWAYS_INLINE void widen_words(const std::uint32_t (&words)[kWords], T* values) {
  for (int w = 0; w < kWords; ++w) {
    if constexpr (std::is_same_v<T, float> && kSign == NanSign::any) {
      widen_pair<S>(words[w], values[2 * w], values[2 * w + 1]);
    } else {
      for (int k = 0; k < 2; ++k) values[2 * w + k] = convert<T>(element_of<S>(words[w], k));
    }
  }
}
/// The reverse, each element rounded once. T may be bool.
template <class S, NanSign kSign, int kWords, class T>
__device__ MEZZO_ALWAYS_INLINE void narrow_words(const T* values, std::uint32_t (&words)[kWords]) {
  using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  for (int w = 0; w < kWords; ++w) {
    if constexpr (std::is_same_v<T, float> && kSign == NanSign::any) {
      words[w] = pair_of<S>(values[2 * w], values[2 * w + 1]);
    } else {
      words[w] = pair_of(convert<S>(static_cast<From>(values[2 * w])),
                         convert<S>(static_cast<From>(values[2 * w + 1])));
    }
  }
}

/// Elements 4 i to 4 i + 3 of an array that is aligned to four of them.
template <class T, Among kAmong>
__device__ MEZZO_ALWAYS_INLINE void load_pack(const void* array, DType dtype, std::int64_t i, T* values) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    if constexpr (kernels::detail::kIs16Bit<S>) {
      const RawWords<kPack / 2> raw = static_cast<const RawWords<kPack / 2>*>(array)[i];
      widen_words<S, NanSign::any>(raw.words, values);
    } else {
      const Pack<S> pack = static_cast<const Pack<S>*>(array)[i];
      for (int k = 0; k < kPack; ++k) values[k] = cast<T>(pack.values[k]);
    }
  });
}

/// The reverse of load_pack, each element rounded once.
template <class T, Among kAmong>
__device__ MEZZO_ALWAYS_INLINE void store_pack(void* array, DType dtype, std::int64_t i, const T* values) {
  with_stored<kAmong>(dtype, [&](auto stored) {
    using S = decltype(stored);
    if constexpr (kernels::detail::kIs16Bit<S>) {
      RawWords<kPack / 2> raw;
      narrow_words<S, NanSign::any>(values, raw.words);
      static_cast<RawWords<kPack / 2>*>(array)[i] = raw;
    } else {
      using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      Pack<S> pack;
      for (int k = 0; k < kPack; ++k) pack.values[k] = cast<S>(static_cast<From>(values[k]));
      static_cast<Pack<S>*>(array)[i] = pack;
    }
  });
}

/// Two packs of four that a thread moves in one step: two loads in flight, or, of 16-bit elements that are
/// joined, one of 16 bytes. They may be the same pack, with the same values.
struct TwoPacks {
  std::int64_t first, second;
  bool joined;  ///< second is first + 1, first is even, and 16-bit arrays are aligned to eight elements
};

/// The elements of two packs, eight of them.
template <class T, Among kAmong, NanSign kSign>
__device__ MEZZO_ALWAYS_INLINE void load_two_packs(const Array& array, const TwoPacks& at, T* values) {
  with_stored<kAmong>(array.dtype, [&](auto stored) {
    using S = decltype(stored);
    if constexpr (kernels::detail::kIs16Bit<S>) {
      RawWords<kPack> raw;
      if (at.joined) {
        raw = static_cast<const RawWords<kPack>*>(array.data)[at.first / 2];
      } else {
        const auto* const packs = static_cast<const RawWords<kPack / 2>*>(array.data);
        const RawWords<kPack / 2> first = packs[at.first], second = packs[at.second];
        for (int w = 0; w < kPack / 2; ++w) {
          raw.words[w] = first.words[w];
          raw.words[kPack / 2 + w] = second.words[w];
        }
      }
      widen_words<S, kSign>(raw.words, values);
    } else {
      const auto* const packs = static_cast<const Pack<S>*>(array.data);
      const Pack<S> first = packs[at.first], second = packs[at.second];
      for (int k = 0; k < kPack; ++k) values[k] = cast<T>(first.values[k]);
      for (int k = 0; k < kPack; ++k) values[kPack + k] = cast<T>(second.values[k]);
    }
  });
}

/// The reverse of load_two_packs, each element rounded once.
template <class T, Among kAmong, NanSign kSign>
__device__ MEZZO_ALWAYS_INLINE void store_two_packs(const Array& array, const TwoPacks& at, const T* values) {
  with_stored<kAmong>(array.dtype, [&](auto stored) {
    using S = decltype(stored);
    if constexpr (kernels::detail::kIs16Bit<S>) {
      RawWords<kPack> raw;
      narrow_words<S, kSign>(values, raw.words);
      if (at.joined) {
        static_cast<RawWords<kPack>*>(array.data)[at.first / 2] = raw;
        return;
      }
      auto* const packs = static_cast<RawWords<kPack / 2>*>(array.data);
      packs[at.first] = {{raw.words[0], raw.words[1]}};
      packs[at.second] = {{raw.words[2], raw.words[3]}};
    } else {
      using From = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      Pack<S> first, second;
      for (int k = 0; k < kPack; ++k) first.values[k] = cast<S>(static_cast<From>(values[k]));
      for (int k = 0; k < kPack; ++k) second.values[k] = cast<S>(static_cast<From>(values[kPack + k]));
      auto* const packs = static_cast<Pack<S>*>(array.data);
      packs[at.first] = first;
      packs[at.second] = second;
    }
  });
}

}  // namespace mezzo::kernels::cuda
