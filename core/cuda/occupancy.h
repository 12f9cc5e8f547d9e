// How many blocks of a kernel a device has at work at a time.
#pragma once

#include <cstddef>

namespace mezzo::cuda {

/// Blocks of `kernel`, of `threads` threads and with `shared_bytes` of dynamic shared memory, that run on
/// device `index` at a time; at least 1. CUDA is asked once for each combination. For grids whose number of
/// blocks changes no result: another device has another answer. Throws DeviceError.
[[nodiscard]] unsigned resident_blocks(const void* kernel, unsigned threads, std::size_t shared_bytes,
                                       int index);

}  // namespace mezzo::cuda
