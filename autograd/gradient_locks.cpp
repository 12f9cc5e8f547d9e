// Two threads that locked the same leaves in different orders would wait for each other for ever. So one
// thread at a time takes several locks; a thread that holds a single leaf's lock never waits for another.
#include "mezzo/autograd/gradient_locks.h"

#include <pthread.h>

#include <memory>

namespace mezzo::autograd {

namespace {
std::mutex turn;                 // whose turn it is to take many
thread_local int held_here = 0;  // scopes of this thread that are locked

/// A child of fork() has none of its parent's other threads, so nobody's turn it is. Not held over the fork:
/// whoever has it may wait for leaves, and their holders for memory.
[[maybe_unused]] const int turn_is_free_in_child =
    pthread_atfork(nullptr, nullptr, [] { std::construct_at(&turn); });
}  // namespace

GradientLocks::GradientLocks(std::span<const Tensor> leaves) {
  metas_.reserve(leaves.size());
  for (const Tensor& leaf : leaves) {
    if (leaf.defined()) add(leaf);
  }
  lock();
}

void GradientLocks::lock() {
  // A scope within another one (Optimizer::step within GradScaler::step) asks for locks that this thread
  // holds already, so it need not wait for its turn; waiting with locks held could be a deadlock.
  std::unique_lock<std::mutex> my_turn(turn, std::defer_lock);
  if (held_here == 0) my_turn.lock();
  for (AutogradMeta* const meta : metas_) meta->lock.lock();
  locked_ = true;
  ++held_here;
}

GradientLocks::~GradientLocks() {
  if (!locked_) return;
  --held_here;
  for (AutogradMeta* const meta : metas_) meta->lock.unlock();
}

}  // namespace mezzo::autograd
