// Meetings: waiting for other threads, bringing all streams to one place, and the work there.
#include "meeting.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <utility>

#include "copies.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

/// Longer than any test computes between two collectives.
constexpr std::chrono::seconds kLongest{150};

std::condition_variable_any& progress() {
  static auto& one = *new std::condition_variable_any;  // threads may wait to the very end
  return one;
}

bool is_first(const CUstream_st& stream, const Meeting& meeting) {
  return !stream.queue.empty() && stream.queue.front().meeting.get() == &meeting;
}

/// Until there is progress; other threads use the device meanwhile.
void wait_for_threads() {
  Runtime& state = runtime();
  ++state.waiting;
  progress().wait_for(runtime_mutex(), std::chrono::milliseconds(50));
  --state.waiting;
}

/// Whether `stream` has still to come here, all others have come, and nobody else brings them together.
bool wait_for_all(const CUstream_st& stream, const Meeting& meeting, Patience patience) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  const auto is_held_up = [&] {
    const bool others = meeting.runner != std::thread::id() && meeting.runner != std::this_thread::get_id();
    return is_first(stream, meeting) && !meeting.is_cancelled && runtime().broken == cudaSuccess &&
           (meeting.come.size() < meeting.size || others);
  };
  while (is_held_up()) {
    if (patience == Patience::none) return false;
    if (std::chrono::steady_clock::now() > deadline) {
      const std::string text = meeting.what + ": " + std::to_string(meeting.come.size()) + " of " +
                               std::to_string(meeting.size) + " streams have come to it in time";
      fail_operation(text.c_str());
    }
    wait_for_threads();
  }
  return true;
}

void run_work(const Meeting& meeting) noexcept {
  Runtime& state = runtime();
  std::vector<std::unique_ptr<DeviceAccess>> open;
  for (const cudaStream_t stream : meeting.come)
    open.push_back(std::make_unique<DeviceAccess>(*state.devices[static_cast<std::size_t>(stream->device)]));
  state.in_task = true;
  meeting.work();
  state.in_task = false;
}

}  // namespace

void announce_progress() { progress().notify_all(); }

bool run_meeting(CUstream_st& stream, Meeting& meeting, Patience patience) {
  const std::shared_ptr<Meeting> alive = stream.queue.front().meeting;
  if (!wait_for_all(stream, meeting, patience)) return false;
  const auto is_over = [&] { return meeting.is_cancelled || runtime().broken != cudaSuccess; };
  if (!is_first(stream, meeting)) return true;
  if (!is_over()) {
    if (meeting.runner == std::this_thread::get_id()) {
      fail_operation(
          (meeting.what + ": its streams come to other meetings in another order and wait forever").c_str());
    }
    meeting.runner = std::this_thread::get_id();
    bool arrives = true;
    for (const cudaStream_t other : meeting.come) {
      while (arrives && !is_over() && !is_first(*other, meeting)) arrives = run_one(other, patience);
    }
    meeting.runner = {};
    announce_progress();
    if (!arrives) return false;
  }
  if (is_over()) {
    if (is_first(stream, meeting)) stream.queue.pop_front();
    return true;
  }
  for (const cudaStream_t other : meeting.come) other->queue.pop_front();
  run_work(meeting);
  announce_progress();
  return true;
}

cudaError_t enqueue_meeting(cudaStream_t stream, JoinMeeting join) {
  return call([&] {
    const cudaStream_t target = find_stream(stream);
    if (target == nullptr || target->device != current_device()) return cudaErrorInvalidResourceHandle;
    auto task = std::make_shared<Task>();
    task->join = std::move(join);
    return submit(target, std::move(task));
  });
}

void cancel(const std::vector<std::shared_ptr<Meeting>>& meetings) {
  const std::lock_guard lock(runtime_mutex());
  for (const auto& meeting : meetings) meeting->is_cancelled = true;
  announce_progress();
}

}  // namespace emulated_cuda
