// Threads of the library take no signals of the program that it is part of.
#pragma once

#include <pthread.h>

#include <csignal>

#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// Threads that begin while it lives get none of the host's signals, which are for the host's threads. Faults
/// of their own stay theirs.
class SignalsBlocked : NoCopy {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace mezzo::detail
