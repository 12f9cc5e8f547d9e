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
  decltype(&ncclGetErrorString) error_string = find<decltype(&ncclGetErrorString)>("ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = find<decltype(&ncclGetLastError)>("ncclGetLastError");
  decltype(&ncclGetUniqueId) unique_id = find<decltype(&ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(&ncclCommInitRank) init_rank = find<decltype(&ncclCommInitRank)>("ncclCommInitRank");
  decltype(&ncclCommSplit) split = find<decltype(&ncclCommSplit)>("ncclCommSplit");
  decltype(&ncclCommDestroy) destroy = find<decltype(&ncclCommDestroy)>("ncclCommDestroy");
  decltype(&ncclCommAbort) abort = find<decltype(&ncclCommAbort)>("ncclCommAbort");
  decltype(&ncclCommGetAsyncError) async_error =
      find<decltype(&ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  decltype(&ncclAllReduce) all_reduce = find<decltype(&ncclAllReduce)>("ncclAllReduce");
  decltype(&ncclReduceScatter) reduce_scatter = find<decltype(&ncclReduceScatter)>("ncclReduceScatter");
  decltype(&ncclAllGather) all_gather = find<decltype(&ncclAllGather)>("ncclAllGather");
  decltype(&ncclBroadcast) broadcast = find<decltype(&ncclBroadcast)>("ncclBroadcast");
  decltype(&ncclSend) send = find<decltype(&ncclSend)>("ncclSend");
  decltype(&ncclRecv) receive = find<decltype(&ncclRecv)>("ncclRecv");
  decltype(&ncclGroupStart) group_start = find<decltype(&ncclGroupStart)>("ncclGroupStart");
  decltype(&ncclGroupEnd) group_end = find<decltype(&ncclGroupEnd)>("ncclGroupEnd");

 private:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return library.function<Function>(name);
  }
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
