// Watches collectives of NCCL, which wait for other processes without end: a thread that ends the program
// when one takes longer than its timeout, or when NCCL reports an error that it noticed by itself.
#pragma once

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/core/cuda.h"

namespace mezzo::dist {

/// The group of a call, for messages and deadlines.
struct WatchedGroup {
  std::chrono::milliseconds timeout;
  std::string text;  ///< "rank 1 of 4 on cuda:1"
};

/// One per process. Its thread begins with the first communicator and ends with the program. Work in streams
/// is seen by events, two per device: one that the thread waits for, and one behind the newest collective,
/// which takes its place.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] static Watch& of_process();

  /// A call that has begun on this thread, and may wait on the host, while it lives.
  class Call : mezzo::detail::NoCopy {
   public:
    Call(const WatchedGroup& group, std::string what);
    ~Call();

   private:
    friend class Watch;
    const WatchedGroup& group_;
    std::string what_;
    Clock::time_point begin_ = Clock::now();
    std::list<const Call*>::iterator place_;
  };

  void add(ncclComm_t comm, const WatchedGroup& group);
  void remove(ncclComm_t comm) noexcept;
  /// A collective was put into `stream`, which does not capture. `what` is asked for when a mark is made.
  void enqueued(const cuda::Stream& stream, const WatchedGroup& group, const std::string& what);

 private:
  struct Mark {
    cuda::Event event;
    bool is_set = false;
    Clock::time_point when;
    std::chrono::milliseconds timeout{};
    std::string text;
    void set(const cuda::Stream& stream, const WatchedGroup& group, const std::string& what);
  };
  struct Marks {
    Mark awaited, newest;
  };
  struct Communicator {
    ncclComm_t comm;
    const WatchedGroup* group;
  };

  void begin();
  void end() noexcept;
  void run() noexcept;
  /// Why the program has to end now, or nothing. Hold the mutex.
  [[nodiscard]] std::string look();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  bool ends_ = false;
  std::list<const Call*> calls_;
  std::map<int, Marks> marks_;  ///< by device
  std::vector<Communicator> communicators_;
};

}  // namespace mezzo::dist
