// Threads that do not share their loops: those which work beside a program's own threads.
#pragma once

#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// Loops of the calling thread run on it alone while it lives (see run_chunks). For local variables.
class AloneScope : NoCopy {
 public:
  AloneScope() noexcept;
  ~AloneScope();

 private:
  bool before_;
};

}  // namespace mezzo::detail
