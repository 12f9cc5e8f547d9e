// The thread of a JobQueue, and how others wait for its jobs.
#include "mezzo/dist/detail/job_queue.h"

#include <chrono>
#include <utility>

#include "mezzo/core/parallel/signals_blocked.h"

namespace mezzo::dist {

void Job::run() noexcept {
  std::exception_ptr error;
  try {
    run_();
  } catch (...) {
    error = std::current_exception();
  }
  run_ = {};  // what it kept alive goes before anybody knows that it is done
  const std::scoped_lock lock(mutex_);
  error_ = error;
  is_done_ = true;
  done_changed_.notify_all();
}

void Job::wait() {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [this] { return is_done_; });
  if (error_) std::rethrow_exception(error_);
}

bool Job::is_completed() {
  const std::scoped_lock lock(mutex_);
  return is_done_;
}

JobQueue::JobQueue(mezzo::detail::Function<void()> idle) : idle_(std::move(idle)) {
  const mezzo::detail::SignalsBlocked none;
  thread_ = std::thread([this] { work(); });
}

JobQueue::~JobQueue() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Ref<Job> JobQueue::push(mezzo::detail::Function<void()> run) {
  auto job = make_ref<Job>(std::move(run));
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  return job;
}

void JobQueue::work() noexcept {
  constexpr auto kIdleInterval = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [this] { return ends_ || !jobs_.empty(); };
    if (!idle_) {
      changed_.wait(lock, has_work);
    } else {
      while (!changed_.wait_for(lock, kIdleInterval, has_work)) {
        lock.unlock();
        idle_();
        lock.lock();
      }
    }
    if (jobs_.empty()) return;
    const Ref<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job->run();
    lock.lock();
  }
}

}  // namespace mezzo::dist
