// Locks of the whole process, which a child of fork() has to find free: it has none of its parent's other
// threads, one of which might have held a lock, and would wait for ever.
#pragma once

#include <pthread.h>

namespace mezzo::detail {

/// To be called once for a lock, while the library is loaded: pthread_atfork waits for a fork() under way,
/// and a static object that a thread is making meanwhile stays half made in the child, which then waits for
/// it. fork() waits for the lock, and parent and child go on without it. `Lock` is the type of a lambda
/// without captures that returns the mutex. Whoever holds that one must not wait for another such lock.
template <class Lock>
int hold_over_fork(Lock /*lock*/) noexcept {
  return pthread_atfork([] { Lock{}().lock(); }, [] { Lock{}().unlock(); }, [] { Lock{}().unlock(); });
}

}  // namespace mezzo::detail
