// Sorts many short rows or few long ones: blocks sort tiles in shared memory, then passes merge neighbouring
// runs, so the whole takes as many walks over memory as the runs take doublings. Every thread finds its part
// of a merge by itself: a search along a diagonal says how many entries come from either run. Entries
// (kernels/sort/sort_keys.h) are never equal, so the order does not depend on how it is found.
//
// CUB has a faster radix sort, but the emulated device of the tests has to run every kernel.
#pragma once

#include <cstdint>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/sort/sort_keys.h"

namespace mezzo::kernels::cuda {

inline constexpr unsigned kSortItems = 8;  ///< entries of a thread
/// Entries of a block: 36 KiB of long entries with their gaps; a launch may always take 48 KiB.
inline constexpr unsigned kSortTile = kSortItems * kThreads;

/// Entries that lie in memory, as rows of `length`.
template <class Entry>
struct LoadEntries {
  const Entry* entries;
  std::int64_t length;
  [[nodiscard]] __device__ Entry operator()(std::int64_t row, std::int64_t place) const {
    return entries[row * length + place];
  }
};

/// Where sorted entries go: to memory, as rows of `length`, or as positions to the first `length` places of
/// strided rows.
template <class Entry>
struct SortTarget {
  Entry* entries = nullptr;
  std::int64_t length = 0;
  std::int64_t* positions = nullptr;
  std::int64_t step = 1;
  Space<2> rows = {};  ///< the first array are the positions
  __device__ void store(std::int64_t row, std::int64_t place, const Entry& entry) const {
    if (positions == nullptr) {
      entries[row * length + place] = entry;
    } else if (place < length) {
      std::int64_t at[2];
      rows.offsets(row, at);
      positions[at[0] + place * step] = entry.at();
    }
  }
};

namespace detail {

/// How rows are cut into runs that a block sorts. A run of several has a whole tile; rows shorter than that
/// are padded to a power of two, and a tile holds some of them.
struct TilePlan {
  std::int64_t rows, length;
  std::int64_t runs_per_row, tiles;
  unsigned slots, log_slots;  ///< of a run: a power of two from kSortItems to kSortTile
  unsigned keep;              ///< entries of each run that are stored

  TilePlan(std::int64_t row_count, std::int64_t row_length, unsigned kept)
      : rows(row_count), length(row_length), slots(kSortItems), log_slots(0), keep(kept) {
    while (slots < kSortTile && slots < length) slots *= 2;
    while (1U << log_slots < slots) ++log_slots;
    runs_per_row = (length + slots - 1) / slots;
    const std::int64_t runs_per_tile = kSortTile / slots;
    tiles = (rows * runs_per_row + runs_per_tile - 1) / runs_per_tile;
  }
};

/// Where the slots of one tile lie.
class TileAt {
 public:
  __device__ TileAt(const TilePlan& plan, std::int64_t tile) : plan_(plan) {
    if (plan.runs_per_row == 1) {
      row_ = tile * (kSortTile / plan.slots);
    } else {  // then a run is a tile
      row_ = quotient(tile, plan.runs_per_row);
      run_ = tile - row_ * plan.runs_per_row;
    }
  }
  [[nodiscard]] __device__ std::int64_t row(unsigned slot) const { return row_ + (slot >> plan_.log_slots); }
  [[nodiscard]] __device__ unsigned place_in_run(unsigned slot) const { return slot & (plan_.slots - 1); }
  [[nodiscard]] __device__ bool has(unsigned slot) const {
    return row(slot) < plan_.rows && run_ * plan_.slots + place_in_run(slot) < plan_.length;
  }
  [[nodiscard]] __device__ std::int64_t source(unsigned slot) const {
    return run_ * plan_.slots + place_in_run(slot);
  }
  /// Place of a sorted entry when only some of each run are kept.
  [[nodiscard]] __device__ std::int64_t target(unsigned slot) const {
    return run_ * plan_.keep + place_in_run(slot);
  }

 private:
  const TilePlan& plan_;
  std::int64_t row_, run_ = 0;
};

/// A thread's own entries, in order: by neighbours, because registers cannot be indexed.
template <class Entry>
__device__ MEZZO_ALWAYS_INLINE void sort_own(Entry (&own)[kSortItems]) {
  for (unsigned round = 0; round < kSortItems; ++round) {
    for (unsigned i = round % 2; i + 1 < kSortItems; i += 2) {
      const Entry a = own[i], b = own[i + 1];
      const bool swap = b.before(a);
      own[i] = swap ? b : a;
      own[i + 1] = swap ? a : b;
    }
  }
}

/// A block's entries in shared memory, with a gap behind each thread's share: without it the shares would lie
/// a multiple of 64 bytes apart, in the same few banks.
template <class Entry>
class Tile {
 public:
  static constexpr unsigned kPlaces = kSortTile + kSortTile / kSortItems;
  static constexpr std::size_t kBytes = kPlaces * sizeof(Entry);
  __device__ Tile() : places_(kPlaces) {}
  [[nodiscard]] __device__ Entry get(unsigned i) const { return places_.get(i + i / kSortItems); }
  __device__ void set(unsigned i, const Entry& entry) const { places_.set(i + i / kSortItems, entry); }

 private:
  Shared<Entry> places_;
};

/// A sorted run of a tile.
struct Run {
  unsigned begin, end;
};

/// Entries [diagonal, diagonal + kSortItems) of what the runs merge to, Entry::last() behind the last. No
/// entry outside of the runs is read: the search stays below min(diagonal, a's length) in a, and thereby
/// between diagonal - a's length and b's length in b. diagonal is at most the sum of the lengths.
template <class Entry>
__device__ MEZZO_ALWAYS_INLINE void merge_own(const Tile<Entry>& tile, Run a, Run b, unsigned diagonal,
                                              Entry (&own)[kSortItems]) {
  const unsigned in_a = a.end - a.begin, in_b = b.end - b.begin;
  unsigned low = diagonal > in_b ? diagonal - in_b : 0, high = diagonal < in_a ? diagonal : in_a;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (tile.get(b.begin + diagonal - 1 - middle).before(tile.get(a.begin + middle)))
      high = middle;
    else
      low = middle + 1;
  }
  a.begin += low;
  b.begin += diagonal - low;
  const auto head = [&tile](const Run& run) {
    return run.begin < run.end ? tile.get(run.begin) : Entry::last();
  };
  Entry first_a = head(a), first_b = head(b);
  for (unsigned i = 0; i < kSortItems; ++i) {
    if (first_b.before(first_a)) {
      own[i] = first_b;
      ++b.begin;
      first_b = head(b);
    } else {
      own[i] = first_a;
      ++a.begin;
      first_a = head(a);
    }
  }
}

/// Sorts runs of `slots` entries of a tile in which every slot is set. Ends with the barrier after which all
/// threads may read.
template <class Entry>
__device__ void sort_in_shared(const Tile<Entry>& tile, unsigned slots) {
  const unsigned first = threadIdx.x * kSortItems;
  Entry own[kSortItems];
  for (unsigned i = 0; i < kSortItems; ++i) own[i] = tile.get(first + i);
  sort_own(own);
  for (unsigned i = 0; i < kSortItems; ++i) tile.set(first + i, own[i]);
  __syncthreads();
  for (unsigned width = kSortItems; width < slots; width *= 2) {
    const unsigned begin = first & ~(2 * width - 1);
    merge_own(tile, {begin, begin + width}, {begin + width, begin + 2 * width}, first - begin, own);
    __syncthreads();
    for (unsigned i = 0; i < kSortItems; ++i) tile.set(first + i, own[i]);
    __syncthreads();
  }
}

template <class Entry, class Load>
__global__ void sort_tiles(Load load, TilePlan plan, SortTarget<Entry> target) {
  const Tile<Entry> tile;
  for (std::int64_t t = blockIdx.x; t < plan.tiles; t += gridDim.x) {
    const TileAt at(plan, t);
    for (unsigned slot = threadIdx.x; slot < kSortTile; slot += kThreads)
      tile.set(slot, at.has(slot) ? load(at.row(slot), at.source(slot)) : Entry::last());
    __syncthreads();
    sort_in_shared(tile, plan.slots);
    // Entry::last() is behind all others, so the slots that had an element have one again.
    for (unsigned slot = threadIdx.x; slot < kSortTile; slot += kThreads) {
      if (at.has(slot) && at.place_in_run(slot) < plan.keep)
        target.store(at.row(slot), at.target(slot), tile.get(slot));
    }
    __syncthreads();
  }
}

/// Of the first `diagonal` entries that two runs merge to, how many are from a. All lanes of a warp search
/// together and get the answer, each round in 32 places at once: a search by one thread would wait twenty
/// times for memory. The places are in [low, high), so at most a's length and at most `diagonal`; in b they
/// lie in [diagonal - high, diagonal - low), at least 0 and at most b's length.
template <class Entry>
[[nodiscard]] __device__ std::int64_t split_by_warp(const Entry* a, std::int64_t in_a, const Entry* b,
                                                    std::int64_t in_b, std::int64_t diagonal) {
  const std::int64_t lane = threadIdx.x % kWarp;
  std::int64_t low = diagonal > in_b ? diagonal - in_b : 0, high = diagonal < in_a ? diagonal : in_a;
  while (low < high) {
    const std::int64_t span = high - low, probe = low + span * lane / kWarp;
    const unsigned votes = __ballot_sync(kWholeWarp, b[diagonal - 1 - probe].before(a[probe]) ? 0 : 1);
    unsigned taken = 0;  // the votes are ones and then zeros: the number of ones
    for (unsigned half = kWarp / 2; half > 0; half /= 2) {
      if ((votes >> (taken + half - 1) & 1U) != 0) taken += half;
    }
    taken += votes >> taken & 1U;
    if (taken < kWarp) high = low + span * taken / kWarp;
    if (taken > 0) low += span * (taken - 1) / kWarp + 1;
  }
  return low;
}

/// Rows of runs of `width` entries, a multiple of the tile, that become runs twice as long. A block makes
/// kSortTile entries at a time.
template <class Entry>
__global__ void merge_runs(const Entry* from, std::int64_t rows, std::int64_t length, std::int64_t width,
                           SortTarget<Entry> target) {
  const Tile<Entry> tile;
  const Shared<std::int64_t> splits(2, Tile<Entry>::kBytes);
  const std::int64_t tiles_per_row = (length + kSortTile - 1) / kSortTile;
  for (std::int64_t t = blockIdx.x; t < rows * tiles_per_row; t += gridDim.x) {
    const std::int64_t row = quotient(t, tiles_per_row), begin = (t - row * tiles_per_row) * kSortTile;
    const std::int64_t first = quotient(begin, 2 * width) * 2 * width;  // of the two runs
    const std::int64_t in_a = length - first < width ? length - first : width;
    const std::int64_t in_b = length - first - in_a < width ? length - first - in_a : width;
    const Entry* const a = from + row * length + first;
    const Entry* const b = a + in_a;
    const std::int64_t here = begin - first;
    const std::int64_t next = here + kSortTile < in_a + in_b ? here + kSortTile : in_a + in_b;
    const unsigned warp = threadIdx.x / kWarp;
    if (warp < 2) {
      const std::int64_t split = split_by_warp(a, in_a, b, in_b, warp == 0 ? here : next);
      if (threadIdx.x % kWarp == 0) splits.set(warp, split);
    }
    __syncthreads();
    const std::int64_t from_a = splits.get(0), from_b = here - from_a;
    const auto count = static_cast<unsigned>(next - here);  // at most kSortTile
    const auto count_a = static_cast<unsigned>(splits.get(1) - from_a);
    for (unsigned e = threadIdx.x; e < count; e += kThreads)
      tile.set(e, e < count_a ? a[from_a + e] : b[from_b + (e - count_a)]);
    __syncthreads();
    const unsigned own_first = threadIdx.x * kSortItems;
    Entry own[kSortItems];
    merge_own(tile, {0, count_a}, {count_a, count}, own_first < count ? own_first : count, own);
    __syncthreads();
    for (unsigned i = 0; i < kSortItems; ++i) {
      if (own_first + i < count) tile.set(own_first + i, own[i]);
    }
    __syncthreads();
    for (unsigned e = threadIdx.x; e < count; e += kThreads) target.store(row, begin + e, tile.get(e));
    __syncthreads();
  }
}

[[nodiscard]] inline dim3 sort_blocks(std::int64_t tiles) {
  return {static_cast<unsigned>(std::min(tiles, kMostBlocks))};
}

template <class Entry, class Load>
void launch_tiles(Device device, const Load& load, const TilePlan& plan, const SortTarget<Entry>& target) {
  mezzo::cuda::launch(sort_tiles<Entry, Load>, sort_blocks(plan.tiles), dim3(kThreads), Tile<Entry>::kBytes,
                      mezzo::cuda::current_stream(device), load, plan, target);
}

/// Rows of several tiles each.
template <class Entry, class Load>
void sort_long_rows(Device device, const Load& load, std::int64_t rows, std::int64_t length,
                    const SortTarget<Entry>& target) {
  const TilePlan plan(rows, length, kSortTile);
  int passes = 0;
  for (std::int64_t width = kSortTile; width < length; width *= 2) ++passes;
  const std::int64_t bytes = rows * length * std::int64_t{sizeof(Entry)};
  const bool to_entries = target.positions == nullptr;
  const Scratch one(device, bytes), other(device, to_entries ? 0 : bytes);
  // The pass after the last would read buffers[1], which is the target if that takes entries.
  Entry* const buffers[2] = {static_cast<Entry*>(one.data()),
                             to_entries ? target.entries : static_cast<Entry*>(other.data())};
  int at = passes % 2 == 0 ? 1 : 0;
  launch_tiles<Entry>(device, load, plan, {.entries = buffers[at], .length = length});
  for (std::int64_t width = kSortTile; width < length; width *= 2, at = 1 - at) {
    const bool is_last = 2 * width >= length;
    const SortTarget<Entry> next{.entries = buffers[1 - at], .length = length};
    mezzo::cuda::launch(merge_runs<Entry>, sort_blocks(plan.tiles), dim3(kThreads),
                        Tile<Entry>::kBytes + 2 * sizeof(std::int64_t), mezzo::cuda::current_stream(device),
                        buffers[at], rows, length, width, is_last ? target : next);
  }
}

}  // namespace detail

/// Sorts rows of the entries that `load(row, place)` gives. `target` gets the first target.length of each row
/// as positions, or all `length` as entries.
template <class Entry, class Load>
void sort_rows(Device device, const Load& load, std::int64_t rows, std::int64_t length,
               const SortTarget<Entry>& target) {
  if (rows == 0 || length == 0) return;
  if (length <= kSortTile)
    return detail::launch_tiles<Entry>(device, load, detail::TilePlan(rows, length, kSortTile), target);
  const std::int64_t wanted = target.length;
  if (wanted > kSortTile / 2) return detail::sort_long_rows<Entry>(device, load, rows, length, target);
  // The first few of a row are among the first few of its runs: at most half of them are left for the next.
  const detail::TilePlan plan(rows, length, static_cast<unsigned>(wanted));
  const std::int64_t whole = plan.runs_per_row - 1;
  const std::int64_t left = whole * wanted + std::min(wanted, length - whole * kSortTile);
  const Scratch kept(device, rows * left * std::int64_t{sizeof(Entry)});
  auto* const entries = static_cast<Entry*>(kept.data());
  detail::launch_tiles<Entry>(device, load, plan, {.entries = entries, .length = left});
  sort_rows<Entry>(device, LoadEntries<Entry>{entries, left}, rows, left, target);
}

}  // namespace mezzo::kernels::cuda
