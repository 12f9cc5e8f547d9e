// The last of several blocks to finish goes on with what all of them have written, in the same launch: a
// second one would cost a short reduction as much as the first.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/cuda/tickets.h"
#include "mezzo/core/device.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/shared.h"

namespace mezzo::kernels::cuda {

/// Counters for one launch, all 0, of which each of the kernel's groups of blocks takes one.
class Tickets {
 public:
  /// `count`: at most mezzo::cuda::kTickets; 0 takes none.
  Tickets(Device device, std::int64_t count) : Tickets(mezzo::cuda::current_stream(device), count) {}
  [[nodiscard]] std::uint32_t* data() const { return data_; }

 private:
  Tickets(const mezzo::cuda::Stream& stream, std::int64_t count)
      : recorded_(stream.device(), count != 0 && stream.is_capturing() ? count * kBytes : 0) {
    if (count == 0) return;
    data_ = static_cast<std::uint32_t*>(recorded_.data());
    if (data_ == nullptr) {
      data_ = mezzo::cuda::tickets_of(stream);
    } else {  // of the graph, cleared by it: its replays may run beside other kernels of this stream
      mezzo::cuda::check(
          cudaMemsetAsync(data_, 0, static_cast<std::size_t>(count * kBytes), mezzo::cuda::native(stream)),
          "cudaMemsetAsync");
    }
  }

  static constexpr std::int64_t kBytes = sizeof(std::uint32_t);
  Scratch recorded_;
  std::uint32_t* data_ = nullptr;
};

/// Whether this is the last of `blocks` blocks that ask for `ticket`, each once; then all that they wrote
/// before can be read, and the ticket is 0 again. All threads of the block call it. `flag_at`: where the
/// block has a word of shared memory to spare.
[[nodiscard]] __device__ inline bool is_last_block(std::uint32_t* ticket, unsigned blocks,
                                                   std::size_t flag_at) {
  const Shared<std::uint32_t> flag(1, flag_at);
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // what the block has written comes before the count
    const bool last = atomicAdd(ticket, 1U) + 1 == blocks;
    if (last) *ticket = 0;
    flag.set(0, last ? 1U : 0U);
  }
  __syncthreads();
  __threadfence();  // and what is read now comes behind it
  return flag.get(0) != 0;
}

}  // namespace mezzo::kernels::cuda
