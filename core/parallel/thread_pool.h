// The threads of CPU work: a loop over chunks is shared by its caller and the threads of the pool that are
// free.
#pragma once

#include <cstdint>

#include "mezzo/core/scope.h"

namespace mezzo::detail {

/// The body of a loop, called once per chunk.
using ChunkFunction = void (*)(void* context, std::int64_t chunk);

/// True on a thread that is running a chunk of run_chunks: what the chunk calls runs on that thread alone.
[[nodiscard]] bool in_parallel() noexcept;

/// Calls function(context, c) once for every c of [0, chunks), on the caller and on threads of the pool. Each
/// thread begins with a share of its own, the same one in every loop of as many chunks. Then it takes chunks
/// from the shares of others that no thread has begun, so that no chunk waits for a thread that the system
/// does not run; helpers that it preempts are left out for a while. All compute in the caller's
/// floating-point environment. All callers together use at most `threads` threads; callers that get no helper
/// are not counted. A nested call, and one that gets no helper, runs on its caller alone. In a child of
/// fork(), where the threads of the parent are not, new threads start. An exception is thrown again in the
/// caller when all chunks that were begun have ended; of several, the exception of the lowest chunk.
void run_chunks(std::int64_t chunks, int threads, ChunkFunction function, void* context);

/// Loops of the calling thread run on it alone while it lives: for threads that work beside a program's own.
/// For local variables.
class AloneScope : NoCopy {
 public:
  AloneScope() noexcept;
  ~AloneScope();

 private:
  bool before_;
};

}  // namespace mezzo::detail
