// The collectives of the emulated NCCL: what a call itself must keep to, groups of calls, and the comparison
// with what the other ranks call.
#include <algorithm>
#include <iterator>
#include <utility>

#include "emulated_cuda/nccl.h"
#include "state.h"

namespace emulated_cuda::nccl_library {
namespace {

/// A call that was made, or between ncclGroupStart and ncclGroupEnd is still to be made.
struct Call {
  ncclComm_t comm;
  cudaStream_t stream;
  Signature signature;
  Part part;
};

/// Of a thread.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
  ncclResult_t error = ncclSuccess;
};
Group& group() {
  static thread_local Group one;
  return one;
}

bool is_on(int device, const void* data, std::size_t bytes) {
  if (bytes == 0) return true;
  for (const void* const at :
       {data, static_cast<const void*>(static_cast<const std::byte*>(data) + bytes - 1)}) {
    cudaPointerAttributes attributes{};
    if (data == nullptr || cudaPointerGetAttributes(&attributes, at) != cudaSuccess) return false;
    if (attributes.type != cudaMemoryTypeDevice || attributes.device != device) return false;
  }
  return true;
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

/// Bytes that a rank reads and writes, and where one may lie in the other.
struct Extent {
  std::size_t from, to;
  const void* place;  ///< of the smaller array, in place
  bool fits;
};
Extent extent_of(const Call& call, int rank, int size) {
  const Signature& s = call.signature;
  const std::size_t bytes = s.count * size_of(s.type), whole = bytes * static_cast<std::size_t>(size);
  const std::size_t offset = bytes * static_cast<std::size_t>(rank);
  const auto* const from = static_cast<const std::byte*>(call.part.from);
  const auto* const to = static_cast<const std::byte*>(call.part.to);
  if (s.kind == Kind::reduce_scatter) return {whole, bytes, from, to == from + offset};
  if (s.kind == Kind::all_gather) return {bytes, whole, to, from == to + offset};
  return {bytes, bytes, from, from == to};
}

std::string check_arrays(const Call& call, int rank, int size, int device) {
  const Extent x = extent_of(call, rank, size);
  const bool reads = call.signature.kind != Kind::broadcast || call.signature.root == rank;
  if ((reads && !is_on(device, call.part.from, x.from)) || !is_on(device, call.part.to, x.to))
    return "an array that is not on the communicator's device " + std::to_string(device);
  if (reads && !x.fits && overlap(call.part.from, x.from, call.part.to, x.to))
    return "arrays that overlap and are not in place";
  return "";
}

std::string check_transfers(const Call& call, int size, int device) {
  std::vector<Transfer> all = call.part.sends;
  all.insert(all.end(), call.part.receives.begin(), call.part.receives.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].peer < 0 || all[i].peer >= size) return "peer " + std::to_string(all[i].peer);
    if (!is_on(device, all[i].data, all[i].bytes))
      return "an array that is not on the communicator's device " + std::to_string(device);
    for (std::size_t j = std::max(i + 1, call.part.sends.size()); j < all.size(); ++j)
      if (overlap(all[i].data, all[i].bytes, all[j].data, all[j].bytes)) return "arrays that overlap";
  }
  return "";
}

/// What the call itself must keep to.
ncclResult_t check_call(const Call& call) {
  int rank = 0, size = 0, device = 0, current = -1;
  {
    const std::scoped_lock lock(state_mutex());
    if (!is_live(call.comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
    rank = call.comm->rank, size = call.comm->clique->size();
    device = call.comm->clique->devices[static_cast<std::size_t>(rank)];
  }
  if (cudaGetDevice(&current) != cudaSuccess || current != device) {
    return refuse(ncclInvalidUsage, "device " + std::to_string(current) +
                                        " is current, the communicator's is " + std::to_string(device));
  }
  const Signature& s = call.signature;
  if (size_of(s.type) == 0) return refuse(ncclInvalidArgument, "type " + std::to_string(s.type));
  if (s.op != ncclSum && s.op != ncclMin && s.op != ncclMax)
    return refuse(ncclInvalidArgument, "operation " + std::to_string(s.op));
  if (s.root < 0 || s.root >= size) return refuse(ncclInvalidArgument, "root " + std::to_string(s.root));
  const std::string why =
      s.kind == Kind::exchange ? check_transfers(call, size, device) : check_arrays(call, rank, size, device);
  return why.empty() ? ncclSuccess : refuse(ncclInvalidArgument, why);
}

/// Whether each send of `from` to `to` has its receive there.
bool transfers_fit(const Collective& c, int from, int to) {
  const auto of_pair = [](const std::vector<Transfer>& all, int peer) {
    std::vector<Transfer> result;
    std::copy_if(all.begin(), all.end(), std::back_inserter(result),
                 [peer](const Transfer& x) { return x.peer == peer; });
    return result;
  };
  const auto sends = of_pair(c.parts[static_cast<std::size_t>(from)].sends, to);
  const auto receives = of_pair(c.parts[static_cast<std::size_t>(to)].receives, from);
  return std::equal(
      sends.begin(), sends.end(), receives.begin(), receives.end(),
      [](const Transfer& a, const Transfer& b) { return a.bytes == b.bytes && a.type == b.type; });
}

/// What is wrong between the ranks that have come. Hold the mutex.
std::string compare(const Collective& c, const Signature& signature, int rank, std::uint64_t number) {
  if (!(c.signature == signature)) {
    return "ranks differ in collective " + std::to_string(number) + ": rank " + std::to_string(rank) +
           " calls " + text_of(signature) + ", another one " + text_of(c.signature);
  }
  if (signature.kind != Kind::exchange) return "";
  for (int other = 0; other < static_cast<int>(c.parts.size()); ++other) {
    if (!c.parts[static_cast<std::size_t>(other)].has_come) continue;
    if (!transfers_fit(c, rank, other) || !transfers_fit(c, other, rank))
      return "a send without its receive between rank " + std::to_string(rank) + " and rank " +
             std::to_string(other);
  }
  return "";
}

/// Another communicator at work on the device in another stream. Hold the mutex.
bool is_device_busy(const Call& call) {
  const int device = call.comm->clique->devices[static_cast<std::size_t>(call.comm->rank)];
  for (const auto& clique : live_cliques()) {
    if (clique == call.comm->clique) continue;
    for (const auto& [number, c] : clique->open) {
      for (std::size_t r = 0; r < c->parts.size(); ++r) {
        if (c->parts[r].has_come && clique->devices[r] == device && c->streams[r] != call.stream) return true;
      }
    }
  }
  return false;
}

/// The rank's place in its communicator's next collective; null when the ranks differ.
std::shared_ptr<Meeting> join(const Call& call) {
  std::vector<std::shared_ptr<Meeting>> left;
  std::shared_ptr<Meeting> result;
  {
    const std::scoped_lock lock(state_mutex());
    const auto clique = call.comm->clique;
    if (!clique->broken.empty() || !is_live(call.comm)) return nullptr;
    const auto rank = static_cast<std::size_t>(call.comm->rank);
    const std::uint64_t number = clique->calls[rank]++;
    auto& slot = clique->open[number];
    if (slot == nullptr) {
      slot = std::make_shared<Collective>(
          Collective{call.signature, std::vector<Part>(clique->devices.size()),
                     std::vector<cudaStream_t>(clique->devices.size()), nullptr});
      const auto work = [collective = std::weak_ptr(slot), clique, number] {
        const auto c = collective.lock();
        if (c == nullptr) return;  // aborted
        compute(*c);
        ++emulated_cuda::nccl().runs;
        const std::scoped_lock end(state_mutex());
        clique->open.erase(number);
      };
      slot->meeting = std::make_shared<Meeting>(
          Meeting{clique->devices.size(), work,
                  text_of(call.signature) + ", number " + std::to_string(number) + " of a communicator"});
    }
    slot->parts[rank] = call.part;
    slot->parts[rank].has_come = true;
    slot->streams[rank] = call.stream;
    clique->broken = compare(*slot, call.signature, call.comm->rank, number);
    if (clique->broken.empty()) {
      result = slot->meeting;
    } else {
      for (const auto& [open, collective] : clique->open) left.push_back(collective->meeting);
      clique->open.clear();
    }
  }
  if (!left.empty()) cancel(left);
  return result;
}

ncclResult_t enqueue(const Call& call) {
  if (const ncclResult_t wrong = check_call(call); wrong != ncclSuccess) return wrong;
  {
    const std::scoped_lock lock(state_mutex());
    if (!call.comm->clique->broken.empty()) return refuse(ncclInvalidUsage, call.comm->clique->broken);
    if (is_device_busy(call))
      return refuse(ncclInvalidUsage, "two communicators at work on a device in different streams");
  }
  if (enqueue_meeting(call.stream, [call] { return join(call); }) != cudaSuccess) {
    const std::scoped_lock lock(state_mutex());
    const std::string& broken = call.comm->clique->broken;
    return broken.empty() ? refuse(ncclUnhandledCudaError, "the stream takes no work")
                          : refuse(ncclInvalidUsage, broken);
  }
  ++emulated_cuda::nccl().collectives;
  return ncclSuccess;
}

/// Sends and receives of a communicator and stream are one call.
void add_transfer(std::vector<Call>& calls, ncclComm_t comm, cudaStream_t stream, const Transfer& transfer,
                  bool is_send) {
  auto found = std::find_if(calls.begin(), calls.end(), [&](const Call& x) {
    return x.signature.kind == Kind::exchange && x.comm == comm && x.stream == stream;
  });
  if (found == calls.end()) found = calls.insert(found, {comm, stream, {Kind::exchange}, {}});
  Call& call = *found;
  (is_send ? call.part.sends : call.part.receives).push_back(transfer);
}

ncclResult_t take(Call call) {
  if (group().depth > 0) {
    group().calls.push_back(std::move(call));
    return ncclSuccess;
  }
  return enqueue(call);
}

ncclResult_t take(ncclComm_t comm, cudaStream_t stream, void* data, std::size_t count, ncclDataType_t type,
                  int peer, bool is_send) {
  if (size_of(type) == 0) return refuse(ncclInvalidArgument, "type " + std::to_string(type));
  const Transfer transfer{peer, data, count * size_of(type), type};
  if (group().depth == 0)
    return refuse(ncclInvalidUsage, is_send ? "a send outside of a group" : "a receive outside of a group");
  add_transfer(group().calls, comm, stream, transfer, is_send);
  return ncclSuccess;
}

}  // namespace
}  // namespace emulated_cuda::nccl_library

using namespace emulated_cuda::nccl_library;  // the functions below have NCCL's names, in no namespace

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return take({comm, stream, {Kind::all_reduce, count, type, op, 0}, {from, to, {}, {}}});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return take({comm, stream, {Kind::reduce_scatter, count, type, op, 0}, {from, to, {}, {}}});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return take({comm, stream, {Kind::all_gather, count, type, ncclSum, 0}, {from, to, {}, {}}});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return take({comm, stream, {Kind::broadcast, count, type, ncclSum, root}, {from, to, {}, {}}});
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return take(comm, stream, const_cast<void*>(from), count, type, peer, true);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return take(comm, stream, to, count, type, peer, false);
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "a group that was not begun");
  if (--group().depth > 0) return ncclSuccess;
  const std::vector<Call> calls = std::exchange(group().calls, {});
  for (const Call& call : calls)
    if (const ncclResult_t result = enqueue(call); result != ncclSuccess) return result;
  return ncclSuccess;
}
