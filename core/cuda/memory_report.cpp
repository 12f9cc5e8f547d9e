// The table of what the caching allocator holds, and the error for when the device has no more.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "mezzo/core/cuda/caching_allocator.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/current_op.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"

namespace mezzo::cuda {

namespace {

std::string human(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  const auto as = [&](std::size_t unit, const char* name) {
    return fixed_text(static_cast<double>(bytes) / static_cast<double>(unit), 2) + " " + name;
  };
  if (bytes < kKiB) return std::to_string(bytes) + " B";
  if (bytes < kKiB * kKiB) return as(kKiB, "KiB");
  if (bytes < kKiB * kKiB * kKiB) return as(kKiB * kKiB, "MiB");
  return as(kKiB * kKiB * kKiB, "GiB");
}
std::string human(std::int64_t bytes) {
  return human(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
}

// "1.2 of 79.1 GiB free on the device", or nothing when the device does not answer.
std::string free_on_device(int index) {
  const DeviceGuard guard(index);
  const RelaxedCapture relaxed;
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  return human(free) + " of " + human(total) + " free on the device";
}

struct Row {
  std::size_t segments = 0, in_use = 0, cached = 0, largest = 0;
};

std::string line(const std::string& stream, const std::string& pool, const std::string& sizes,
                 const std::string& segments, const std::string& in_use, const std::string& cached,
                 const std::string& largest) {
  char text[160];
  std::snprintf(text, sizeof(text), "%-10s %-8s %-6s %9s %12s %12s %13s\n", stream.c_str(), pool.c_str(),
                sizes.c_str(), segments.c_str(), in_use.c_str(), cached.c_str(), largest.c_str());
  return text;
}

Row row_of(const Heap& heap, const std::vector<std::unique_ptr<Segment>>& segments) {
  Row row;
  for (const std::unique_ptr<Segment>& segment : segments) {
    if (segment->heap != &heap) continue;
    ++row.segments;
    for (const Block* block = segment->first; block != nullptr; block = block->after) {
      (block->is_free ? row.cached : row.in_use) += block->size;
      if (block->is_free) row.largest = std::max(row.largest, block->size);
    }
  }
  return row;
}

}  // namespace

std::string CachingAllocator::table() {
  std::string text = to_string(Device::cuda(index_)) + ": " + human(stats_.current) +
                     " held by tensors (peak " + human(stats_.peak) + "), " + human(stats_.reserved) +
                     " reserved, " + free_on_device(index_) + "\n";
  text += line("stream", "pool", "sizes", "segments", "in use", "cached", "largest free");
  std::map<const MemoryPool*, std::size_t> graphs;
  for (const std::unique_ptr<Heap>& heap : heaps_) {
    const Row row = row_of(*heap, segments_);
    if (row.segments == 0) continue;
    if (heap->pool != nullptr) graphs.try_emplace(heap->pool, graphs.size() + 1);
    text += line(heap->stream->id() == 0 ? "default" : std::to_string(heap->stream->id()),
                 heap->pool == nullptr ? "shared" : "graph " + std::to_string(graphs[heap->pool]),
                 heap->small ? "small" : "large", std::to_string(row.segments), human(row.in_use),
                 human(row.cached), human(row.largest));
  }
  return text;
}

std::string CachingAllocator::summary() {
  const std::scoped_lock lock(mutex_);
  return table();
}

void CachingAllocator::out_of_memory(std::size_t asked) {
  const std::string_view op = mezzo::detail::current_op;
  std::string held = table();
  held.pop_back();  // the newline
  throw OutOfMemoryError(
      op.empty() ? std::string_view("allocate") : op,
      std::to_string(asked) + " bytes (" + human(asked) + ") on " + to_string(Device::cuda(index_)),
      "no such block, with this held:\n" + held,
      captures_ > 0
          ? "during a capture unused memory cannot be given back: call empty_cache() before it, or use "
            "a smaller batch"
          : "use a smaller batch or model, free tensors, or end other programs on the device");
}

}  // namespace mezzo::cuda
