// What a test may ask of the emulated NCCL. It is a library of its own (libnccl_emulated.so), opened like the
// real one at the first collective; this part is in libmezzo. The ranks of a communicator are threads of one
// process, each with an emulated device of its own.
//
// How it differs from NCCL, on purpose:
// * A collective is a Meeting (emulated_cuda/control.h): calls return at once, the work runs when all ranks'
//   streams have come to it, in a replay of a graph anew each time. Whoever waits for one of these streams
//   waits for the other ranks, and the process ends with a message when they do not come.
// * Whatever NCCL leaves undefined has a status and a text (ncclGetLastError): ranks whose calls differ in
//   kind, count, type, operation or root, memory of the host or of another device, another current device,
//   overlapping arrays that are not in place as NCCL defines it, a send without its receive, a communicator
//   that was destroyed, two communicators that work on a device at a time in different streams. After ranks'
//   calls differ, their communicator is of no more use, and its streams go on without the results.
// * Sends and receives of a group are one collective of all ranks of the communicator. Types are those that
//   mezzo reduces, 16-bit ones are not among them. A sum begins with another rank from place to place, as in
//   a ring.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)

namespace emulated_cuda {

struct Nccl {
  std::atomic<std::uint64_t> collectives = 0;    ///< ranks' parts that were put into streams, or recorded
  std::atomic<std::uint64_t> runs = 0;           ///< collectives that ran
  std::atomic<std::uint64_t> refusals = 0;       ///< calls that did not succeed
  std::atomic<std::uint64_t> communicators = 0;  ///< that were made, of all ranks
  std::atomic<std::uint64_t> destroyed = 0;      ///< of them
  std::atomic<int> async_error = 0;              ///< what ncclCommGetAsyncError says
};

/// Its counters and settings.
Nccl& nccl();

}  // namespace emulated_cuda

#pragma GCC visibility pop
