// Group: processes that work together, and this one's place among them. Work: a collective under way.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/error.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo::dist {

class GroupState;  // dist/detail/group_state.h
class WorkState;

/// A collective could not be completed: another process is gone, late, or makes other calls.
class CommunicationError : public Error {
  using Error::Error;
};

/// A collective that may still be under way. Copies are of the same one. What it reads and writes is left
/// alone until it is done, and is kept alive as long.
class Work {
 public:
  /// One that is done.
  Work() noexcept;
  explicit Work(Ref<WorkState> state) noexcept;
  Work(const Work& other) noexcept;
  Work(Work&& other) noexcept;
  Work& operator=(Work other) noexcept;
  ~Work();

  /// On the CPU: until it is done. On CUDA: the current stream waits for it, the host does not. Throws: what
  /// the collective threw.
  void wait() const;
  /// Whether wait() would return at once.
  [[nodiscard]] bool is_completed() const;

 private:
  Ref<WorkState> state_;
};

/// Some of the processes, which make the same calls on it in the same order. Copies are of the same group.
/// Source: torch.distributed.ProcessGroup.
class Group {
 public:
  /// This process alone: collectives on it return what they were given.
  Group();
  explicit Group(Ref<GroupState> state) noexcept;
  Group(const Group& other) noexcept;
  Group(Group&& other) noexcept;
  Group& operator=(Group other) noexcept;
  ~Group();

  /// This process's number in the group, in [0, size()).
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// A group of these of its ranks, in this order. Every process of this group calls it; one that is not
  /// among them gets a group of itself. Throws: ValueError for ranks that are not there or come twice.
  [[nodiscard]] Group split(const std::vector<int>& ranks) const;

  [[nodiscard]] GroupState& state() const noexcept { return *state_; }
  friend bool operator==(const Group& a, const Group& b) noexcept { return a.state_.get() == b.state_.get(); }

 private:
  Ref<GroupState> state_;
};

}  // namespace mezzo::dist
