// How the processes of a group come to a communicator: what each tells the others before NCCL is asked, so
// that a cause for which NCCL would wait or give a short refusal is an error that names it.
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"
#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/dist/collectives.h"
#include "mezzo/dist/nccl/communicator.h"
#include "mezzo/dist/nccl/nccl.h"
#include "mezzo/io/json.h"

namespace mezzo::dist {

namespace {

/// The information that a process sends to the others.
struct Member {
  std::string host;   ///< the machine's name
  std::string boot;   ///< which machine it is, among several of one name
  std::string gpu;    ///< its PCI address
  std::string error;  ///< why it cannot take part
  std::string id;     ///< of rank 0: NCCL's id, in hexadecimal
};
std::string text_of(const Member& member) {
  return Value(Value::list(member.host, member.boot, member.gpu, member.error, member.id)).to_string();
}

Member member_of(const std::string& text) {
  const Value fields = io::parse_json(text);
  return {fields[0].as_string(), fields[1].as_string(), fields[2].as_string(), fields[3].as_string(),
          fields[4].as_string()};
}

std::string hexadecimal(const ncclUniqueId& id) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : id.internal) {
    const auto byte = static_cast<unsigned char>(c);
    text += digits[byte / 16];
    text += digits[byte % 16];
  }
  return text;
}

ncclUniqueId id_of(const std::string& text) {
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof(id.internal) && 2 * i + 2 <= text.size(); ++i) {
    unsigned byte = 0;
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
    id.internal[i] = static_cast<char>(byte);
  }
  return id;
}

Member this_process(int rank, Device device) {
  Member member;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) member.host = name.data();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> member.boot;
  try {
    std::array<char, 32> address{};
    cuda::check(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device.index),
                "cudaDeviceGetPCIBusId");
    member.gpu = address.data();
    ncclUniqueId id{};
    static_cast<void>(nccl());
    if (rank == 0) {
      check_nccl(nccl().unique_id(&id), "ncclGetUniqueId");
      member.id = hexadecimal(id);
    }
  } catch (const Error& error) {
    member.error = error.what();
  }
  return member;
}

/// Throws DeviceError, alike in all processes, unless each member can take part and has a GPU of its own.
void check_members(const std::vector<Member>& members, int rank) {
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r].error.empty()) continue;
    throw DeviceError("NCCL", "a GPU and NCCL in each process",
                      "rank " + std::to_string(r) + " on " + members[r].host + ": " + members[r].error, "");
  }
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Member &x = members[a], &y = members[b];
      if (x.host != y.host || x.boot != y.boot || x.gpu != y.gpu) continue;
      const std::string gpus = static_cast<std::size_t>(rank) == a || static_cast<std::size_t>(rank) == b
                                   ? ", where " + std::to_string(cuda::device_count()) + " can be seen"
                                   : "";
      throw DeviceError("NCCL", "a GPU for each of " + std::to_string(members.size()) + " processes",
                        "ranks " + std::to_string(b) + " and " + std::to_string(a) + " on GPU " + x.gpu +
                            " of " + x.host + gpus,
                        "start at most as many processes on a machine as it has GPUs, and use "
                        "Device::cuda(dist::local_rank())");
    }
  }
}

void refuse_in_capture(Device device) {
  if (!cuda::current_stream(device).is_capturing()) return;
  throw StateError("NCCL", "a group that has been used on " + mezzo::to_string(device),
                   "its first collective in a capture",
                   "call a collective, say dist::barrier(), before the step is captured");
}

Ref<Transport> make(int rank, int size, Device device, const ncclUniqueId& id, const NcclOptions& options) {
  const cuda::DeviceGuard guard(device.index);
  const WatchedGroup watched{options.timeout, place_of(rank, size, device)};
  ncclComm_t comm = nullptr;
  {
    const Watch::Call on_host(watched, "ncclCommInitRank");
    check_nccl(nccl().init_rank(&comm, size, id, rank), "ncclCommInitRank of " + watched.text);
  }
  return make_ref<NcclTransport>(rank, size, device, comm, options);
}

Ref<Transport> make_over_host(Device device, GroupState& group, const NcclOptions& options) {
  refuse_in_capture(device);
  const std::string mine = text_of(this_process(group.rank(), device));
  std::vector<Member> members;
  for (const std::string& text : all_gather_text(mine, Group(Ref<GroupState>(&group))))
    members.push_back(member_of(text));
  check_members(members, group.rank());
  return make(group.rank(), group.size(), device, id_of(members[0].id), options);
}

std::string environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

MakeDeviceTransport nccl_over_host(const NcclOptions& options) {
  return [options](Device device, GroupState& group) { return make_over_host(device, group, options); };
}

MakeDeviceTransport nccl_from_environment(const NcclOptions& options) {
  if (environment("NCCL_COMM_ID").empty()) {
    const std::string host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    const bool is_port =
        error == std::errc() && end == port.data() + port.size() && number > 0 && number < 65536;
    if (host.empty() || !is_port) {
      throw ValueError("dist::init", "MASTER_ADDR and a port in MASTER_PORT",
                       "'" + host + "' and '" + port + "'",
                       "set them to the address of rank 0 and a free port there, or start by mpirun");
    }
    const bool is_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
    const std::string address = (is_ipv6 ? "[" + host + "]" : host) + ":" + port;
    // With it in the environment ncclGetUniqueId gives the same id to all, and rank 0 listens there.
    setenv("NCCL_COMM_ID", address.c_str(), 1);
  }
  return [options](Device device, GroupState& group) -> Ref<Transport> {
    refuse_in_capture(device);
    ncclUniqueId id{};
    check_nccl(nccl().unique_id(&id), "ncclGetUniqueId at " + environment("NCCL_COMM_ID"));
    return make(group.rank(), group.size(), device, id, options);
  };
}

}  // namespace mezzo::dist
