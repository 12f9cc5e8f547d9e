// Ranks as threads of one process, for tests: a transport that reads the other threads' memory, with a count
// of its calls and bytes, and a link as slow as a test wants it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mezzo/dist/detail/group_state.h"
#include "mezzo/dist/group.h"
#include "mezzo/dist/transport.h"

namespace mezzo::test {

/// A link's time per call, and per byte that a ring would send. 0: no time is added.
struct Link {
  double seconds_per_call = 0;
  double seconds_per_byte = 0;
};

/// What all ranks' transports have moved, by call.
struct Counts {
  std::uint64_t broadcasts = 0, all_reduces = 0, reduce_scatters = 0, all_gathers = 0, all_to_alls = 0;
  std::uint64_t bytes = 0;  ///< sent by rank 0
};

/// Runs `f` once per rank, each on a thread of its own with its group. A rank that throws ends the others'
/// collectives. Throws: what the lowest rank threw that threw something else than CommunicationError, or else
/// what the lowest one threw. `make_device`: of the groups, for CUDA tensors.
Counts run_ranks(int size, const std::function<void(const dist::Group&)>& f, const Link& link = {},
                 const dist::MakeDeviceTransport& make_device = {});

}  // namespace mezzo::test
