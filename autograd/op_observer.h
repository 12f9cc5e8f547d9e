// The seam for what wants to know which ops run: model summaries and traces install themselves here. Ops know
// nothing of it, and a thread without an observer pays one comparison per call.
#pragma once

#include "mezzo/autograd/op.h"

namespace mezzo {

/// Is told of the ops that run on this thread. Ops that an op calls inside of its own forward are part of it
/// and not told of; the ops of a backward are, and autocast's casts, which come before the op they are for.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  /// After forward. `inputs` are those that it ran on, after autocast; `run_dtype` as in ForwardArgs.
  virtual void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
                   const Outputs& outputs) = 0;
};

/// The observer of the calling thread; nullptr: none.
[[nodiscard]] OpObserver* op_observer() noexcept;

/// Installs an observer (nullptr: none) for a scope.
class OpObserverGuard {
 public:
  explicit OpObserverGuard(OpObserver* observer) noexcept;
  ~OpObserverGuard();
  OpObserverGuard(const OpObserverGuard&) = delete;
  OpObserverGuard& operator=(const OpObserverGuard&) = delete;

 private:
  OpObserver* previous_;
};

}  // namespace mezzo
