// Stacks that take turns on one thread of the host. Each thread of a block that waits keeps one.
#pragma once

#include <cstddef>

namespace emulated_cuda {

/// A stack and the place where it stopped. The host's own stack is one, too: default-constructed.
struct Fiber {
  void* context = nullptr;       ///< where to go on; set when the fiber is left
  const void* bottom = nullptr;  ///< lowest address of the stack
  std::size_t size = 0;          ///< its bytes
  void* fake_stack = nullptr;    ///< AddressSanitizer's
};

/// Leaves `from`, which runs now, for `to`. Returns when some fiber switches back to `from`.
void switch_fiber(Fiber& from, Fiber& to);

/// A free fiber: one that was given back, or a new one. It runs `loop(fiber)` when first switched to, which
/// must not return. Fibers live as long as the process.
Fiber& take_fiber(void (*loop)(Fiber&));
/// `fiber` is in its loop with nothing to do, about to be left, and may be taken again.
void give_back_fiber(Fiber& fiber);

/// Whether `address` is in the guard pages below some fiber's stack. Safe in a signal handler.
bool in_fiber_guard(const void* address);

}  // namespace emulated_cuda
