// A table from stream to counters. The memory is taken from the system once per stream and never by the
// allocator, whose blocks may be given to a private pool.
#include "mezzo/core/cuda/tickets.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"

namespace mezzo::cuda {

namespace {

/// Device and id: default streams all have id 0.
using StreamKey = std::pair<int, std::uint64_t>;
StreamKey key_of(const Stream& stream) { return {stream.device().index, stream.id()}; }

struct TicketTable {
  std::mutex mutex;
  std::map<StreamKey, std::uint32_t*> counters;
};
/// Never destroyed: streams of static objects end after everything else.
TicketTable& ticket_table() {
  static auto* const table = new TicketTable;
  return *table;
}

constexpr std::size_t kTicketBytes = kTickets * sizeof(std::uint32_t);

}  // namespace

std::uint32_t* tickets_of(const Stream& stream) {
  TicketTable& table = ticket_table();
  const std::scoped_lock lock(table.mutex);
  std::uint32_t*& counters = table.counters[key_of(stream)];
  if (counters != nullptr) return counters;
  const DeviceGuard guard(stream.device().index);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  check(cudaMalloc(&memory, kTicketBytes), "cudaMalloc");
  const cudaError_t status =
      cudaMemsetAsync(memory, 0, kTicketBytes, static_cast<cudaStream_t>(stream.handle()));
  if (status != cudaSuccess) static_cast<void>(cudaFree(memory));
  check(status, "cudaMemsetAsync");
  counters = static_cast<std::uint32_t*>(memory);
  return counters;
}

void free_tickets(const Stream& stream) noexcept {
  TicketTable& table = ticket_table();
  const std::scoped_lock lock(table.mutex);
  const auto found = table.counters.find(key_of(stream));
  if (found == table.counters.end()) return;
  static_cast<void>(cudaFree(found->second));
  table.counters.erase(found);
}

}  // namespace mezzo::cuda
