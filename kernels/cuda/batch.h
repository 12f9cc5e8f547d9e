// Many arrays in one launch: their descriptions travel as a kernel argument, and the blocks share the
// elements of all of them evenly. For optimizers and loss scaling, whose parameters are many and often small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/strided.h"

namespace mezzo::kernels::cuda {

/// The elements that a block gets at a time: one pack for each thread.
inline constexpr std::int64_t kChunk = std::int64_t{kThreads} * kPack;
/// Two sizes of batches: a launch costs time by its bytes of arguments.
inline constexpr std::size_t kFewItems = 16;
/// CUDA takes 32,764 bytes of arguments in all; a batch leaves some for the kernel's other arguments.
inline constexpr std::size_t kBatchBytes = 28 * 1024;

/// Up to kMost items. Item has `elements`; an item with none is legal and gets no chunk. Kernels take it as a
/// __grid_constant__: it is read where it lies and never copied for a thread.
template <class Item, std::size_t kMost>
struct Batch {
  Item items[kMost];
  std::int64_t ends[kMost] = {};  ///< chunks of the items up to and with this one
  std::int32_t count = 0;

  [[nodiscard]] MEZZO_HD std::int64_t chunks() const { return count == 0 ? 0 : ends[count - 1]; }
  void add(const Item& item) {
    const std::int64_t before = chunks();
    items[count] = item;
    ends[count++] = before + (item.elements + kChunk - 1) / kChunk;
  }
  /// Blocks of kThreads threads; at least one, as a kernel may have more to do than its elements.
  [[nodiscard]] unsigned blocks() const {
    return static_cast<unsigned>(std::clamp<std::int64_t>(chunks(), 1, kMostBlocks));
  }
};

/// How many items fit into kBatchBytes.
template <class Item>
inline constexpr std::size_t kManyItems = (kBatchBytes - 16) / (sizeof(Item) + sizeof(std::int64_t));

namespace detail {

template <class Item, std::size_t kMost, class Source, class Make, class Run>
void run_batches(std::span<const Source> sources, const Make& make, const Run& run) {
  static_assert(sizeof(Batch<Item, kMost>) <= kBatchBytes);
  Batch<Item, kMost> batch;
  for (const Source& source : sources) {
    const std::optional<Item> item = make(source);
    if (!item) continue;
    if (batch.count == kMost) {
      run(batch);
      batch.count = 0;
    }
    batch.add(*item);
  }
  if (batch.count > 0) run(batch);
}

}  // namespace detail

/// Calls run(batch) for the items that make(source) gives, in as many batches as they need. `make` returns
/// nothing for a source that goes another way.
template <class Item, class Source, class Make, class Run>
void in_batches(std::span<const Source> sources, const Make& make, const Run& run) {
  if (sources.size() <= kFewItems)
    detail::run_batches<Item, kFewItems>(sources, make, run);
  else
    detail::run_batches<Item, kManyItems<Item>>(sources, make, run);
}

/// Calls f(item, first, last) for the elements [first, last) of items that are this block's. The same calls
/// in all threads of the block. `first` is a multiple of kChunk, `last` too or the number of elements.
template <class Item, std::size_t kMost, class F>
__device__ MEZZO_ALWAYS_INLINE void for_each_range(const Batch<Item, kMost>& batch, const F& f) {
  const std::int64_t chunks = batch.chunks();
  const std::int64_t from = chunks * blockIdx.x / gridDim.x, to = chunks * (blockIdx.x + 1) / gridDim.x;
  int low = 0, high = batch.count;  // the first item that ends behind `from`
  while (low < high) {
    const int middle = (low + high) / 2;
    if (batch.ends[middle] > from)
      high = middle;
    else
      low = middle + 1;
  }
  std::int64_t begin = low == 0 ? 0 : batch.ends[low - 1];
  for (int i = low; i < batch.count && begin < to; ++i) {
    const std::int64_t end = batch.ends[i];
    const std::int64_t first = ((from > begin ? from : begin) - begin) * kChunk;
    const std::int64_t last = ((to < end ? to : end) - begin) * kChunk;
    const std::int64_t elements = batch.items[i].elements;
    if (begin < end) f(batch.items[i], first, last < elements ? last : elements);
    begin = end;
  }
}

/// This thread's share of a block's elements [first, last): pack(i) for elements 4 i to 4 i + 3 when
/// `packed`, one(i) for what is left.
template <class Pack, class One>
__device__ MEZZO_ALWAYS_INLINE void for_each_element(bool packed, std::int64_t first, std::int64_t last,
                                                     const Pack& pack, const One& one) {
  if (packed) {
    const std::int64_t packs = last / kPack;
    for (std::int64_t i = first / kPack + threadIdx.x; i < packs; i += blockDim.x) pack(i);
    first = packs * kPack;
  }
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) one(i);
}

}  // namespace mezzo::kernels::cuda
