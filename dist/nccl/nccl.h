// NCCL's functions as a table, from the library that is opened at the first collective of CUDA tensors.
#pragma once

#include <nccl.h>

#include <string_view>

#include "mezzo/core/cuda/shared_library.h"

namespace mezzo::dist {

/// Opens the library. Throws DeviceError when it is not there.
[[nodiscard]] cuda::SharedLibrary open_nccl();

/// The functions in use, under their own names without the prefix.
struct Nccl {
  cuda::SharedLibrary library = open_nccl();
  decltype(&ncclGetErrorString) error_string = library["ncclGetErrorString"];
  decltype(&ncclGetLastError) last_error = library["ncclGetLastError"];
  decltype(&ncclGetUniqueId) unique_id = library["ncclGetUniqueId"];
  decltype(&ncclCommInitRank) init_rank = library["ncclCommInitRank"];
  decltype(&ncclCommSplit) split = library["ncclCommSplit"];
  decltype(&ncclCommDestroy) destroy = library["ncclCommDestroy"];
  decltype(&ncclCommAbort) abort = library["ncclCommAbort"];
  decltype(&ncclCommGetAsyncError) async_error = library["ncclCommGetAsyncError"];
  decltype(&ncclAllReduce) all_reduce = library["ncclAllReduce"];
  decltype(&ncclReduceScatter) reduce_scatter = library["ncclReduceScatter"];
  decltype(&ncclAllGather) all_gather = library["ncclAllGather"];
  decltype(&ncclBroadcast) broadcast = library["ncclBroadcast"];
  decltype(&ncclSend) send = library["ncclSend"];
  decltype(&ncclRecv) receive = library["ncclRecv"];
  decltype(&ncclGroupStart) group_start = library["ncclGroupStart"];
  decltype(&ncclGroupEnd) group_end = library["ncclGroupEnd"];
};

/// The table; opens the library at the first call. Throws DeviceError when it is not there.
[[nodiscard]] const Nccl& nccl();

/// "invalid usage: Duplicate GPU detected ...": a result, and what NCCL has noted last about it. `comm` may
/// be null.
[[nodiscard]] std::string describe_nccl(ncclResult_t result, ncclComm_t comm);
/// Throws for all but success: DeviceError where CUDA failed, or calls of this process are refused, else
/// CommunicationError. `call` names NCCL's function, and may say more.
void check_nccl(ncclResult_t result, std::string_view call, ncclComm_t comm = nullptr);

}  // namespace mezzo::dist
