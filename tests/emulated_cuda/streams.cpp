// The order of work: within a stream, between streams by events, and with the default stream.
#include "streams.h"

#include <utility>

#include "capture.h"
#include "meeting.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

bool blocking(const CUstream_st& stream) {
  return !stream.is_default && (stream.flags & cudaStreamNonBlocking) == 0;
}

/// Everything before `number` in streams that the default stream of `device` takes turns with.
bool run_turns_before(CUstream_st& stream, std::uint64_t number, Patience patience) {
  if (!stream.is_default && !blocking(stream)) return true;
  const auto& all = runtime().streams;
  for (std::size_t i = all.size(); i-- > 0;) {
    CUstream_st& other = *all[i];
    if (other.device != stream.device || (stream.is_default ? !blocking(other) : !other.is_default)) continue;
    while (!other.queue.empty() && other.queue.front().number < number) {
      if (!run_one(&other, patience)) return false;
    }
  }
  return true;
}

/// Runs a task with access to the memory that it may touch. Not to be left by an exception: the queues would
/// be in an unknown state.
void run_task(const CUstream_st& stream, const Task& task) noexcept {
  Runtime& state = runtime();
  DeviceMemory& memory = *state.devices[static_cast<std::size_t>(stream.device)];
  state.in_task = true;
  if (task.on_host) {
    const HostTurn closed(memory);
    task.run();
  } else {
    const DeviceAccess access(memory);
    const int peer = task.peer < 0 ? stream.device : task.peer;
    const DeviceAccess peer_access(*state.devices[static_cast<std::size_t>(peer)]);
    task.run();
  }
  state.in_task = false;
}

}  // namespace

cudaStream_t find_stream(cudaStream_t handle) {
  const auto& all = runtime().streams;
  if (reinterpret_cast<std::uintptr_t>(handle) <= 1) {
    return all[static_cast<std::size_t>(current_device())].get();
  }
  for (const auto& stream : all) {
    if (stream.get() == handle) return stream->destroyed ? nullptr : handle;
  }
  return nullptr;
}

void push(cudaStream_t stream, Entry entry) {
  entry.number = ++runtime().submissions;
  stream->queue.push_back(std::move(entry));
}

cudaError_t submit(cudaStream_t stream, TaskPtr task) {
  if (const cudaError_t error = check_implicit(stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) return capture_task(*stream, std::move(task));
  if (task->join) {
    auto meeting = task->join();
    if (meeting == nullptr) return cudaErrorLaunchFailure;
    meeting->come.push_back(stream);
    push(stream, {0, nullptr, nullptr, nullptr, std::move(meeting)});
    announce_progress();
    return cudaSuccess;
  }
  push(stream, {0, std::move(task), nullptr, nullptr});
  return cudaSuccess;
}

bool run_one(cudaStream_t stream, Patience patience) {
  if (stream->queue.empty()) return true;
  const std::uint64_t number = stream->queue.front().number;
  // Who waits lets other threads run work.
  const auto is_first = [&] { return !stream->queue.empty() && stream->queue.front().number == number; };
  if (!run_turns_before(*stream, number, patience)) return false;
  if (!is_first()) return true;
  if (const auto wait = stream->queue.front().wait; wait != nullptr && !run_until(wait, patience))
    return false;
  if (!is_first()) return true;
  if (const auto meeting = stream->queue.front().meeting; meeting != nullptr)
    return run_meeting(*stream, *meeting, patience);
  const Entry entry = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (entry.record != nullptr) {
    entry.record->done = true;
    entry.record->when = std::chrono::steady_clock::now();
  }
  // After a failure nothing runs any more.
  if (entry.task != nullptr && runtime().broken == cudaSuccess) run_task(*stream, *entry.task);
  return true;
}

void run_stream(cudaStream_t stream) {
  if (!stream->is_default && stream->queue.empty()) return;
  const DeviceAccess access(*runtime().devices[static_cast<std::size_t>(stream->device)]);
  if (stream->is_default) run_turns_before(*stream, runtime().submissions + 1, Patience::waits);
  while (!stream->queue.empty()) run_one(stream, Patience::waits);
}

bool run_until(const std::shared_ptr<Marker>& marker, Patience patience) {
  if (marker->done) return true;
  const DeviceAccess access(*runtime().devices[static_cast<std::size_t>(marker->stream->device)]);
  while (!marker->done) {
    if (!run_one(marker->stream, patience)) return false;
  }
  return true;
}

void drop_destroyed() {
  if (runtime().waiting > 0) return;  // threads that wait hold streams
  std::erase_if(runtime().streams,
                [](const auto& stream) { return stream->destroyed && stream->queue.empty(); });
}

void run_device(int device) {
  auto& all = runtime().streams;
  const DeviceAccess access(*runtime().devices[static_cast<std::size_t>(device)]);
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i]->device == device) run_stream(all[i].get());
  }
  drop_destroyed();
}

}  // namespace emulated_cuda
