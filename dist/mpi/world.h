// MpiWorld: this process's part in MPI: the thread that makes MPI's calls, how it waits for a collective, and
// how processes tell each other where they are when one of them is late.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mezzo/dist/detail/job_queue.h"
#include "mezzo/dist/mpi/functions.h"

namespace mezzo::dist {

/// A process, as other ranks are told of it. Plain bytes, which travel.
struct PeerProcess {
  char machine[128] = {};  ///< equal for processes that see each other
  int id = 0;
};

/// There is one in a process, which is never destroyed. Unless said otherwise members are called on the
/// thread of its queue.
class MpiWorld {
 public:
  /// Begins with MPI, on a new queue's thread; on any thread. Throws: StateError with what MPI says.
  static MpiWorld& open(const MezzoMpiFunctions& functions, std::chrono::milliseconds timeout);

  [[nodiscard]] const MezzoMpiWorld& place() const noexcept { return place_; }
  [[nodiscard]] const MezzoMpiFunctions& functions() const noexcept { return *functions_; }
  /// On any thread; empty after close().
  [[nodiscard]] const Ref<JobQueue>& queue() const noexcept { return queue_; }
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }

  /// Until the collective is done. One that takes longer than the timeout ends all processes: all other
  /// processes are asked where they are, and processes that do not answer or are elsewhere are named.
  void wait(MezzoMpiRequest* request);
  /// Ends all processes where MPI reports an error.
  void check(const char* error);
  /// Answers what others ask, and ends all where another thread asked for it. Called while nothing else is
  /// done.
  void poll();

  /// On the program's thread: waits until all processes are at the end of their sessions, and ends MPI.
  void close();
  /// Ends all processes, with a line that says what this one is at and why. On any thread. When several do so
  /// at once, the lowest rank speaks for all.
  [[noreturn]] void end_all(const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    PeerProcess process;
    bool has_answered = false, is_late_too = false;
    std::string text;
  };

  MpiWorld() = default;
  void start();
  [[noreturn]] void end_late();
  [[noreturn]] void end_here(const std::string& why);
  [[noreturn]] void leave(const std::string& line);
  [[nodiscard]] std::string line_of(const std::string& why) const;
  /// Lets a lower rank that ends all speak.
  void give_way();
  /// Ends all when a process of this machine has ended without a word.
  void look_for_gone();
  /// Handles messages for so long, or until `is_enough()`.
  template <class F>
  void poll_for(std::chrono::milliseconds time, F is_enough);
  void handle(const MezzoMpiMessage& message);
  void tell(int peer, int kind, std::string_view text);
  void tell_all(int kind, std::string_view text);
  [[nodiscard]] bool lower_rank_ends() const noexcept;
  [[nodiscard]] std::string who_is_missing() const;

  const MezzoMpiFunctions* functions_ = nullptr;
  MezzoMpiWorld place_{};
  std::chrono::milliseconds timeout_{};
  Ref<JobQueue> queue_;
  std::thread::id thread_;
  std::atomic<bool> is_open_{false};
  std::vector<Peer> peers_;
  Clock::time_point next_look_;
  bool is_closing_ = false;
  /// The lowest rank that has said that it ends all, and since when.
  int ending_rank_ = -1;
  Clock::time_point ending_since_;
  /// Why another thread wants all processes ended.
  std::mutex mutex_;
  std::string why_end_;
  std::atomic<bool> wants_end_{false};
};

}  // namespace mezzo::dist
