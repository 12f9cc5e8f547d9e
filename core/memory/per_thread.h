// One object of a type per thread, made when the thread first asks for it. Used in place of thread_local for
// whatever is not a few bytes: a library that is opened by dlopen gets its thread-local memory from a small
// common reserve.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// The calling thread's object in a slot, or nullptr.
[[nodiscard]] void* thread_object(std::size_t slot) noexcept;
/// A slot that no other PerThread has.
[[nodiscard]] std::size_t new_thread_slot() noexcept;
/// Keeps `object` in the calling thread's slot; `destroy` is called with it when the thread ends, last made
/// first.
void keep_thread_object(std::size_t slot, void* object, void (*destroy)(void*) noexcept);

/// For variables of static storage duration: `static constinit PerThread<Scratch> scratch;`. Code that asks
/// for its object while the thread's objects are destroyed gets a new object, which stays.
template <class T>
class PerThread : NoCopy {
 public:
  constexpr PerThread() noexcept = default;

  /// The thread's object if it has one: makes none, so it cannot fail.
  [[nodiscard]] T* find() const noexcept {
    const std::size_t slot = slot_.load(std::memory_order_acquire);
    return slot != 0 ? static_cast<T*>(thread_object(slot)) : nullptr;
  }
  [[nodiscard]] T& get() {
    if (T* const object = find()) return *object;
    return make();
  }

 private:
  T& make() {
    std::size_t slot = slot_.load(std::memory_order_acquire);
    if (slot == 0) {
      const std::size_t fresh = new_thread_slot();
      if (slot_.compare_exchange_strong(slot, fresh, std::memory_order_acq_rel)) slot = fresh;
    }
    auto object = std::make_unique<T>();
    keep_thread_object(slot, object.get(), [](void* kept) noexcept { delete static_cast<T*>(kept); });
    return *object.release();
  }

  std::atomic<std::size_t> slot_{0};  // 0: none yet
};

}  // namespace mezzo::detail
