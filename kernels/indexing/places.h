// Elements of an array that indices choose, as kernels see them.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Place e is element index[e] * step of an array that starts at base[e].
struct Places {
  View base;               ///< stride 0 in the dims that the index decides about
  View index;              ///< i64, of the same shape
  std::int64_t step = 1;   ///< elements of the array from one index to the next
  std::int64_t limit = 0;  ///< indices are in [0, limit)

  [[nodiscard]] bool has(std::int64_t i) const { return i >= 0 && i < limit; }
};

/// Shape and the strides of some arrays, reduced to the dims listed in `dims` (or to all others).
template <std::size_t N>
struct Walk {
  Shape shape;
  std::array<Dims, N> strides;
};
template <std::size_t N>
[[nodiscard]] Walk<N> part_of(const std::array<const View*, N>& views, const Dims& dims, bool listed) {
  Walk<N> part;
  for (std::size_t d = 0; d < views[0]->shape.size(); ++d) {
    if (dims.contains(static_cast<std::int64_t>(d)) != listed) continue;
    part.shape.push_back(views[0]->shape[d]);
    for (std::size_t k = 0; k < N; ++k) part.strides[k].push_back(views[k]->strides[d]);
  }
  return part;
}

/// Positions of an array of indices, grouped by value. See find_index_runs.
struct IndexRuns {
  std::int64_t count, values;  ///< positions, and values from 0 on
  std::int64_t* order;         ///< [count]
  std::int64_t* first;         ///< [values]
  std::int64_t* last;          ///< [values]
};

/// Elements of a run that are added up on their own, counted from the run's first one, so that a run that
/// very many elements belong to is many threads' work. Elements behind the last whole piece are added one by
/// one.
inline constexpr std::int64_t kRunPiece = 128;
/// Slots of memory for the whole pieces of sorted runs of `count` elements together. Slot i is for the piece
/// that begins in block i of kRunPiece positions, in which no other whole piece begins.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::int64_t piece_slots(std::int64_t count) {
  return count / kRunPiece;
}
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::int64_t piece_slot(std::int64_t begin) {
  return begin / kRunPiece;
}
/// A position that every whole piece of that slot includes.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::int64_t piece_witness(std::int64_t slot) {
  return (slot + 1) * kRunPiece - 1;
}
/// Where the piece of this slot begins, if the run [first, last) includes the slot's witness; -1 where it is
/// not whole.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE constexpr std::int64_t piece_begin(std::int64_t slot,
                                                                              std::int64_t first,
                                                                              std::int64_t last) {
  const std::int64_t start = slot * kRunPiece;
  const std::int64_t before = start <= first ? 0 : (start - first + kRunPiece - 1) / kRunPiece;
  const std::int64_t begin = first + before * kRunPiece;
  return begin + kRunPiece <= last ? begin : -1;
}

/// How an element that falls on a place changes it. kInPieces: a device may combine whole pieces of a run
/// first (kRunPiece).
struct AssignTo {
  static constexpr bool kInPieces = false;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& place, T value) const {
    place = value;
  }
};
struct AddTo {
  static constexpr bool kInPieces = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& place, T value) const {
    place = scalar::AddFn{}(place, value);
  }
};

/// How put_combined joins a place and each element that falls on it; NaN stays.
enum class Combine : std::uint8_t { product, largest, smallest };
template <class Fn>
struct CombineWith {
  /// Products of pieces overflow sooner than the result, and 0 times that is NaN.
  static constexpr bool kInPieces = !std::is_same_v<Fn, scalar::MulFn>;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(T& place, T value) const {
    place = Fn{}(place, value);
  }
};
/// Calls f with the functor.
template <class F>
void with_combine(Combine how, const F& f) {
  if (how == Combine::product) return f(CombineWith<scalar::MulFn>{});
  if (how == Combine::largest) return f(CombineWith<scalar::MaximumFn>{});
  f(CombineWith<scalar::MinimumFn>{});
}

}  // namespace mezzo::kernels
