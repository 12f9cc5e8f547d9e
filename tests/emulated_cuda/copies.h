// Shared by copies and allocation.
#pragma once

#include <cstddef>

namespace emulated_cuda {

/// Whether all of `bytes` at `pointer` are in one block of page-locked host memory.
bool is_pinned(const void* pointer, std::size_t bytes);

/// Prints "emulated CUDA: <message>" and aborts: for work that finds its memory gone when its turn comes.
[[noreturn]] void fail_operation(const char* message);

}  // namespace emulated_cuda
