// Work: a collective under way, and what is thrown when it cannot be completed.
#pragma once

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo::dist {

/// A collective could not be completed: another process is gone, late, or makes other calls.
class CommunicationError : public Error {
  using Error::Error;
};

/// The collective under way behind a Work.
class WorkState : public RefCounted {
 public:
  virtual void wait() = 0;
  [[nodiscard]] virtual bool is_completed() = 0;
};

/// A collective that may still be under way. Copies are of the same one. Leave the memory that it reads and
/// writes alone until it is done; it is kept alive as long.
class Work {
 public:
  /// One that is done.
  Work() noexcept = default;
  explicit Work(Ref<WorkState> state) noexcept : state_(std::move(state)) {}

  /// On the CPU: until it is done. On CUDA: the current stream waits for it, the host does not. Throws: what
  /// the collective threw.
  void wait() const {
    if (state_) state_->wait();
  }
  /// Whether wait() would return at once.
  [[nodiscard]] bool is_completed() const { return !state_ || state_->is_completed(); }

 private:
  Ref<WorkState> state_;
};

}  // namespace mezzo::dist
