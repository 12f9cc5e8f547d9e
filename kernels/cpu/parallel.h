// Threads for CPU kernels: one loop over fixed chunks, on as many threads as get_num_threads() says
// (core/threads.h), by the pool in core/parallel/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mezzo/core/parallel/thread_pool.h"
#include "mezzo/core/threads.h"

namespace mezzo::kernels::cpu {

/// How many parts of b elements a has, of which the last may be smaller.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// True on a thread that is running a chunk of a parallel_for: there parallel_for works on that one thread.
using mezzo::detail::in_parallel;

namespace detail {
/// The body of a loop, out of line: it is compiled once for the single chunk and for the threads.
template <class F>
[[gnu::noinline]] void call_body(F& f, std::int64_t begin, std::int64_t end) {
  f(begin, end);
}
}  // namespace detail

/// Calls `f(begin, end)` for the chunks [0, grain), [grain, 2*grain), ... of [0, n), which depend on n and
/// grain only. Chunks run on several threads, in no order, each exactly once; a single chunk and a nested
/// call run on the caller. An exception of `f` is thrown again in the caller after all threads stopped (of
/// several, the exception of the lowest chunk that threw). `n <= 0` calls nothing; a grain below 1 counts as
/// 1. `f` must not write what another chunk reads or writes. Choose the grain so that a chunk takes 10 us or
/// more: a thread takes 1 to 5 us to come. Every thread begins with one contiguous share, the same one in
/// every loop over the same sizes, so that it finds its part of an array in its cache, and ends with chunks
/// that others have not begun.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (n <= grain) {
    detail::call_body(f, 0, n);
    return;
  }
  struct Context {
    std::int64_t n, grain;
    std::remove_reference_t<F>* f;
  } context{n, grain, &f};
  mezzo::detail::run_chunks((n - 1) / grain + 1, get_num_threads(),
                            [](void* raw, std::int64_t chunk) {
                              const Context& c = *static_cast<const Context*>(raw);
                              const std::int64_t begin = chunk * c.grain;
                              detail::call_body(*c.f, begin, std::min(c.n - begin, c.grain) + begin);
                            },
                            &context);
}

}  // namespace mezzo::kernels::cpu
