// The operators. The array forms call these.
#include "mezzo/tests/allocation/counted_new.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> calls{0}, asked{0}, held{0}, most{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  calls.fetch_add(1, std::memory_order_relaxed);
  asked.fetch_add(bytes, std::memory_order_relaxed);
  void* const memory = alignment == 0
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  const std::uint64_t usable = malloc_usable_size(memory);
  const std::uint64_t now = held.fetch_add(usable, std::memory_order_relaxed) + usable;
  std::uint64_t before = most.load(std::memory_order_relaxed);
  while (before < now && !most.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void give_back(void* memory) {
  if (memory != nullptr) held.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  give_back(memory);
}

namespace mezzo::test {

std::uint64_t news() { return calls.load(); }
std::uint64_t bytes_asked() { return asked.load(); }
std::uint64_t bytes_held() { return held.load(); }
std::uint64_t peak_bytes() { return most.load(); }
void start_peak() { most.store(held.load()); }

}  // namespace mezzo::test
