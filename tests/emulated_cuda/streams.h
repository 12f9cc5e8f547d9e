// Streams as queues of work, and the order in which work runs when somebody asks for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "emulated_cuda/control.h"
#include "emulated_cuda/types.h"

namespace emulated_cuda {

struct Capture;

/// A piece of work. Graphs run theirs again and again.
struct Task {
  std::function<void()> run;
  bool on_host = false;  ///< a host function: it must not touch device memory nor call CUDA
  int peer = -1;         ///< another device whose memory it touches
  JoinMeeting join{};    ///< instead of run: asked each time when it is put into a queue
};
using TaskPtr = std::shared_ptr<const Task>;

/// A place in a stream that an event was recorded at.
struct Marker {
  cudaStream_t stream;
  bool done = false;
  std::chrono::steady_clock::time_point when{};
};

/// An entry of a queue: one of the four.
struct Entry {
  std::uint64_t number;  ///< order of submission over all streams
  TaskPtr task;
  std::shared_ptr<Marker> record, wait;
  std::shared_ptr<Meeting> meeting{};
};

/// Whether whoever runs work may wait for what another thread of the program has yet to put into a stream.
/// Meanwhile others may use the device.
enum class Patience { none, waits };

}  // namespace emulated_cuda

struct CUstream_st {
  int device;
  unsigned flags;
  bool is_default = false;
  bool destroyed = false;  ///< kept until its work is done
  std::deque<emulated_cuda::Entry> queue{};
  std::shared_ptr<emulated_cuda::Capture> capture{};
  std::vector<std::size_t> frontier{};  ///< nodes of the capture that its next node comes after
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<emulated_cuda::Marker> marker{};    ///< of the last record outside of a capture
  std::shared_ptr<emulated_cuda::Capture> capture{};  ///< if it was last recorded in one
  std::vector<std::size_t> frontier{};                ///< the nodes it stands behind, then
};

namespace emulated_cuda {

/// The stream a handle stands for (null and 1: the current device's default stream); null if it is none.
cudaStream_t find_stream(cudaStream_t handle);

bool is_event(cudaEvent_t handle);

/// Puts a piece of work at the end of a stream or into its capture. `stream` is one that find_stream gave.
cudaError_t submit(cudaStream_t stream, TaskPtr task);
/// As submit, for entries that are not captured.
void push(cudaStream_t stream, Entry entry);

/// Runs the first entry of a stream, if it has one, and what has to be done before it. False: that needs
/// patience.
bool run_one(cudaStream_t stream, Patience patience);
/// Runs all that waits in a stream.
void run_stream(cudaStream_t stream);
/// Runs until an event is reached. False: that needs patience.
bool run_until(const std::shared_ptr<Marker>& marker, Patience patience);
/// Runs all work of a device, the last created stream first.
void run_device(int device);
/// Destroyed streams that have nothing to do any more go.
void drop_destroyed();

}  // namespace emulated_cuda
