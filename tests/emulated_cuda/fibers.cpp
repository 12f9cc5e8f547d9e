// Fibers on Boost.Context's assembly, with stacks of their own above guard pages.
#include "fibers.h"

#include <sys/mman.h>

#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "asan.h"

namespace emulated_cuda {
namespace {

namespace context = boost::context::detail;

/// Wider than the frames of sensible kernels, so that none steps over it.
constexpr std::size_t kGuard = 64 * 1024;
/// AddressSanitizer's frames are several times as large.
constexpr std::size_t kStack = asan::kActive ? 256 * 1024 : 64 * 1024;
constexpr std::size_t kSlot = kStack + kGuard;
/// More than two blocks' worth: fibers are not given back to the system.
constexpr std::size_t kMost = 2048;

/// All stacks in one reservation, so that a faulting address is told from others by arithmetic alone.
struct Stacks {
  std::byte* base = nullptr;
  std::atomic<std::size_t> count{0};
  Fiber fibers[kMost];
  std::vector<Fiber*> free;
  void (*loop)(Fiber&) = nullptr;
};
Stacks& stacks() {
  static Stacks instance;
  return instance;
}
/// For the signal handler, which must not run a static's initialisation.
std::atomic<std::byte*> stack_base{nullptr};

/// After each switch: where the previous fiber stopped, and, for the host's stack, where it lies.
void arrive(const context::transfer_t& from, Fiber& here) {
  Fiber& previous = *static_cast<Fiber*>(from.data);
  previous.context = from.fctx;
  asan::arrive(here.fake_stack, &previous.bottom, &previous.size);
}

/// The fiber that is about to run for the first time.
Fiber* starting = nullptr;

void enter(context::transfer_t from) {
  Fiber& here = *starting;
  arrive(from, here);
  stacks().loop(here);
  std::abort();  // a loop does not return
}

Fiber& make_fiber() {
  Stacks& all = stacks();
  if (all.base == nullptr) {
    void* memory =
        mmap(nullptr, kMost * kSlot, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fputs("emulated CUDA: no address space for the stacks of kernel threads\n", stderr);
      std::abort();
    }
    all.base = static_cast<std::byte*>(memory);
    stack_base = all.base;
  }
  const std::size_t index = all.count;
  std::byte* const bottom = all.base + index * kSlot + kGuard;
  if (index == kMost || mprotect(bottom, kStack, PROT_READ | PROT_WRITE) != 0) {
    std::fputs("emulated CUDA: no more stacks for kernel threads\n", stderr);
    std::abort();
  }
  all.count = index + 1;
  Fiber& fiber = all.fibers[index];
  fiber.bottom = bottom;
  fiber.size = kStack;
  fiber.context = context::make_fcontext(bottom + kStack, kStack, enter);
  return fiber;
}

}  // namespace

void switch_fiber(Fiber& from, Fiber& to) {
  starting = &to;
  asan::leave(&from.fake_stack, to.bottom, to.size);
  arrive(context::jump_fcontext(to.context, &from), from);
}

Fiber& take_fiber(void (*loop)(Fiber&)) {
  Stacks& all = stacks();
  all.loop = loop;
  if (all.free.empty()) return make_fiber();
  Fiber& fiber = *all.free.back();
  all.free.pop_back();
  return fiber;
}

void give_back_fiber(Fiber& fiber) { stacks().free.push_back(&fiber); }

bool in_fiber_guard(const void* address) {
  const std::byte* const base = stack_base;
  const auto* const at = static_cast<const std::byte*>(address);
  if (base == nullptr || at < base || at >= base + kMost * kSlot) return false;
  return static_cast<std::size_t>(at - base) % kSlot < kGuard;
}

}  // namespace emulated_cuda
