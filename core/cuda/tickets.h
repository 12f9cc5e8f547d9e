// Counters by which the blocks of a kernel find out which of them comes last.
#pragma once

#include <cstdint>

#include "mezzo/core/cuda.h"

namespace mezzo::cuda {

/// Counters that a kernel may use at once.
inline constexpr std::int64_t kTickets = 2048;

/// kTickets counters in device memory for kernels that run in the stream, one after the other: 0 before each,
/// which leaves them so. A captured kernel may be replayed in another stream and takes counters of its graph
/// (kernels/cuda/last_block.h), so this is not called while the stream captures. Throws OutOfMemoryError.
[[nodiscard]] std::uint32_t* tickets_of(const Stream& stream);

/// Gives the counters of a stream back, in which nothing runs any more.
void free_tickets(const Stream& stream) noexcept;

}  // namespace mezzo::cuda
