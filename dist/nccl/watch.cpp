// The thread that watches NCCL's collectives.
#include "mezzo/dist/nccl/watch.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel/signals_blocked.h"
#include "mezzo/dist/init.h"
#include "mezzo/dist/nccl/nccl.h"

namespace mezzo::dist {

namespace {

/// How often the thread looks.
std::chrono::milliseconds interval(std::chrono::milliseconds timeout) {
  return std::clamp(timeout / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
}

std::string late(const std::string& what, std::chrono::milliseconds timeout) {
  return what + " has not ended within " + number_text(static_cast<double>(timeout.count()) / 1000) +
         " s: another process is gone, hangs, or makes other calls";
}

}  // namespace

Watch& Watch::of_process() {
  static auto& one = *new Watch;  // never destroyed: its thread may run to the end
  return one;
}

Watch::Call::Call(const WatchedGroup& group, std::string what) : group_(group), what_(std::move(what)) {
  Watch& watch = of_process();
  const std::scoped_lock lock(watch.mutex_);
  place_ = watch.calls_.insert(watch.calls_.end(), this);
  watch.begin();
}

Watch::Call::~Call() {
  Watch& watch = of_process();
  const std::scoped_lock lock(watch.mutex_);
  watch.calls_.erase(place_);
}

void Watch::add(ncclComm_t comm, const WatchedGroup& group) {
  const std::scoped_lock lock(mutex_);
  communicators_.push_back({comm, &group});
  begin();
}

void Watch::remove(ncclComm_t comm) noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase_if(communicators_, [comm](const Communicator& known) { return known.comm == comm; });
}

void Watch::Mark::set(const cuda::Stream& stream, const WatchedGroup& group, const std::string& what) {
  event.record(stream);
  is_set = true;
  when = Clock::now();
  timeout = group.timeout;
  text = what + ", " + group.text + ",";
}

void Watch::enqueued(const cuda::Stream& stream, const WatchedGroup& group, const std::string& what) {
  const std::scoped_lock lock(mutex_);
  Marks& marks = marks_[stream.device().index];
  (marks.awaited.is_set ? marks.newest : marks.awaited).set(stream, group, what);
}

void Watch::begin() {
  if (ends_ || thread_.joinable()) return;
  static const bool is_ended_at_exit = std::atexit([] { of_process().end(); }) == 0;
  static_cast<void>(is_ended_at_exit);
  const mezzo::detail::SignalsBlocked none;
  thread_ = std::thread([this] { run(); });
}

void Watch::end() noexcept {
  std::unique_lock lock(mutex_);
  ends_ = true;
  changed_.notify_all();
  // The program may end in the thread itself.
  if (!thread_.joinable() || thread_.get_id() == std::this_thread::get_id()) return;
  lock.unlock();
  thread_.join();
}

std::string Watch::look() {
  const auto now = Clock::now();
  for (const Call* const call : calls_)
    if (now > call->begin_ + call->group_.timeout)
      return late(call->what_ + ", " + call->group_.text + ",", call->group_.timeout);
  // Events are asked when their time is over and not before: mostly they are long past then.
  for (auto& [device, marks] : marks_) {
    if (!marks.awaited.is_set || now < marks.awaited.when + marks.awaited.timeout) continue;
    if (!marks.awaited.event.query()) return late(marks.awaited.text, marks.awaited.timeout);
    marks.awaited.is_set = false;
    if (marks.newest.is_set) std::swap(marks.awaited, marks.newest);
  }
  for (const Communicator& known : communicators_) {
    ncclResult_t error = ncclSuccess;
    const ncclResult_t asked = nccl().async_error(known.comm, &error);
    if (asked != ncclSuccess) error = asked;
    if (error != ncclSuccess && error != ncclInProgress)
      return "a collective of " + known.group->text + " has failed: " + describe_nccl(error, known.comm);
  }
  return "";
}

void Watch::run() noexcept {
  // Events may be asked while another thread captures.
  const cuda::RelaxedCapture relaxed;
  std::unique_lock lock(mutex_);
  while (!ends_) {
    std::chrono::milliseconds pause(1000);
    for (const Call* const call : calls_) pause = std::min(pause, interval(call->group_.timeout));
    for (const Communicator& known : communicators_) pause = std::min(pause, interval(known.group->timeout));
    changed_.wait_for(lock, pause);
    std::string why;
    try {
      if (!ends_) why = look();
    } catch (const std::exception& error) {
      why = error.what();  // an event of a device that has failed
    }
    if (why.empty()) continue;
    lock.unlock();
    abort("NCCL: " + why);
  }
}

}  // namespace mezzo::dist
