// How a thread reads several elements of a reduction's input, all loads before the first conversion, which
// would wait for its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/reduce/cuda_plan.h"

namespace mezzo::kernels::cuda {

/// How the elements of an output can be read.
enum class ReduceReads : std::uint8_t {
  octets,  ///< neighbours in memory, in vectors
  steps,   ///< one distance apart, eight loads at once
  single,  ///< any other way, one by one
};

/// Whether load_octets<T> and load_steps<T> read arrays of the dtype: what a training step reduces, and T
/// itself.
template <class T>
[[nodiscard]] constexpr bool has_octets(DType dtype) {
  if (std::is_same_v<T, float>) return is_among(Among::packed, dtype);
  return dtype == dtype_of<T>;
}

/// Whether load_octets<T> may be used on runs of the array that begin `distance` elements apart, or at
/// several distances whose bits are joined by |.
template <class T>
[[nodiscard]] bool takes_octets(const Array& array, std::int64_t distance) {
  if (!has_octets<T>(array.dtype)) return false;
  const std::int64_t vector = std::min<std::int64_t>(16, kOctet * size_of(array.dtype));
  const auto address = reinterpret_cast<std::uintptr_t>(array.data);
  return address % static_cast<std::uintptr_t>(vector) == 0 && distance * size_of(array.dtype) % vector == 0;
}

/// Neighbours of type S that are loaded by one instruction: 16 bytes, or eight of one byte.
template <class S>
struct alignas(sizeof(S) == 1 ? 8 : 16) OctetVector {
  static constexpr int kCount = sizeof(S) == 1 ? 8 : 16 / static_cast<int>(sizeof(S));
  S values[kCount];
};

/// Eight neighbours, as they are in memory.
template <class S>
struct OctetOf {
  OctetVector<S> vectors[kOctet / OctetVector<S>::kCount];

  __device__ MEZZO_ALWAYS_INLINE explicit OctetOf(const S* from) {
    for (int v = 0; v < kOctet / OctetVector<S>::kCount; ++v)
      vectors[v] = reinterpret_cast<const OctetVector<S>*>(from)[v];
  }
  template <class T>
  __device__ MEZZO_ALWAYS_INLINE void get(T* values) const {
    constexpr int kCount = OctetVector<S>::kCount;
    for (int k = 0; k < kOctet; ++k) values[k] = cast<T>(vectors[k / kCount].values[k % kCount]);
  }
};
/// Eight neighbours of a 16-bit type, two to a word.
template <class S>
struct OctetPairs {
  RawWords<kOctet / 2> raw;

  __device__ MEZZO_ALWAYS_INLINE explicit OctetPairs(const S* from)
      : raw(*reinterpret_cast<const RawWords<kOctet / 2>*>(from)) {}
  template <class T>
  __device__ MEZZO_ALWAYS_INLINE void get(T* values) const {
    widen_words<S, NanSign::any>(raw.words, values);
  }
};

template <class S, class T, int kOctets, std::size_t... I>
__device__ MEZZO_ALWAYS_INLINE void load_octets_as(const S* from, std::int64_t distance, T* values,
                                                   std::index_sequence<I...> /*octets*/) {
  using Octet = std::conditional_t<kernels::detail::kIs16Bit<S>, OctetPairs<S>, OctetOf<S>>;
  const Octet octets[kOctets] = {Octet(from + static_cast<std::int64_t>(I) * distance)...};
  for (int o = 0; o < kOctets; ++o) octets[o].get(values + o * kOctet);
}

/// kOctets times eight elements of an array that takes octets: those from `first` on, from first + distance
/// on, and so forth.
template <class T, int kOctets>
__device__ MEZZO_ALWAYS_INLINE void load_octets(const Array& array, std::int64_t first, std::int64_t distance,
                                                T* values) {
  const auto load_as = [&](auto stored) {
    using S = decltype(stored);
    load_octets_as<S, T, kOctets>(static_cast<const S*>(array.data) + first, distance, values,
                                  std::make_index_sequence<kOctets>{});
  };
  if constexpr (std::is_same_v<T, float>)
    with_stored<Among::packed>(array.dtype, load_as);
  else
    load_as(T{});
}

/// Eight elements of an array of a dtype that has octets, `step` apart.
template <class T>
__device__ MEZZO_ALWAYS_INLINE void load_steps(const Array& array, std::int64_t first, std::int64_t step,
                                               T* values) {
  const auto load_as = [&](auto stored) {
    using S = decltype(stored);
    const S* from = static_cast<const S*>(array.data) + first;
    S elements[kOctet];
    for (int k = 0; k < kOctet; ++k) {
      elements[k] = *from;
      from += step;
    }
    for (int k = 0; k < kOctet; ++k) values[k] = convert<T>(elements[k]);
  };
  if constexpr (std::is_same_v<T, float>)
    with_stored<Among::packed>(array.dtype, load_as);
  else
    load_as(T{});
}

}  // namespace mezzo::kernels::cuda
