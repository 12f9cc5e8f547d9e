// The seam for what wants to know which ops run: model summaries and traces install themselves here. Ops know
// nothing of it, and a thread without an observer pays one comparison per call.
#pragma once

#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"

namespace mezzo {

/// Is called for the ops that run on this thread, also in a backward, and for autocast's casts; a cast comes
/// before the op it is made for. Ops that an op calls in its own forward are part of it and not reported.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  /// Called after forward. `inputs`: the tensors it ran on, after autocast; `run_dtype` as in ForwardArgs.
  /// Its exceptions pass on to the caller of the op. It may end its own guard and destroy its own object,
  /// which is not used after the call.
  virtual void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
                   const Outputs& outputs) = 0;
  /// For observers that read attributes, too: called for each op instead of `ran`, which it calls.
  virtual void ran_with(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
                        const Outputs& outputs, const AttrsView& /*attrs*/) {
    ran(info, inputs, run_dtype, outputs);
  }
};

/// The observer of the calling thread, else the process'; nullptr: none.
[[nodiscard]] OpObserver* op_observer() noexcept;

/// The observer of all threads that have none of their own. It must outlive the process' last op.
[[nodiscard]] OpObserver* process_op_observer() noexcept;
void set_process_op_observer(OpObserver* observer) noexcept;

namespace detail {
[[nodiscard]] ScopeList<OpObserver*>& op_observers() noexcept;  // of the calling thread
extern template class ScopeGuard<OpObserver*, op_observers>;
extern template class LocalScope<OpObserver*, op_observers>;
using OpObserverFrame = LocalScope<OpObserver*, op_observers>;
}  // namespace detail

/// Installs an observer (nullptr: none) on its thread while it lives; of several the newest that lives is
/// called. They may end in any order, on another thread while no op runs on the thread that they watch, and
/// after that thread. The observer must live as long as its guard.
class OpObserverGuard : detail::ScopeGuard<OpObserver*, detail::op_observers> {
 public:
  using ScopeGuard::ScopeGuard;
  /// The observer that was there before this one and still lives, else the process', or nullptr: observers
  /// that nest pass their calls on to it. Ask anew in each call, on the guard's thread, as an older observer
  /// may end first.
  [[nodiscard]] OpObserver* outer() const noexcept { return outer_or(process_op_observer()); }
};

}  // namespace mezzo
