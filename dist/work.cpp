// The members of Work, which its state does.
#include "mezzo/dist/work.h"

#include <utility>

namespace mezzo::dist {

Work::Work() noexcept = default;
Work::Work(Ref<WorkState> state) noexcept : state_(std::move(state)) {}
Work::Work(const Work& other) noexcept = default;
Work::Work(Work&& other) noexcept = default;
Work& Work::operator=(Work other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Work::~Work() = default;

void Work::wait() const {
  if (state_) state_->wait();
}
bool Work::is_completed() const { return !state_ || state_->is_completed(); }

}  // namespace mezzo::dist
