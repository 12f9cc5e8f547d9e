// The processes of the other ranks, as this machine's system knows them: which are gone, and which are
// stopped.
#pragma once

namespace mezzo::dist {

/// A process, as other ranks are told of it. Plain bytes, which travel.
struct PeerProcess {
  char machine[128] = {};  ///< equal for processes that see each other
  int id = 0;
};

[[nodiscard]] PeerProcess this_process();

enum class ProcessState { unknown, runs, stopped, gone };
/// Whether a process of this machine has ended; quick.
[[nodiscard]] bool is_gone(const PeerProcess& process);
/// Of a process of this machine; unknown for others.
[[nodiscard]] ProcessState state_of(const PeerProcess& process);

}  // namespace mezzo::dist
