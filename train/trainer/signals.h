// Signals that ask a training to end: SIGTERM, which schedulers and `kill` send, and SIGUSR1, which mpirun
// passes on to its processes.
#pragma once

#include <csignal>

#include "mezzo/core/scope.h"

namespace mezzo::train::detail {

/// While it lives the process does not end by these signals: it notes that one has come. One at a time.
class SignalWatch : mezzo::detail::NoCopy {
 public:
  SignalWatch();
  ~SignalWatch();
  [[nodiscard]] static bool has_come() noexcept;

 private:
  struct sigaction terminate_ = {}, user_ = {};  ///< as they were
};

}  // namespace mezzo::train::detail
