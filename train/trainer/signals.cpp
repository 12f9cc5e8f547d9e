// The handler does no more than set a flag, which is all that one may do.
#include "mezzo/train/trainer/signals.h"

namespace mezzo::train::detail {

namespace {

volatile std::sig_atomic_t come = 0;

void note(int /*signal*/) { come = 1; }

}  // namespace

SignalWatch::SignalWatch() {
  come = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGUSR1, &action, &user_);
}

SignalWatch::~SignalWatch() {
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGUSR1, &user_, nullptr);
}

bool SignalWatch::has_come() noexcept { return come != 0; }

}  // namespace mezzo::train::detail
