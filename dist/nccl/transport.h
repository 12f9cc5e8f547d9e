// Transports over NCCL for CUDA tensors: one communicator per group and device. Needs no header of NCCL.
#pragma once

#include <chrono>

#include "mezzo/dist/detail/group_state.h"

namespace mezzo::dist {

struct NcclOptions {
  /// How long a collective may take, waiting for others included, before the program is ended.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// For groups with a CPU transport, by which the id of a communicator travels from rank 0 to all. The makers'
/// calls throw, in all processes alike: DeviceError when NCCL is missing in one, or two share a GPU;
/// StateError within a capture, where no communicator can be made.
[[nodiscard]] MakeDeviceTransport nccl_over_host(const NcclOptions& options = {});

/// For the group of all processes without a CPU transport: NCCL's own meeting place, on rank 0 at MASTER_ADDR
/// and MASTER_PORT (or at NCCL_COMM_ID, where that is set). Groups of some ranks are split from it.
/// Throws: ValueError when the environment has no such address.
[[nodiscard]] MakeDeviceTransport nccl_from_environment(const NcclOptions& options = {});

}  // namespace mezzo::dist
