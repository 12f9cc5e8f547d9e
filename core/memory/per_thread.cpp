// The objects of a thread lie on the heap, behind one thread-local pointer.
#include "mezzo/core/memory/per_thread.h"

#include <utility>
#include <vector>

namespace mezzo::detail {

namespace {

struct Object {
  std::size_t slot;
  void* object;
  void (*destroy)(void*) noexcept;
};

struct ThreadObjects {
  std::vector<void*> by_slot;
  std::vector<Object> in_order;  // as they were made
};

constinit thread_local ThreadObjects* of_thread = nullptr;
std::atomic<std::size_t> slots{1};

/// Destroys them when the thread ends. A destructor may ask for another of these objects: if that is gone
/// already, it is made anew and destroyed in its turn.
struct Owner {
  ~Owner() {
    while (of_thread != nullptr) {
      ThreadObjects& objects = *of_thread;
      if (objects.in_order.empty()) {
        delete std::exchange(of_thread, nullptr);
        return;
      }
      const Object last = objects.in_order.back();
      objects.in_order.pop_back();
      objects.by_slot[last.slot] = nullptr;
      last.destroy(last.object);
    }
  }
};

/// Not a local of the function below: its guard would be 8 bytes of thread-local memory, of which there are
/// 256 (tests/plugin/open_library.cpp).
thread_local Owner owner;

ThreadObjects& objects_of_thread() {
  if (of_thread == nullptr) {
    [[maybe_unused]] const Owner& destroyed_at_the_end = owner;  // naming it registers it
    of_thread = new ThreadObjects();
  }
  return *of_thread;
}

}  // namespace

void* thread_object(std::size_t slot) noexcept {
  const ThreadObjects* const objects = of_thread;
  return objects != nullptr && slot < objects->by_slot.size() ? objects->by_slot[slot] : nullptr;
}

std::size_t new_thread_slot() noexcept { return slots.fetch_add(1, std::memory_order_relaxed); }

void keep_thread_object(std::size_t slot, void* object, void (*destroy)(void*) noexcept) {
  ThreadObjects& objects = objects_of_thread();
  if (objects.by_slot.size() <= slot) objects.by_slot.resize(slot + 1);
  objects.in_order.push_back({slot, object, destroy});
  objects.by_slot[slot] = object;
}

}  // namespace mezzo::detail
