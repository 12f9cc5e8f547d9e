// Threads for CPU kernels: one loop over fixed chunks, on as many threads as get_num_threads() says
// (core/threads.h). Apart from the kernels so that parallel regions stand in one .cpp only, and so that no
// header changes meaning with -fopenmp.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mezzo::kernels::cpu {

/// True on a thread that is running a chunk of a parallel_for (or of another OpenMP region): there
/// parallel_for and the GEMM libraries work on that one thread.
[[nodiscard]] bool in_parallel();

namespace detail {
using ChunkFunction = void (*)(void* context, std::int64_t chunk);
void run_chunks(std::int64_t chunks, bool on_demand, ChunkFunction function, void* context);

/// The body of a loop, out of line: it is compiled once for the single chunk and for the threads.
template <class F>
[[gnu::noinline]] void call_body(F& f, std::int64_t begin, std::int64_t end) {
  f(begin, end);
}

template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, bool on_demand, F& f) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (n <= grain) {
    call_body(f, 0, n);
    return;
  }
  struct Context {
    std::int64_t n, grain;
    F* f;
  } context{n, grain, &f};
  run_chunks((n - 1) / grain + 1, on_demand,
             [](void* raw, std::int64_t chunk) {
               const Context& c = *static_cast<const Context*>(raw);
               const std::int64_t begin = chunk * c.grain;
               call_body(*c.f, begin, std::min(c.n - begin, c.grain) + begin);
             },
             &context);
}
}  // namespace detail

/// Calls `f(begin, end)` for the chunks [0, grain), [grain, 2*grain), ... of [0, n), which depend on n and
/// grain only. Chunks run on several threads, in no order, each exactly once; a single chunk, a nested call
/// and a build without OpenMP run on the caller. An exception of `f` is thrown again in the caller after all
/// threads stopped (of several, the one of the lowest chunk that threw). `n <= 0` calls nothing; a grain
/// below 1 counts as 1. `f` must not write what another chunk reads or writes. Choose the grain so that a
/// chunk takes 10 us or more: starting the threads costs 1 to 5 us. Every thread gets one contiguous share,
/// the same one in every loop over the same sizes, so that it finds its part of an array in its cache.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  detail::parallel_for(n, grain, false, f);
}

/// The same, but a thread takes the next chunk when it is done with one: for few and long chunks, such as the
/// tiles of a matrix product, where one slow or busy core would keep all others waiting.
template <class F>
void parallel_for_on_demand(std::int64_t n, std::int64_t grain, F&& f) {
  detail::parallel_for(n, grain, true, f);
}

}  // namespace mezzo::kernels::cpu
