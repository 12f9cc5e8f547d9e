// The slow path of the lock: a thread that finds it held sleeps.
#include "mezzo/autograd/leaf_lock.h"

namespace mezzo::autograd {

void LeafLock::wait_for_it() noexcept {
  // A thread that has waited marks the lock as waited for when it takes it, as other threads may wait still;
  // at worst one is woken in vain.
  while (state_.exchange(kWaitedFor, std::memory_order_acquire) != kFree)
    state_.wait(kWaitedFor, std::memory_order_relaxed);
}

}  // namespace mezzo::autograd
