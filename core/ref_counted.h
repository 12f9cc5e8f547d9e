// Intrusive reference counting for the shared objects of the library: tensor headers, storages, graph nodes.
// One word in the object, relaxed increments, and objects come from the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mezzo/core/atomic_count.h"
#include "mezzo/core/memory/pool.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// Base of intrusively counted, pooled objects. The last `Ref` to go calls `destroy()`.
class RefCounted : public pool::Pooled, detail::NoCopy {
 public:
  RefCounted() = default;
  virtual ~RefCounted() = default;

  void retain() const noexcept { count_.add_relaxed(1); }
  void release() const noexcept {
    if (count_.add_acq_rel(kMinusOne) == 1) const_cast<RefCounted*>(this)->destroy();
  }
  [[nodiscard]] std::uint32_t use_count() const noexcept { return count_.load_acquire(); }

 protected:
  /// Called when the count reaches zero. Overridden by graph nodes, which must not recurse along a long
  /// chain.
  virtual void destroy() noexcept { delete this; }

 private:
  static constexpr std::uint32_t kMinusOne = ~0U;
  mutable AtomicCount<std::uint32_t> count_{0};
};

/// Owning pointer to a RefCounted object.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  Ref(Ref<U> other) noexcept : object_(other.detach()) {}
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// Gives up ownership without counting down; the caller holds the reference now.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// A reference that is empty until a thread sets it, and stays what it is from then on: several threads may
/// ask for it and set it at the same time. Asking is one load.
template <class T>
class OnceRef : detail::NoCopy {
 public:
  OnceRef() noexcept = default;
  ~OnceRef() { reset(); }
  /// The object, or nullptr before it was set.
  [[nodiscard]] T* get() const noexcept { return __atomic_load_n(&object_, __ATOMIC_ACQUIRE); }
  /// Takes `object` unless another thread was faster. Returns the object that is there then.
  T& set(Ref<T> object) noexcept {
    T* there = nullptr;
    if (!__atomic_compare_exchange_n(&object_, &there, object.get(), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
      return *there;
    return *object.detach();
  }
  /// Empty again. Not while another thread uses it.
  void reset() noexcept {
    if (T* const object = std::exchange(object_, nullptr)) object->release();
  }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
[[nodiscard]] Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace mezzo
