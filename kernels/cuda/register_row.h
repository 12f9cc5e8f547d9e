// A row in registers: each thread of a warp or block reads its elements once, as packs of neighbours by one
// vector load each, and keeps them. For f32 computed from f16, bf16 or f32.
//
// What makes the compiler use registers: all loops over slots are unrolled, and everything here is inlined.
// `-Xptxas -v` shows a stack frame where that failed.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/row_plan.h"
#include "mezzo/kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

static_assert(kRowPack == kPack && kMostRowThreads <= 1024);

/// A contiguous array of the compute type that goes along every row (weights); all `otherwise` if nullptr.
template <class T>
struct Alike {
  const T* data;
  T otherwise;
};

/// Calls f with a value of the stored type: float, Half or BFloat16.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void with_narrow(DType dtype, const F& f) {
  if (dtype == DType::f32)
    f(float{});
  else if (dtype == DType::f16)
    f(Half{});
  else
    f(BFloat16{});
}

namespace detail {

/// One element of an array of any type.
template <class Bits>
struct RawBits {
  Bits bits;
} __attribute__((may_alias));

/// Four elements, as RowSlots::load left them in words, as floats. 16-bit elements are two to a word.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void widen(const std::uint32_t (&words)[kPack], float* values) {
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) {
    if constexpr (sizeof(S) == 4)
      values[j] = mezzo::detail::bit_cast<float>(words[j]);
    else if (j % 2 == 0)
      widen_pair<S>(words[j / 2], values[j], values[j + 1]);
  }
}

/// Four floats as words, the reverse.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void narrow(const float* values, std::uint32_t* words) {
  MEZZO_UNROLL
  for (int j = 0; j < kPack; ++j) {
    if constexpr (sizeof(S) == 4)
      words[j] = mezzo::detail::bit_cast<std::uint32_t>(values[j]);
    else if (j % 2 == 0)
      words[j / 2] = pair_of<S>(values[j], values[j + 1]);
  }
}

}  // namespace detail

/// The layout of the rows that a kernel is compiled for.
enum class RowPacks {
  packed,  ///< RowArrays::packed is true
  /// RowArrays::joined is true. Slots 2 s and 2 s + 1 are neighbours too, both full or both empty, and 16-bit
  /// elements of both are one vector.
  joined,
  shifted,  ///< RowArrays::shifted is true; of LongRow alone
};

/// Which elements of a row are this thread's: slot s holds four neighbours, at at(s, 0) to at(s, 3). Packed
/// rows have a length that is a multiple of four, so that a slot is full or empty. All are below 2^14: int
/// suffices.
template <RowPacks kPacks>
class RowSlots {
  static constexpr bool kJoined = kPacks == RowPacks::joined, kShifted = kPacks == RowPacks::shifted;

 public:
  /// `first`: the least place with an element, of shifted rows.
  __device__ explicit RowSlots(std::int64_t length, std::int64_t first = 0)
      : length_(static_cast<int>(length)), first_(static_cast<int>(first)) {}
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE int at(int slot, int j) const {
    const int size = static_cast<int>(blockDim.x), rank = static_cast<int>(threadIdx.x);
    if (kJoined) return (slot / 2 * size + rank) * 2 * kPack + slot % 2 * kPack + j;
    return (slot * size + rank) * kPack + j;
  }
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE bool has(int slot, int j) const {
    if (kJoined) return at(slot / 2 * 2, 0) < length_;
    if (kShifted) return at(slot, j) >= first_ && at(slot, j) < length_;
    return at(slot, 0) < length_;
  }

  /// The raw bits of all elements, as many words per slot as they fill. Absent elements are zeros. `row`
  /// points at element 0.
  template <class Bits, int kSlots>
  __device__ MEZZO_ALWAYS_INLINE void load(const void* row, std::uint32_t (&words)[kSlots][kPack]) const {
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) words[s][j] = 0;
    }
    if constexpr (kJoined)
      load_joined<Bits>(row, words);
    else if constexpr (kShifted)
      load_shifted<Bits>(row, words);
    else
      load_packed<Bits>(row, words);
  }
  /// Elements of kCount slots from `slot` on (two if joined) = values, each rounded once.
  template <class S, int kCount>
  __device__ MEZZO_ALWAYS_INLINE void store(void* row, int slot, const float* values) const {
    constexpr int kWords = kPack * static_cast<int>(sizeof(S)) / 4;
    std::uint32_t words[kCount * kWords];
    MEZZO_UNROLL
    for (int s = 0; s < kCount; ++s) detail::narrow<S>(values + s * kPack, words + s * kWords);
    if constexpr (kJoined && sizeof(S) == 2) {
      static_assert(kCount == 2);
      if (has(slot, 0))
        static_cast<RawWords<kPack>*>(row)[at(slot, 0) / (2 * kPack)] = {
            {words[0], words[1], words[2], words[3]}};
    } else {
      MEZZO_UNROLL
      for (int s = 0; s < kCount; ++s) store_words<S>(row, slot + s, words + s * kWords);
    }
  }
  /// A slot's elements of an array that goes along the row.
  __device__ MEZZO_ALWAYS_INLINE void load(const Alike<float>& alike, int slot, float* values) const {
    if (alike.data != nullptr && !kShifted &&
        reinterpret_cast<std::uintptr_t>(alike.data) % sizeof(Pack<float>) == 0) {
      Pack<float> pack{};
      if (has(slot, 0)) pack = reinterpret_cast<const Pack<float>*>(alike.data)[at(slot, 0) / kPack];
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) values[j] = pack.values[j];
    } else {
      MEZZO_UNROLL
      for (int j = 0; j < kPack; ++j) {
        values[j] = alike.data != nullptr && has(slot, j) ? alike.data[at(slot, j)] : alike.otherwise;
      }
    }
  }

 private:
  /// Whether a slot has four elements.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE bool is_full(int slot) const {
    return has(slot, 0) && (!kShifted || has(slot, kPack - 1));
  }
  template <class Bits, int kSlots>
  __device__ MEZZO_ALWAYS_INLINE void load_shifted(const void* row,
                                                   std::uint32_t (&words)[kSlots][kPack]) const {
    constexpr int kWords = kPack * static_cast<int>(sizeof(Bits)) / 4, kShare = kPack / kWords;
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      if (is_full(s)) {
        const auto raw = static_cast<const RawWords<kWords>*>(row)[at(s, 0) / kPack];
        MEZZO_UNROLL
        for (int w = 0; w < kWords; ++w) words[s][w] = raw.words[w];
      } else {
        MEZZO_UNROLL
        for (int j = 0; j < kPack; ++j) {
          if (has(s, j))
            words[s][j / kShare] |=
                std::uint32_t{static_cast<const detail::RawBits<Bits>*>(row)[at(s, j)].bits}
                << (16 * (j % kShare));
        }
      }
    }
  }
  template <class Bits, int kSlots>
  __device__ MEZZO_ALWAYS_INLINE void load_joined(const void* row,
                                                  std::uint32_t (&words)[kSlots][kPack]) const {
    constexpr int kWords = kPack * static_cast<int>(sizeof(Bits)) / 4;  // of a slot
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; s += 2) {
      if (!has(s, 0)) continue;
      MEZZO_UNROLL
      for (int v = 0; v < kWords / 2; ++v) {  // vectors of 16 bytes: one, or one for each slot
        const auto raw = static_cast<const RawWords<kPack>*>(row)[at(s, 0) * kWords / (kPack * kPack) + v];
        MEZZO_UNROLL
        for (int w = 0; w < kPack; ++w)
          words[s + v + w / kWords][kWords == kPack ? w : w % kWords] = raw.words[w];
      }
    }
  }
  template <class Bits, int kSlots>
  __device__ MEZZO_ALWAYS_INLINE void load_packed(const void* row,
                                                  std::uint32_t (&words)[kSlots][kPack]) const {
    constexpr int kWords = kPack * static_cast<int>(sizeof(Bits)) / 4;
    // Offsets by addition: the compiler would keep the products of all of them in registers.
    std::int64_t pack = at(0, 0) / kPack;
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      if (has(s, 0)) {
        const auto raw = static_cast<const RawWords<kWords>*>(row)[pack];
        MEZZO_UNROLL
        for (int w = 0; w < kWords; ++w) words[s][w] = raw.words[w];
      }
      pack += blockDim.x;
    }
  }
  /// A slot's elements = those in the words.
  template <class S>
  __device__ MEZZO_ALWAYS_INLINE void store_words(void* row, int slot, const std::uint32_t* words) const {
    constexpr int kWords = kPack * static_cast<int>(sizeof(S)) / 4;
    if constexpr (kShifted) {
      if (!is_full(slot)) return store_single<S>(row, slot, words);
    }
    RawWords<kWords> raw;
    MEZZO_UNROLL
    for (int w = 0; w < kWords; ++w) raw.words[w] = words[w];
    if (has(slot, 0)) static_cast<RawWords<kWords>*>(row)[at(slot, 0) / kPack] = raw;
  }
  template <class S>
  __device__ MEZZO_ALWAYS_INLINE void store_single(void* row, int slot, const std::uint32_t* words) const {
    using Bits = std::conditional_t<sizeof(S) == 2, std::uint16_t, std::uint32_t>;
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) {
      const std::uint32_t word = words[j * static_cast<int>(sizeof(S)) / 4];
      const auto bits = static_cast<Bits>(sizeof(S) == 2 && j % 2 == 1 ? word >> 16 : word);
      if (has(slot, j)) static_cast<detail::RawBits<Bits>*>(row)[at(slot, j)].bits = bits;
    }
  }

  int length_, first_;
};

/// combine over the values of the threads of a row, a warp or a block, in every one of them. A block's warps
/// leave theirs `scratch` bytes from the begin of its shared memory; that may be written again after the next
/// barrier.
template <class A, class Combine>
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE A reduce_row(A value, const Combine& combine,
                                                          std::size_t scratch) {
  value = reduce_warp_everywhere(value, combine);
  if (blockDim.x == kWarp) return value;
  const Shared<A> warps(kMostRowThreads / kWarp, scratch);
  if (threadIdx.x % kWarp == 0) warps.set(threadIdx.x / kWarp, value);
  __syncthreads();
  return fold_warps(warps, blockDim.x / kWarp, combine);
}

/// The threads of a row in registers, which hold nothing of it.
struct RegisterTeam {
  std::size_t scratch;
  [[nodiscard]] __device__ std::int64_t rank() const { return threadIdx.x; }
  [[nodiscard]] __device__ std::int64_t size() const { return blockDim.x; }
  template <class A, class Combine>
  [[nodiscard]] __device__ A reduce(A value, const Combine& combine) const {
    value = reduce_row(value, combine, scratch);
    if (blockDim.x != kWarp) __syncthreads();  // the scratch may be written again at once
    return value;
  }
};

/// What RegisterRow and LongRow have in common: the threads of a row are a warp or a block. See StreamedRow
/// for what members do.
template <std::size_t N>
class RowOfThreads {
 public:
  template <std::size_t kArray>
  [[nodiscard]] __device__ float at(std::int64_t i) const {
    return cuda::load<float>(all_.arrays[kArray].data, all_.arrays[kArray].dtype,
                             start_[kArray] + i * all_.steps[kArray]);
  }
  template <class A, class Combine>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE A reduce(A value, const Combine& combine) const {
    value = reduce_row(value, combine, scratch_half());
    half_ ^= 1;
    return value;
  }
  /// The row of input kArray in memory, as few rows need it.
  template <std::size_t kArray>
  [[nodiscard]] __device__ RowInMemory<float, RegisterTeam> in_memory() const {
    const Array& array = all_.arrays[kArray];
    return {array.data,         array.dtype, start_[kArray],
            all_.steps[kArray], all_.length, RegisterTeam{scratch_half()}};
  }
  /// sum / length(), by a product: a quotient in f64 is some thirty instructions.
  [[nodiscard]] __device__ double mean_of(double sum) const { return sum * all_.per_length; }
  [[nodiscard]] __device__ bool leads() const { return threadIdx.x == 0; }
  [[nodiscard]] __device__ std::int64_t length() const { return all_.length; }

 protected:
  /// Whoever derives from it sets start_.
  __device__ MEZZO_ALWAYS_INLINE explicit RowOfThreads(const RowArrays<N>& all) : all_(all) {}
  const RowArrays<N>& all_;
  std::int64_t start_[N];

 private:
  /// Where the next reduction keeps what warps found. A half is written again after the other half's barrier,
  /// behind which all threads have read it.
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::size_t scratch_half() const {
    return half_ * (kRowScratchBytes / 2);
  }
  mutable unsigned half_ = 0;
};

/// A row of N arrays; the inputs, those from kFirst on, are in the registers of the threads of a warp
/// (blockDim.x is 32; the block has several rows) or of a block. See StreamedRow for what its members do.
template <std::size_t N, std::size_t kFirst, int kSlots, RowPacks kPacks>
class RegisterRow : public RowOfThreads<N> {
  static constexpr bool kJoined = kPacks == RowPacks::joined;

 public:
  struct Place {
    int slot, j, at;
    [[nodiscard]] __device__ bool is(std::int64_t i) const { return at == static_cast<int>(i); }
  };
  static_assert(!kJoined || kSlots % 2 == 0);
  using Number = float;
  using ThreadSum = float;  ///< of at most kSlots * kPack terms

  __device__ MEZZO_ALWAYS_INLINE RegisterRow(const RowArrays<N>& all, std::int64_t row)
      : RowOfThreads<N>(all), slots_(all.length) {
    all.rows.offsets(row, start_);
    read();
  }
  /// A chunk of a row that starts at `start`: the elements begin + first to begin + end - 1.
  __device__ MEZZO_ALWAYS_INLINE RegisterRow(const RowArrays<N>& all, const std::int64_t (&start)[N],
                                             std::int64_t begin, std::int64_t first, std::int64_t end)
      : RowOfThreads<N>(all), slots_(end, first) {
    for (std::size_t k = 0; k < N; ++k) start_[k] = start[k] + begin;
    read();
  }

  template <std::size_t kArray>
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE float get(const Place& place) const {
    static_assert(kArray >= kFirst, "results are not read");
    return values_[kArray - kFirst][place.slot][place.j];
  }
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void each(const F& f, const Along&... along) const {
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; ++s) visit(s, f, along...);
  }
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void write(const F& f, const Along&... along) const {
    constexpr int kCount = kJoined ? 2 : 1;
    MEZZO_UNROLL
    for (int s = 0; s < kSlots; s += kCount) {
      float results[kCount * kPack] = {};
      MEZZO_UNROLL
      for (int t = 0; t < kCount; ++t) {
        const auto keep = [&](const Place& place, auto... values) {
          results[t * kPack + place.j] = f(place, values...);
        };
        visit(s + t, keep, along...);
      }
      with_narrow(all_.arrays[0].dtype, [&](auto stored) {
        using S = decltype(stored);
        slots_.template store<S, kCount>(static_cast<S*>(all_.arrays[0].data) + start_[0], s, results);
      });
    }
  }
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE auto kept(const F& f) {
    each([&](const Place& place) { values_[0][place.slot][place.j] = f(place); });
    return [this](const Place& place) { return values_[0][place.slot][place.j]; };
  }

 private:
  using RowOfThreads<N>::all_, RowOfThreads<N>::start_;

  __device__ MEZZO_ALWAYS_INLINE void read() {
    std::uint32_t words[N - kFirst][kSlots][kPack];
    // All loads first and then the conversions, which wait for them.
    MEZZO_UNROLL
    for (std::size_t k = kFirst; k < N; ++k) {
      if (all_.arrays[k].dtype == DType::f32)
        fetch<std::uint32_t>(k, words[k - kFirst]);
      else
        fetch<std::uint16_t>(k, words[k - kFirst]);
    }
    MEZZO_UNROLL
    for (std::size_t k = kFirst; k < N; ++k) widen(k, words[k - kFirst]);
  }
  template <class Bits>
  __device__ MEZZO_ALWAYS_INLINE void fetch(std::size_t k, std::uint32_t (&words)[kSlots][kPack]) const {
    slots_.template load<Bits>(static_cast<const Bits*>(all_.arrays[k].data) + start_[k], words);
  }
  __device__ MEZZO_ALWAYS_INLINE void widen(std::size_t k, std::uint32_t (&words)[kSlots][kPack]) {
    with_narrow(all_.arrays[k].dtype, [&](auto stored) {
      MEZZO_UNROLL
      for (int s = 0; s < kSlots; ++s) detail::widen<decltype(stored)>(words[s], values_[k - kFirst][s]);
    });
  }
  /// f(place, along...) for the elements of a slot that are there.
  template <class F, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void visit(int slot, const F& f, const Along&... along) const {
    visit_along(slot, f, std::index_sequence_for<Along...>{}, along...);
  }
  template <class F, std::size_t... I, class... Along>
  __device__ MEZZO_ALWAYS_INLINE void visit_along(int slot, const F& f, std::index_sequence<I...> /*all*/,
                                                  const Along&... along) const {
    float values[sizeof...(Along) + 1][kPack];
    (slots_.load(along, slot, values[I]), ...);
    MEZZO_UNROLL
    for (int j = 0; j < kPack; ++j) {
      if (slots_.has(slot, j)) f(Place{slot, j, slots_.at(slot, j)}, values[I][j]...);
    }
  }

  RowSlots<kPacks> slots_;
  float values_[N - kFirst][kSlots][kPack];
};

}  // namespace mezzo::kernels::cuda
