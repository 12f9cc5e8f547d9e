// A number that threads change together: what the reference counts and versions of the library need of
// std::atomic, whose header costs each file that includes it more than this one has lines.
#pragma once

#include "mezzo/core/host_device.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// T: an integer type. Both compilers have these built-ins, and both thread sanitizers know them.
template <class T>
class AtomicCount : detail::NoCopy {
 public:
  constexpr explicit AtomicCount(T value) noexcept : value_(value) {}

  [[nodiscard]] T load_relaxed() const noexcept { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  [[nodiscard]] T load_acquire() const noexcept { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  void store_relaxed(T value) noexcept { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }
  /// Adds, and returns the value before.
  T add_relaxed(T change) noexcept { return __atomic_fetch_add(&value_, change, __ATOMIC_RELAXED); }
  T add_acq_rel(T change) noexcept { return __atomic_fetch_add(&value_, change, __ATOMIC_ACQ_REL); }

 private:
  T value_;
};

}  // namespace mezzo
