// What a test may ask of the emulated device beyond CUDA's own functions.
//
// How it differs from a GPU, on purpose:
// * Work in a stream waits until the host asks for a result: a synchronisation, a synchronous call, or
// queries
//   (each runs one piece of work). Streams without an order between them run the last created one first.
// * The host cannot touch device memory: it ends in a segmentation fault with a message. New memory is filled
//   with 0xFF bytes. Under AddressSanitizer blocks have red zones, and freed ones are kept poisoned for a
//   while.
// * Wrong kernels (see device.h, warp.h) abort the process and say where.
//
// The environment, read at the first call and by reset(): MEZZO_EMULATED_DEVICES (1; 0 is a machine without
// a device, -1 one without a driver, -N one where every call returns error N), MEZZO_EMULATED_MEMORY (bytes
// of each device, 2 GiB), MEZZO_EMULATED_MULTIPROCESSORS (of each device, 2) and MEZZO_EMULATED_CAPABILITY
// (compute capability times ten, 90; below 80 the devices and the stand-ins of libraries have no bf16 and no
// TF32, below 89 no float8 products, and kernels go the ways of such GPUs).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda {

/// Puts `work` into the order of `stream`, or into the graph that it captures. It runs on the host's stack
/// when its turn comes, may touch device memory, may be run more than once (graphs), must not call CUDA, and
/// must not throw. For stand-ins of vendor libraries. Returns what a launch would.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// One piece of work of several streams: it runs once, when each of them has come to it. Who waits for one of
/// these streams waits for the threads that have not put it into theirs yet. For stand-ins of libraries that
/// join devices.
struct Meeting {
  std::size_t size;            ///< how many streams take part
  std::function<void()> work;  ///< may touch the memory of all their devices, must not call CUDA or throw
  std::string what;            ///< in messages: "all_reduce 3 among 2 ranks"
  // The emulated device's own.
  std::vector<cudaStream_t> come{};  ///< those that it was put into
  std::thread::id runner{};          ///< the thread that brings the streams to it
  bool is_cancelled = false;
};
/// The meeting that a place in a stream belongs to, or null after a refusal. Must not call CUDA.
using JoinMeeting = std::function<std::shared_ptr<Meeting>()>;

/// Puts a meeting's place into the order of `stream`: `join` is called at once, or, in a capture, at each
/// launch of the graph. Returns what a launch would, cudaErrorLaunchFailure after a refusal.
cudaError_t enqueue_meeting(cudaStream_t stream, JoinMeeting join);
/// Lets the streams of these meetings go on as if they had none.
void cancel(const std::vector<std::shared_ptr<Meeting>>& meetings);

/// Queues a failure in `stream`: once it is reached every call returns `error`, as after a kernel that a GPU
/// stopped. Only reset() ends that.
cudaError_t enqueue_failure(cudaStream_t stream, cudaError_t error);

/// While on: no kernel is loaded at first, and the first launch of each loads it, which is forbidden in a
/// capture unless the thread's mode is relaxed. So it is with drivers before CUDA 12.3; later ones load in
/// captures, too.
void load_kernels_at_first_launch(bool on);

/// Starts anew: drops queued work, streams, events, graphs, memory and errors, and reads the environment
/// again. No handle or pointer from before may be used after.
void reset();

struct Counts {
  std::uint64_t launches;        ///< kernels that ran
  std::uint64_t threads;         ///< threads of them
  std::uint64_t switches;        ///< changes from one fiber to another
  std::uint64_t mallocs, frees;  ///< cudaMalloc and cudaMallocAsync that succeeded; blocks freed (both kinds)
};
/// Since the start or reset().
Counts counts();

/// Pieces of work that wait in `stream`.
std::size_t pending(cudaStream_t stream);

}  // namespace emulated_cuda

#pragma GCC visibility pop
