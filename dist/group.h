// Group: processes that work together, and this one's place among them.
#pragma once

#include <vector>

#include "mezzo/core/ref_counted.h"
#include "mezzo/dist/work.h"

namespace mezzo::dist {

class GroupState;  // dist/detail/group_state.h

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
