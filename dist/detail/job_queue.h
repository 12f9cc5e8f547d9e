// A thread that runs jobs one after the other: it makes all calls of MPI, so that a program's own thread goes
// on meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "mezzo/core/function.h"
#include "mezzo/dist/work.h"

namespace mezzo::dist {

/// One job: done, or has thrown.
class Job final : public WorkState {
 public:
  explicit Job(mezzo::detail::Function<void()> run) : run_(std::move(run)) {}
  /// Until it is done. Throws: what it threw.
  void wait() override;
  [[nodiscard]] bool is_completed() override;

 private:
  friend class JobQueue;
  void run() noexcept;

  mezzo::detail::Function<void()> run_;
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool is_done_ = false;
  std::exception_ptr error_;
};

/// The thread begins with the queue, and ends with it after all jobs.
class JobQueue : public RefCounted {
 public:
  /// `idle` is called about every 20 ms while there is no job, if it is given.
  explicit JobQueue(mezzo::detail::Function<void()> idle = {});
  ~JobQueue() override;
  [[nodiscard]] Ref<Job> push(mezzo::detail::Function<void()> run);

 private:
  void work() noexcept;

  mezzo::detail::Function<void()> idle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Ref<Job>> jobs_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mezzo::dist
