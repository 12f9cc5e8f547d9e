// The way of a thread that finds the lock held.
#include "mezzo/autograd/leaf_lock.h"

namespace mezzo::autograd {

void LeafLock::wait_for_it() noexcept {
  // Whoever has waited takes the lock as waited for, as there may be more threads; at worst one is woken in
  // vain.
  while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
    state_.wait(kWaitedFor, std::memory_order_relaxed);
}

}  // namespace mezzo::autograd
