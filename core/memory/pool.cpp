// Free lists in classes of 32 bytes up to 4 KiB, with a limit on the cells kept per class. A thread that
// ends returns its cells to the system. Under AddressSanitizer nothing is kept.
#include "mezzo/core/memory/pool.h"

#include <array>
#include <atomic>
#include <new>
#include <utility>

#include "mezzo/core/memory/per_thread.h"

namespace mezzo::pool {

namespace {

constexpr std::size_t kStep = 32;  // size classes are multiples of this many bytes
constexpr std::size_t kLargest = 4096;
constexpr std::size_t kClasses = kLargest / kStep;
constexpr std::uint32_t kMaxCached =
    8192;  // per class and thread: bounds what an asymmetric producer/consumer can pile up

std::atomic<std::uint64_t> system_calls{0};

struct FreeCell {
  FreeCell* next;
};

struct FreeLists;
// The lists of this thread: nullptr before its first cell, and again when it ends.
constinit thread_local FreeLists* lists = nullptr;
// Whether the thread has no lists any more. AddressSanitizer must see every free, so under it nothing is
// kept.
#if defined(__SANITIZE_ADDRESS__)
constinit thread_local bool closed = true;
#else
constinit thread_local bool closed = false;
#endif

// A thread that ends gives its cells back to the system. Objects destroyed after that (other thread-locals,
// statics) go to the system directly.
struct FreeLists : detail::NoCopy {
  std::array<FreeCell*, kClasses> head{};
  std::array<std::uint32_t, kClasses> count{};

  FreeLists() noexcept { lists = this; }
  ~FreeLists() {
    lists = nullptr;
    closed = true;
    for (FreeCell* cell : head) {
      while (cell != nullptr) ::operator delete(std::exchange(cell, cell->next));
    }
  }
};

constinit mezzo::detail::PerThread<FreeLists> of_threads;

// Where cells are kept from now on.
void make_lists() {
  if (!closed) static_cast<void>(of_threads.get());
}

constexpr std::size_t class_of(std::size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / kStep; }

}  // namespace

void* allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  FreeLists* const own = lists;
  if (index < kClasses && own != nullptr && own->head[index] != nullptr) {
    --own->count[index];
    return std::exchange(own->head[index], own->head[index]->next);
  }
  if (own == nullptr) make_lists();
  system_calls.fetch_add(1, std::memory_order_relaxed);
  return ::operator new(index < kClasses ? (index + 1) * kStep : bytes);
}

void deallocate(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (memory == nullptr) return;
  FreeLists* const own = lists;
  if (index >= kClasses || own == nullptr || own->count[index] >= kMaxCached) {
    ::operator delete(memory);
    return;
  }
  own->head[index] = ::new (memory) FreeCell{own->head[index]};
  ++own->count[index];
}

std::uint64_t system_allocations() noexcept { return system_calls.load(std::memory_order_relaxed); }

}  // namespace mezzo::pool
