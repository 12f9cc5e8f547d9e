// Size-class free lists, one set per thread, for the small objects that every op makes and drops: tensor
// headers, graph nodes, hash-map cells. After warm-up an op makes no system allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo::pool {

/// Memory of at least `bytes`, aligned to 16. Served from the calling thread's free list up to 4 KiB, else
/// from the system.
[[nodiscard]] void* allocate(std::size_t bytes);

/// Returns memory of `allocate(bytes)`; may be called from another thread than the allocating one.
void deallocate(void* memory, std::size_t bytes) noexcept;

/// Number of requests that had to go to the system, on all threads, since start: what the allocation-count
/// test reads.
[[nodiscard]] std::uint64_t system_allocations() noexcept;

/// Derive from it to have objects of a class allocated here. Deleting through a base needs a virtual
/// destructor.
struct Pooled {
  static void* operator new(std::size_t bytes) { return allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { deallocate(memory, bytes); }

 protected:
  ~Pooled() = default;  // nobody deletes a derived object by it
};

/// Standard allocator over the pool, for containers that live as long as one call.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() noexcept = default;
  template <class U>
  Allocator(const Allocator<U>& /*other*/) noexcept {}
  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(pool::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { pool::deallocate(memory, count * sizeof(T)); }
  friend bool operator==(const Allocator& /*a*/, const Allocator& /*b*/) noexcept { return true; }
};

}  // namespace mezzo::pool
