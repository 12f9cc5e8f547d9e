// The CPU's sort. A row becomes entries (kernels/sort/sort_keys.h) and is sorted by bytes of the key from the
// lowest to the highest, which takes no comparisons; threads share a long row by chunks. No two entries are
// equal, so the order depends neither on the algorithm nor on the number of threads.
#include <algorithm>
#include <array>
#include <vector>

#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/indexing/indexing.h"
#include "mezzo/kernels/sort/sort_keys.h"

namespace mezzo::kernels::cpu {

namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 15;  ///< entries of a thread's share of a long row
constexpr std::size_t kDigits = 256;                    ///< values of a byte of the key
/// Below, comparisons cost less than the counts of all digits.
constexpr std::int64_t kFew = 96;

template <class Entry>
[[nodiscard]] bool is_before(const Entry& a, const Entry& b) {
  return a.before(b);
}

/// The bits in which some keys differ.
template <class Entry>
[[nodiscard]] typename Entry::Key varying_bits(const Entry* entries, std::int64_t n) {
  typename Entry::Key any = 0, all = ~any;
  for (std::int64_t i = 0; i < n; ++i) {
    any |= entries[i].key();
    all &= entries[i].key();
  }
  return any ^ all;
}

/// Moves the entries to `to`, ordered by one byte of the key; entries with equal bytes keep their order.
/// `places` has a row of kDigits for each chunk.
template <class Entry>
void order_by_byte(const Entry* from, Entry* to, std::int64_t n, unsigned shift, std::int64_t chunk_size,
                   std::vector<std::array<std::int64_t, kDigits>>& places) {
  const auto digit = [shift](const Entry& e) { return static_cast<std::size_t>(e.key() >> shift & 0xffU); };
  const auto chunk_at = [&](std::int64_t begin) -> auto& {
    return places[static_cast<std::size_t>(begin / chunk_size)];
  };
  parallel_for(n, chunk_size, [&](std::int64_t begin, std::int64_t end) {
    auto& counts = chunk_at(begin);
    counts.fill(0);
    for (std::int64_t i = begin; i < end; ++i) ++counts[digit(from[i])];
  });
  std::int64_t place = 0;
  for (std::size_t d = 0; d < kDigits; ++d) {
    for (auto& counts : places) {
      const std::int64_t count = counts[d];
      counts[d] = place;
      place += count;
    }
  }
  parallel_for(n, chunk_size, [&](std::int64_t begin, std::int64_t end) {
    auto& next = chunk_at(begin);
    for (std::int64_t i = begin; i < end; ++i) to[next[digit(from[i])]++] = from[i];
  });
}

/// The sorted entries, in one of the two arrays. Their positions are in order before.
template <class Entry>
[[nodiscard]] const Entry* sorted(Entry* entries, Entry* spare, std::int64_t n) {
  if (n <= kFew) {
    std::sort(entries, entries + n, is_before<Entry>);
    return entries;
  }
  // Chunks follow from n alone, and one thread needs no more than one.
  const std::int64_t chunk_size = in_parallel() ? n : std::max(kChunk, n / 64);
  std::vector<std::array<std::int64_t, kDigits>> places(static_cast<std::size_t>((n - 1) / chunk_size + 1));
  const auto varying = varying_bits(entries, n);
  for (unsigned shift = 0; shift < 8 * sizeof(typename Entry::Key); shift += 8) {
    if ((varying >> shift & 0xffU) == 0) continue;
    order_by_byte(entries, spare, n, shift, chunk_size, places);
    std::swap(entries, spare);
  }
  return entries;
}

/// Brings the first `wanted` entries to the front, in order. Candidates are each chunk's first `wanted`.
template <class Entry>
void select_first(Entry* entries, std::int64_t n, std::int64_t wanted) {
  std::int64_t left = n;
  if (n > kChunk) {
    parallel_for(n, kChunk, [&](std::int64_t begin, std::int64_t end) {
      std::partial_sort(entries + begin, entries + begin + std::min(wanted, end - begin), entries + end,
                        is_before<Entry>);
    });
    left = 0;
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
      const std::int64_t count = std::min({wanted, kChunk, n - begin});
      std::copy(entries + begin, entries + begin + count, entries + left);
      left += count;
    }
  }
  std::partial_sort(entries, entries + wanted, entries + left, is_before<Entry>);
}

/// Whether it is cheaper to look for the first `wanted` entries than to sort all.
[[nodiscard]] bool is_selection(std::int64_t wanted, std::int64_t n) { return wanted <= n / 16; }

/// order[i] = position of the i-th of `values` in order.
template <class Entry, class T>
void order_row(const T* values, std::int64_t n, std::int64_t* order, std::int64_t wanted, bool descending,
               Entry* entries) {
  parallel_for(n, kChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      entries[i] = Entry(sort_key<typename Entry::Key>(values[i], descending), i);
  });
  const Entry* result = entries;
  if (is_selection(wanted, n))
    select_first(entries, n, wanted);
  else
    result = sorted(entries, entries + n, n);
  parallel_for(wanted, kChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) order[i] = result[i].at();
  });
}

}  // namespace

void sorting_order(const View& indices, const View& in, std::size_t dim, bool descending) {
  const std::int64_t n = in.shape[dim], wanted = indices.shape[dim];
  if (layout::numel(indices.shape) == 0) return;
  const RowOperand result(indices, dim);
  with_entries(in.dtype, n, [&]<class T, class Entry>(TypeTag<T> /*type*/, TypeTag<Entry> /*entry*/) {
    for_row_blocks<T, 1>(
        nullptr, {RowOperand(in, dim)},
        [&](RowBlock<T> /*none*/, const std::array<RowBlock<T>, 1>& values, std::int64_t begin,
            std::int64_t rows) {
          const RowScratch<Entry> entries(is_selection(wanted, n) ? n : 2 * n);
          const RowScratch<std::int64_t> buffer(result.in_place<std::int64_t>() ? 0 : rows * result.pitch());
          const RowBlock<std::int64_t> order = result.target(begin, buffer.data());
          for (std::int64_t r = 0; r < rows; ++r) {
            order_row(values[0].data + r * values[0].distance, n, order.data + r * order.distance, wanted,
                      descending, entries.data());
          }
          result.finish(begin, rows, buffer.data());
        });
  });
}

}  // namespace mezzo::kernels::cpu
