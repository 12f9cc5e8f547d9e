// Communicators of the emulated NCCL: ids, ranks that meet, splits, ends, texts of errors.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>

#include "emulated_cuda/nccl.h"
#include "state.h"

namespace emulated_cuda::nccl_library {
namespace {

/// Longer than any test computes before its ranks meet.
constexpr std::chrono::seconds kLongest{120};

/// Ranks that come to a call which returns when all have come.
struct Gathering {
  int size = 0;
  std::map<int, int> devices;                 ///< by rank
  std::map<int, std::pair<int, int>> colors;  ///< of a split: color and key by rank
  bool is_complete = false;
  ncclResult_t result = ncclSuccess;
  std::string why;
  std::map<int, ncclComm_t> made;  ///< by rank
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<ncclComm_t> known;
  std::map<std::string, std::shared_ptr<Gathering>> gatherings;
  std::uint64_t ids = 0;
};

State& state() {
  static auto& one = *new State;  // threads may ask to the very end
  return one;
}

std::string& last_text() {
  static thread_local std::string text;
  return text;
}

ncclResult_t check_devices(const std::vector<int>& devices, std::string& why) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto same =
        std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]);
    if (same == devices.begin() + static_cast<std::ptrdiff_t>(i)) continue;
    why = "Duplicate GPU detected: rank " + std::to_string(i) + " and rank " +
          std::to_string(same - devices.begin()) + " both on CUDA device " + std::to_string(devices[i]);
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

/// All ranks of an id have come.
void complete_init(Gathering& g) {
  std::vector<int> devices;
  for (const auto& [rank, device] : g.devices) devices.push_back(device);
  g.result = check_devices(devices, g.why);
  if (g.result != ncclSuccess) return;
  const auto clique = std::make_shared<Clique>(devices);
  for (int rank = 0; rank < g.size; ++rank) g.made[rank] = new_communicator(clique, rank);
}

/// All ranks of a communicator have come to ncclCommSplit.
void complete_split(Gathering& g, const Clique& whole) {
  std::map<int, std::vector<std::pair<int, int>>> parts;  // by color: key and rank
  for (const auto& [rank, color] : g.colors)
    if (color.first >= 0) parts[color.first].emplace_back(color.second, rank);
  for (auto& [color, members] : parts) {
    std::sort(members.begin(), members.end());
    std::vector<int> devices;
    for (const auto& [key, rank] : members) devices.push_back(whole.devices[static_cast<std::size_t>(rank)]);
    const auto clique = std::make_shared<Clique>(devices);
    for (std::size_t i = 0; i < members.size(); ++i)
      g.made[members[i].second] = new_communicator(clique, static_cast<int>(i));
  }
}

/// Comes to a gathering with `enter`, and waits until `complete` was called by the last one.
ncclResult_t gather(const std::string& id, int size, const std::function<bool(Gathering&)>& enter,
                    const std::function<void(Gathering&)>& complete, std::shared_ptr<Gathering>& gathering) {
  std::unique_lock lock(state().mutex);
  auto& slot = state().gatherings[id];
  if (slot == nullptr) slot = std::make_shared<Gathering>();
  gathering = slot;
  if (gathering->size == 0) gathering->size = size;
  const bool fits = gathering->size == size && enter(*gathering);
  if (!fits) {
    if (gathering->why.empty()) gathering->why = "ranks that say differently how many they are";
    gathering->result = ncclInvalidArgument;
  }
  if (!fits || static_cast<int>(std::max(gathering->devices.size(), gathering->colors.size())) == size) {
    if (fits) complete(*gathering);
    gathering->is_complete = true;
    state().gatherings.erase(id);
    state().changed.notify_all();
  }
  const bool all = state().changed.wait_for(lock, kLongest, [&] { return gathering->is_complete; });
  if (!all) {
    gathering->why = "ranks that do not come";
    return ncclSystemError;
  }
  return gathering->result;
}

/// Takes a little device memory, as NCCL does.
bool can_allocate() {
  void* memory = nullptr;
  return cudaMalloc(&memory, 512) == cudaSuccess && cudaFree(memory) == cudaSuccess;
}

}  // namespace

std::mutex& state_mutex() { return state().mutex; }

bool is_live(ncclComm_t comm) { return state().known.contains(comm) && !comm->is_destroyed; }

ncclComm_t new_communicator(std::shared_ptr<Clique> clique, int rank) {
  auto* const comm = new ncclComm{std::move(clique), rank};
  state().known.insert(comm);
  ++emulated_cuda::nccl().communicators;
  return comm;
}

std::vector<std::shared_ptr<Clique>> live_cliques() {
  std::vector<std::shared_ptr<Clique>> cliques;
  for (const ncclComm_t comm : state().known)
    if (!comm->is_destroyed) cliques.push_back(comm->clique);
  return cliques;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  ++emulated_cuda::nccl().refusals;
  last_text() = text;
  return result;
}

}  // namespace emulated_cuda::nccl_library

using namespace emulated_cuda::nccl_library;  // the functions below have NCCL's names, in no namespace

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return result >= ncclSuccess && result <= ncclInProgress ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return last_text().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return refuse(ncclInvalidArgument, "no place for the id");
  std::memset(id, 0, sizeof(*id));
  const char* const address = std::getenv("NCCL_COMM_ID");
  if (address != nullptr) {
    if (std::strchr(address, ':') == nullptr)
      return refuse(ncclInvalidArgument, "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port>");
    std::strncpy(id->internal, address, sizeof(id->internal) - 1);
    return ncclSuccess;
  }
  const std::scoped_lock lock(state_mutex());
  const std::string text = "id " + std::to_string(++state().ids);
  std::memcpy(id->internal, text.c_str(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  *comm = nullptr;
  int device = -1;
  if (!can_allocate() || cudaGetDevice(&device) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "device memory cannot be allocated now");
  const auto enter = [&](Gathering& g) {
    if (!g.devices.emplace(rank, device).second) g.why = "rank " + std::to_string(rank) + " comes twice";
    return g.why.empty();
  };
  std::shared_ptr<Gathering> gathering;
  const ncclResult_t result = gather(id.internal, ranks, enter, complete_init, gathering);
  if (result != ncclSuccess) return refuse(result, gathering->why);
  *comm = gathering->made.at(rank);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  std::shared_ptr<Clique> whole;
  {
    const std::scoped_lock lock(state_mutex());
    if (!is_live(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
    whole = comm->clique;
  }
  if (part == nullptr || config != nullptr || color < NCCL_SPLIT_NOCOLOR)
    return refuse(ncclInvalidArgument, "color " + std::to_string(color));
  *part = nullptr;
  int device = -1;
  const bool is_current =
      cudaGetDevice(&device) == cudaSuccess && device == whole->devices[static_cast<std::size_t>(comm->rank)];
  if (!is_current) return refuse(ncclInvalidUsage, "another current device");
  if (!can_allocate()) return refuse(ncclUnhandledCudaError, "device memory cannot be allocated now");
  const auto enter = [&](Gathering& g) { return g.colors.emplace(comm->rank, std::pair(color, key)).second; };
  const std::string id = "split " + std::to_string(reinterpret_cast<std::uintptr_t>(whole.get()));
  std::shared_ptr<Gathering> gathering;
  const auto complete = [&](Gathering& g) { complete_split(g, *whole); };
  const ncclResult_t result = gather(id, whole->size(), enter, complete, gathering);
  if (result != ncclSuccess) return refuse(result, gathering->why);
  const auto found = gathering->made.find(comm->rank);
  if (found != gathering->made.end()) *part = found->second;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::scoped_lock lock(state_mutex());
  if (!is_live(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  comm->is_destroyed = true;
  ++emulated_cuda::nccl().destroyed;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::vector<std::shared_ptr<emulated_cuda::Meeting>> meetings;
  {
    const std::scoped_lock lock(state_mutex());
    if (!is_live(comm)) return refuse(ncclInvalidArgument, "a communicator that was destroyed");
    comm->is_destroyed = true;
    ++emulated_cuda::nccl().destroyed;
    comm->clique->broken = "rank " + std::to_string(comm->rank) + " has aborted";
    for (const auto& [number, collective] : comm->clique->open) meetings.push_back(collective->meeting);
    comm->clique->open.clear();
  }
  emulated_cuda::cancel(meetings);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::scoped_lock lock(state_mutex());
  if (!is_live(comm) || error == nullptr)
    return refuse(ncclInvalidArgument, "a communicator that was destroyed");
  *error = static_cast<ncclResult_t>(emulated_cuda::nccl().async_error.load());
  return ncclSuccess;
}
