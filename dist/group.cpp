// Groups: which ranks they are made of.
#include "mezzo/dist/group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"

namespace mezzo::dist {

Group::Group() : state_(make_ref<GroupState>(0, 1, nullptr, nullptr, MakeDeviceTransport())) {}
Group::Group(Ref<GroupState> state) noexcept : state_(std::move(state)) {}
Group::Group(const Group& other) noexcept = default;
Group::Group(Group&& other) noexcept = default;
Group& Group::operator=(Group other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Group::~Group() = default;

int Group::rank() const noexcept { return state_->rank(); }
int Group::size() const noexcept { return state_->size(); }

Group Group::split(const std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool is_there = ranks[i] >= 0 && ranks[i] < size();
    const bool comes_twice = std::count(ranks.begin(), ranks.end(), ranks[i]) > 1;
    if (is_there && !comes_twice) continue;
    throw ValueError("Group.split", "ranks of the group, each once",
                     std::to_string(ranks[i]) + (is_there ? " twice" : ""),
                     "name ranks in [0, " + std::to_string(size()) + ")");
  }
  if (ranks.empty()) throw ValueError("Group.split", "at least one rank", "none", "name the group's ranks");
  Ref<GroupState> part = state_->split(ranks);
  return part ? Group(std::move(part)) : Group();
}

}  // namespace mezzo::dist
