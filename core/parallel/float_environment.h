// How the processor rounds and what it does with subnormal numbers: a setting of each thread, which a host
// program may change. A loop computes with its caller's on all threads.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include "mezzo/core/scope.h"

namespace mezzo::detail {

#if defined(__SSE__)
/// Rounding, flush-to-zero and denormals-are-zero of the vector unit, without the flags of what happened, and
/// the control word of the x87 unit, where std::fegetround looks.
class FloatEnvironment {
 public:
  [[nodiscard]] static FloatEnvironment current() noexcept {
    FloatEnvironment result;
    result.vector_ = _mm_getcsr() & ~kFlags;
    asm volatile("fnstcw %0" : "=m"(result.x87_));
    return result;
  }
  /// What every program begins with: rounding to nearest, subnormal numbers as they are, no traps.
  [[nodiscard]] static FloatEnvironment standard() noexcept {
    FloatEnvironment result;
    result.vector_ = 0x1f80;
    result.x87_ = 0x037f;
    return result;
  }
  void set() const noexcept {
    _mm_setcsr(vector_);
    asm volatile("fldcw %0" : : "m"(x87_));
  }
  [[nodiscard]] bool operator==(const FloatEnvironment&) const noexcept = default;

 private:
  static constexpr unsigned kFlags = 0x3f;
  FloatEnvironment() noexcept = default;
  unsigned vector_ = 0;
  unsigned short x87_ = 0;
};
#else
class FloatEnvironment {
 public:
  [[nodiscard]] static FloatEnvironment current() noexcept {
    FloatEnvironment result;
    std::fegetenv(&result.environment_);
    return result;
  }
  [[nodiscard]] static FloatEnvironment standard() noexcept {
    const FloatEnvironment before = current();
    std::fesetenv(FE_DFL_ENV);
    const FloatEnvironment result = current();
    before.set();
    return result;
  }
  void set() const noexcept { std::fesetenv(&environment_); }
  [[nodiscard]] bool operator==(const FloatEnvironment&) const noexcept { return false; }

 private:
  FloatEnvironment() noexcept = default;
  std::fenv_t environment_;
};
#endif

/// The caller's environment on another thread, which has its own again afterwards.
class WithFloatEnvironment : NoCopy {
 public:
  explicit WithFloatEnvironment(FloatEnvironment environment) noexcept
      : before_(FloatEnvironment::current()), changed_(!(before_ == environment)) {
    if (changed_) environment.set();
  }
  ~WithFloatEnvironment() {
    if (changed_) before_.set();
  }

 private:
  FloatEnvironment before_;
  bool changed_;
};

}  // namespace mezzo::detail
