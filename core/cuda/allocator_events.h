// Calls of the caching allocator by streams, graphs and tensors. Apart from its class, which needs streams
// and pools itself. Defined in caching_allocator.cpp.
#pragma once

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

class MemoryPool;

/// CachingAllocator::record_stream.
void record_memory_use(int index, const void* memory, const Stream& stream);
/// CachingAllocator::stream_gone and pool_gone, where the device has an allocator.
void stream_gone(int index, const Stream& stream) noexcept;
void pool_gone(int index, MemoryPool& pool) noexcept;
/// CachingAllocator::capture_begins and capture_ends.
void capture_begins(int index);
void capture_ends(int index) noexcept;
/// Whether any thread captures a graph on the device.
[[nodiscard]] bool is_captured(int index);

}  // namespace mezzo::cuda
