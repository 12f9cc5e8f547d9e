// The state of a process, read from /proc.
#include "mezzo/dist/mpi/peer_process.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

namespace mezzo::dist {

PeerProcess this_process() {
  PeerProcess process;
  process.id = getpid();
  // Containers of one machine number their processes apart.
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  char space[64] = {};
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0) machine += space;
  std::memcpy(process.machine, machine.data(), std::min(machine.size(), sizeof process.machine - 1));
  return process;
}

namespace {

bool is_here(const PeerProcess& process) {
  static const PeerProcess mine = this_process();
  return mine.machine[0] != '\0' && std::strcmp(mine.machine, process.machine) == 0;
}

}  // namespace

bool is_gone(const PeerProcess& process) {
  return is_here(process) && kill(process.id, 0) != 0 && errno == ESRCH;
}

ProcessState state_of(const PeerProcess& process) {
  if (!is_here(process)) return ProcessState::unknown;
  std::ifstream file("/proc/" + std::to_string(process.id) + "/stat");
  std::string line;
  if (!file || !std::getline(file, line)) return ProcessState::gone;
  // "4711 (name) S ...", where a name may hold anything.
  const std::size_t behind_name = line.rfind(") ");
  const char state = behind_name == std::string::npos ? 'S' : line[behind_name + 2];
  if (state == 'Z' || state == 'X') return ProcessState::gone;
  return state == 'T' || state == 't' ? ProcessState::stopped : ProcessState::runs;
}

}  // namespace mezzo::dist
