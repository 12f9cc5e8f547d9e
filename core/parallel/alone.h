// Threads that do not share their loops: those which work beside a program's own threads.
#pragma once

namespace mezzo::detail {

/// Loops of the calling thread run on it alone while it lives (see run_chunks). For local variables.
class AloneScope {
 public:
  AloneScope() noexcept;
  ~AloneScope();
  AloneScope(const AloneScope&) = delete;
  AloneScope& operator=(const AloneScope&) = delete;

 private:
  bool before_;
};

}  // namespace mezzo::detail
