// The seam for what wants to know which ops run: model summaries and traces install themselves here. Ops know
// nothing of it, and a thread without an observer pays one comparison per call.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// Is told of the ops that run on this thread. Ops that an op calls inside of its own forward are part of it
/// and not told of; the ops of a backward are, and autocast's casts, which come before the op they are for.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  /// After forward. `inputs` are those that it ran on, after autocast; `run_dtype` as in ForwardArgs. What it
  /// throws, the op throws. It may end its own guard and destroy its object: nothing is asked of it after the
  /// call.
  virtual void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
                   const Outputs& outputs) = 0;
};

/// The observer of the calling thread; nullptr: none.
[[nodiscard]] OpObserver* op_observer() noexcept;

/// Installs an observer (nullptr: none) on its thread while it lives; of several the newest that lives is
/// told. They may end in any order, on another thread while no op runs on theirs, and after their thread. The
/// observer must live as long as its guard.
class OpObserverGuard {
 public:
  explicit OpObserverGuard(OpObserver* observer);
  ~OpObserverGuard();
  OpObserverGuard(const OpObserverGuard&) = delete;
  OpObserverGuard& operator=(const OpObserverGuard&) = delete;
  /// Who watched before and still does, for observers that pass on what they are told; nullptr: nobody. To be
  /// asked in each call, on the guard's thread: an older observer may end before this one.
  [[nodiscard]] OpObserver* outer() const noexcept;

 private:
  detail::OpenScope<OpObserver*>* scope_;
};

namespace detail {
/// The same for a local variable of the library, at the price of a few stores.
class OpObserverFrame {
 public:
  explicit OpObserverFrame(OpObserver* observer) noexcept;
  ~OpObserverFrame();
  OpObserverFrame(const OpObserverFrame&) = delete;
  OpObserverFrame& operator=(const OpObserverFrame&) = delete;

 private:
  Scope<OpObserver*> scope_;
};
}  // namespace detail

}  // namespace mezzo
