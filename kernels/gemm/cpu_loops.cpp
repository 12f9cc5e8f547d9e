// Our own product loops as a tile engine: for integers, which no library multiplies exactly, and for small
// products, where a library's call costs more than the arithmetic. Every element is summed up in the order of
// k, multiply and add rounded each, so its bits are the same for every layout, instruction set and number of
// threads.
#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {
namespace {

/// Integers wrap, which only unsigned integers may in C++.
template <class T>
using Word = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

/// Neighbours of a row as one value: the compilers' own vectors, since neither vectorises a plain loop over a
/// block of sums. g++ 12 turns vectors that the instruction set lacks into scalar code, so each set gets what
/// it has.
template <class T, int Bytes>
using Lanes [[gnu::vector_size(Bytes)]] = Word<T>;

// Values of V from and to any address. By memcpy, since clang 14 ignores an alignment of Lanes that depends
// on T; by reference, since a vector that is returned has another form with and without AVX.
template <class V, class T>
MEZZO_ALWAYS_INLINE void load(V& value, const T* from) {
  __builtin_memcpy(&value, from, sizeof value);
}
template <class V, class T>
MEZZO_ALWAYS_INLINE void store(const V& value, T* to) {
  __builtin_memcpy(to, &value, sizeof value);
}

template <class T, int Bytes>
struct LoopTile {
  using Vector = Lanes<T, Bytes>;
  static constexpr int kRows = 4;
  template <class V>
  static constexpr int kLanes = static_cast<int>(sizeof(V) / sizeof(T));

  /// C[i.., j..] of `Rows` rows by `Count` values of the type V (Vector or Word), which fit in the registers.
  template <class V, int Rows, int Count>
  MEZZO_ALWAYS_INLINE static void block(const GemmTile<T>& t, std::int64_t i, std::int64_t j) {
    const std::int64_t a_row = t.a_transposed ? 1 : t.lda, a_step = t.a_transposed ? t.lda : 1;
    const T* a = t.a + i * a_row;
    const T* b = t.b + j;
    V sum[Rows][Count] = {};
    for (std::int64_t p = 0; p < t.k; ++p, a += a_step, b += t.ldb) {
      V right[Count];
      for (int q = 0; q < Count; ++q) load(right[q], b + q * kLanes<V>);
      for (int r = 0; r < Rows; ++r) {
        const auto left = static_cast<Word<T>>(a[r * a_row]);
        for (int q = 0; q < Count; ++q) sum[r][q] += left * right[q];
      }
    }
    for (int r = 0; r < Rows; ++r) {
      T* const c = t.c + (i + r) * t.ldc + j;
      for (int q = 0; q < Count; ++q) {
        if (t.accumulate) {
          V old;
          load(old, c + q * kLanes<V>);
          sum[r][q] += old;
        }
        store(sum[r][q], c + q * kLanes<V>);
      }
    }
  }

  template <int Rows>
  MEZZO_ALWAYS_INLINE static void rows(const GemmTile<T>& t, std::int64_t i) {
    constexpr std::int64_t kWidth = Bytes / sizeof(T);
    std::int64_t j = 0;
    // A row by itself needs as many sums as four rows have, or each addition waits for the one before.
    if constexpr (Rows == 1) {
      for (; j + 8 * kWidth <= t.n; j += 8 * kWidth) block<Vector, Rows, 8>(t, i, j);
    }
    for (; j + 2 * kWidth <= t.n; j += 2 * kWidth) block<Vector, Rows, 2>(t, i, j);
    for (; j + kWidth <= t.n; j += kWidth) block<Vector, Rows, 1>(t, i, j);
    for (; j < t.n; ++j) block<Word<T>, Rows, 1>(t, i, j);
  }

  static void run(const GemmTile<T>* tile) {
    const GemmTile<T> t = *tile;
    std::int64_t i = 0;
    for (; i + kRows <= t.m; i += kRows) rows<kRows>(t, i);
    for (; i < t.m; ++i) rows<1>(t, i);
  }
};

}  // namespace

template <class T>
void gemm_loops(const GemmTile<T>& tile) {
  if (isa() == Isa::base)
    detail::run_base<LoopTile<T, 16>>(&tile);
  else
    run_isa<LoopTile<T, 32>>(&tile);
}

template void gemm_loops(const GemmTile<float>&);
template void gemm_loops(const GemmTile<double>&);
template void gemm_loops(const GemmTile<std::int64_t>&);

}  // namespace mezzo::kernels::cpu
