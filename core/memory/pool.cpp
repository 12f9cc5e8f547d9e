// Free lists in classes of 32 bytes up to 4 KiB, with a limit on the cells kept per class. A thread that
// ends returns its cells to the system. Under AddressSanitizer nothing is kept.
#include "mezzo/core/memory/pool.h"

#include <array>
#include <atomic>
#include <new>

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

// A thread that ends gives its cells back to the system. Objects destroyed after that (other thread-locals,
// statics) see `closed` and go to the system directly.
struct FreeLists {
  std::array<FreeCell*, kClasses> head{};
  std::array<std::uint32_t, kClasses> count{};
  ~FreeLists();
};

// AddressSanitizer must see every free, so under it nothing is kept.
#if defined(__SANITIZE_ADDRESS__)
thread_local bool closed = true;
#else
thread_local bool closed = false;
#endif
thread_local FreeLists lists;

FreeLists::~FreeLists() {
  closed = true;
  for (std::size_t i = 0; i < kClasses; ++i) {
    while (head[i] != nullptr) {
      FreeCell* cell = head[i];
      head[i] = cell->next;
      ::operator delete(cell);
    }
  }
}

constexpr std::size_t class_of(std::size_t bytes) { return bytes == 0 ? 0 : (bytes - 1) / kStep; }

}  // namespace

void* allocate(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  if (index < kClasses && !closed && lists.head[index] != nullptr) {
    FreeCell* cell = lists.head[index];
    lists.head[index] = cell->next;
    --lists.count[index];
    return cell;
  }
  system_calls.fetch_add(1, std::memory_order_relaxed);
  return ::operator new(index < kClasses ? (index + 1) * kStep : bytes);
}

void deallocate(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (memory == nullptr) return;
  if (index >= kClasses || closed || lists.count[index] >= kMaxCached) {
    ::operator delete(memory);
    return;
  }
  lists.head[index] = ::new (memory) FreeCell{lists.head[index]};
  ++lists.count[index];
}

std::uint64_t system_allocations() noexcept { return system_calls.load(std::memory_order_relaxed); }

}  // namespace mezzo::pool
