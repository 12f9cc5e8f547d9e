// Collectives over NCCL: each is put into the current stream of the device, and can be captured.
#include "mezzo/dist/nccl/communicator.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/cuda/device.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/dist/nccl/nccl.h"
#include "mezzo/ops/factory.h"

namespace mezzo::dist {

namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
    default:
      throw DTypeError("NCCL", "f32, f64, i32, i64 or u8", mezzo::to_string(dtype), "reduce it as f32");
  }
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    default:
      throw ValueError("NCCL", "sum, min or max", to_string(op), "divide the sum");
  }
}

/// A group of calls; ends with the scope, also by an exception.
class GroupCall : mezzo::detail::NoCopy {
 public:
  GroupCall() { check_nccl(nccl().group_start(), "ncclGroupStart"); }
  ~GroupCall() {
    if (is_open_) static_cast<void>(nccl().group_end());
  }
  void end(ncclComm_t comm) {
    is_open_ = false;
    check_nccl(nccl().group_end(), "ncclGroupEnd", comm);
  }

 private:
  bool is_open_ = true;
};

}  // namespace

std::string place_of(int rank, int size, Device device) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(size) + " on " + mezzo::to_string(device);
}

NcclTransport::NcclTransport(int rank, int size, Device device, ncclComm_t comm, const NcclOptions& options)
    : Transport(rank, size, device),
      comm_(comm),
      options_(options),
      watched_{options.timeout, place_of(rank, size, device)},
      one_(zeros({1}, {.dtype = DType::u8, .device = device})) {
  // A barrier writes into it in another stream than this one.
  cuda::current_stream(device).synchronize();
  Watch::of_process().add(comm_, watched_);
}

NcclTransport::~NcclTransport() {
  Watch::of_process().remove(comm_);
  try {
    const cuda::DeviceGuard guard(device().index);
    const Watch::Call call(watched_, "ncclCommDestroy");
    ncclResult_t error = ncclSuccess;
    const bool is_well = nccl().async_error(comm_, &error) == ncclSuccess && error == ncclSuccess;
    static_cast<void>(is_well ? nccl().destroy(comm_) : nccl().abort(comm_));
  } catch (...) {
    // At the very end of a program CUDA may be gone, and the communicator with it.
    return;
  }
}

/// Puts a mark of Watch behind each replay of a graph that uses a communicator, and keeps the communicator.
class WatchedReplay final : public mezzo::detail::ReplayedState {
 public:
  explicit WatchedReplay(Ref<NcclTransport> transport) : transport_(std::move(transport)) {}
  void recorded() override {}
  void before_replay() override {}
  void after_replay() noexcept override {
    const cuda::Stream& stream = cuda::current_stream(transport_->device());
    try {
      Watch::of_process().enqueued(stream, transport_->watched_, "a replay of a step with collectives");
    } catch (const Error&) {
      return;  // the device has failed: the next call for it says so
    }
  }

 private:
  Ref<NcclTransport> transport_;
};

void NcclTransport::note_recorded() {
  auto* const recording = mezzo::detail::Recording::of(device());
  if (recording != nullptr) recording->state<WatchedReplay>(this, Ref<NcclTransport>(this));
}

template <class F>
void NcclTransport::call(const char* function, std::size_t bytes, F f) {
  const cuda::DeviceGuard guard(device().index);
  // The first call of its kind allocates memory.
  const cuda::RelaxedCapture relaxed;
  const cuda::Stream& stream = cuda::current_stream(device());
  std::string what = function;
  what.append(" of ").append(std::to_string(bytes)).append(" bytes");
  if (!place_.empty()) what.append(" (").append(place_).append(")");
  {
    const Watch::Call on_host(watched_, what);
    f(cuda::native(stream));
  }
  if (stream.is_capturing()) {
    note_recorded();
  } else {
    Watch::of_process().enqueued(stream, watched_, what);
  }
}

void NcclTransport::broadcast(void* data, std::size_t bytes, int root) {
  if (bytes == 0) return;
  call("broadcast", bytes, [&](cudaStream_t stream) {
    check_nccl(nccl().broadcast(data, data, bytes, ncclUint8, root, comm_, stream), "ncclBroadcast", comm_);
  });
}

void NcclTransport::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) {
  if (count == 0) return;
  const auto n = static_cast<std::size_t>(count);
  call("all_reduce", n * static_cast<std::size_t>(size_of(dtype)), [&](cudaStream_t stream) {
    check_nccl(nccl().all_reduce(data, data, n, type_of(dtype), op_of(op), comm_, stream), "ncclAllReduce",
               comm_);
  });
}

void NcclTransport::reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) {
  if (count == 0) return;
  const auto n = static_cast<std::size_t>(count);
  call("reduce_scatter", n * static_cast<std::size_t>(size_of(dtype)), [&](cudaStream_t stream) {
    check_nccl(nccl().reduce_scatter(whole, part, n, type_of(dtype), op_of(op), comm_, stream),
               "ncclReduceScatter", comm_);
  });
}

void NcclTransport::all_gather(const void* part, void* whole, std::size_t bytes) {
  if (bytes == 0) return;
  call("all_gather", bytes, [&](cudaStream_t stream) {
    check_nccl(nccl().all_gather(part, whole, bytes, ncclUint8, comm_, stream), "ncclAllGather", comm_);
  });
}

void NcclTransport::all_to_all(const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  call("all_to_all", bytes, [&](cudaStream_t stream) {
    GroupCall group;
    for (int peer = 0; peer < size(); ++peer) {
      const std::size_t offset = static_cast<std::size_t>(peer) * bytes;
      check_nccl(
          nccl().send(static_cast<const std::byte*>(from) + offset, bytes, ncclUint8, peer, comm_, stream),
          "ncclSend", comm_);
      check_nccl(nccl().receive(static_cast<std::byte*>(to) + offset, bytes, ncclUint8, peer, comm_, stream),
                 "ncclRecv", comm_);
    }
    group.end(comm_);
  });
}

void NcclTransport::barrier() {
  call("barrier", 1, [&](cudaStream_t stream) {
    void* const data = one_.impl().data();
    check_nccl(nccl().all_reduce(data, data, 1, ncclUint8, ncclMax, comm_, stream), "ncclAllReduce", comm_);
  });
}

Ref<Transport> NcclTransport::split(std::span<const int> ranks) {
  const cuda::DeviceGuard guard(device().index);
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  const bool is_member = found != ranks.end();
  const auto place = static_cast<int>(found - ranks.begin());
  ncclComm_t part = nullptr;
  {
    const Watch::Call on_host(watched_, "ncclCommSplit");
    check_nccl(nccl().split(comm_, is_member ? 0 : NCCL_SPLIT_NOCOLOR, place, &part, nullptr),
               "ncclCommSplit", comm_);
  }
  if (!is_member) return {};
  return make_ref<NcclTransport>(place, static_cast<int>(ranks.size()), device(), part, options_);
}

}  // namespace mezzo::dist
