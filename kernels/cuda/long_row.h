// A row that is too long for registers, or whose packs are not whole: a block takes it a chunk at a time,
// each in registers as a RegisterRow is, so that the loads of a chunk are in flight together. Every pass
// reads the row again, from the cache where that holds it.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/kernels/cuda/register_row.h"
#include "mezzo/kernels/softmax/softmax_math.h"

namespace mezzo::kernels::cuda {

/// The largest of some numbers, and the sum of exp(x - max) over them.
template <class T>
struct RowStatistics {
  T max, sum;
};

/// A row of N arrays whose inputs are those from kFirst on. See StreamedRow for what its members do.
template <std::size_t N, std::size_t kFirst>
class LongRow : public RowOfThreads<N> {
  /// Packs of each input that a thread has of a chunk: of several inputs fewer, for want of registers.
  static constexpr int kSlots = kRowSlots / static_cast<int>(N - kFirst);
  using Chunk = RegisterRow<N, kFirst, kSlots, RowPacks::shifted>;

 public:
  struct Place {
    const Chunk& chunk;
    typename Chunk::Place in_chunk;
    std::int64_t at;
    [[nodiscard]] __device__ bool is(std::int64_t i) const { return at == i; }
  };
  using Number = float;
  using ThreadSum = double;

  __device__ LongRow(const RowArrays<N>& all, std::int64_t row) : RowOfThreads<N>(all) {
    all.rows.offsets(row, start_);
  }

  template <std::size_t kArray>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE float get(const Place& place) const {
    return place.chunk.template get<kArray>(place.in_chunk);
  }
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void each(const F& f, const Along&... along) const {
    each_chunk([&](const Chunk& chunk, std::int64_t begin) {
      chunk.each(
          [&](const auto& place, auto... values) {
            f(Place{chunk, place, begin + place.at}, values...);
          },
          from(along, begin)...);
    });
  }
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void write(const F& f, const Along&... along) const {
    each_chunk([&](const Chunk& chunk, std::int64_t begin) {
      chunk.write(
          [&](const auto& place, auto... values) {
            return f(Place{chunk, place, begin + place.at}, values...);
          },
          from(along, begin)...);
    });
  }
  template <class F>
  [[nodiscard]] __device__ F kept(const F& f) {
    return f;
  }
  /// row_statistics() in one pass: a thread brings what it has added up to the larger maximum once a chunk.
  template <class X>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE RowStatistics<float> statistics(const X& x) const {
    Terms all;
    each_chunk([&](const Chunk& chunk, std::int64_t begin) {
      Terms terms{all.max, 0};
      chunk.each([&](const auto& in) {
        terms.max = LargerTerm{}(terms.max, x(Place{chunk, in, begin + in.at}));
      });
      float sum = 0;
      const scalar::ExpMinusFn<float> term{terms.shift()};
      chunk.each([&](const auto& in) { sum += term(x(Place{chunk, in, begin + in.at})); });
      terms.sum = static_cast<double>(sum);
      all = join(all, terms);
    });
    all = this->reduce(all, [](const Terms& a, const Terms& b) { return join(a, b); });
    return {all.max, static_cast<float>(all.sum)};
  }

 private:
  using RowOfThreads<N>::all_, RowOfThreads<N>::start_;

  /// RowStatistics of a part of the row.
  struct Terms {
    float max = -std::numeric_limits<float>::infinity();
    double sum = 0;
    /// What terms are taken relative to: of numbers that are all -inf not their maximum, as -inf - -inf is
    /// NaN.
    [[nodiscard]] __device__ float shift() const {
      return max == -std::numeric_limits<float>::infinity() ? 0.0F : max;
    }
  };
  [[nodiscard]] static __device__ Terms join(const Terms& a, const Terms& b) {
    Terms both{LargerTerm{}(a.max, b.max), 0};
    const scalar::ExpMinusFn<float> factor{both.shift()};
    both.sum = a.sum * static_cast<double>(factor(a.max)) + b.sum * static_cast<double>(factor(b.max));
    return both;
  }

  /// f(chunk, where it begins in the row) for the whole row. Where chunks begin, a pack does: the first one
  /// up to three places before the row.
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE void each_chunk(const F& f) const {
    const std::int64_t most = std::int64_t{kSlots} * kPack * blockDim.x;
    const std::int64_t shift = start_[0] & (kPack - 1);
    MEZZO_KEEP_DEVICE_LOOP
    for (std::int64_t begin = -shift; begin < all_.length; begin += most) {
      const std::int64_t left = all_.length - begin;
      f(Chunk(all_, start_, begin, begin < 0 ? shift : 0, left < most ? left : most), begin);
    }
  }
  [[nodiscard]] static __device__ Alike<float> from(const Alike<float>& along, std::int64_t begin) {
    return {along.data != nullptr ? along.data + begin : nullptr, along.otherwise};
  }
};

}  // namespace mezzo::kernels::cuda
