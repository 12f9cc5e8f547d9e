// Workers take turns in planning, make batches at the same time, and put them into a ring of slots. A slot
// belongs to a batch's number modulo the ring's length, so batches leave in order whoever finishes first.
#include "mezzo/data/batch_queue.h"

#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/parallel/float_environment.h"
#include "mezzo/core/parallel/signals_blocked.h"
#include "mezzo/core/parallel/thread_pool.h"
#include "mezzo/ops/cast.h"

namespace mezzo::data {

namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

std::string expected_of(std::int64_t index, std::int64_t batch) {
  const std::string of_batch = "batch " + std::to_string(batch);
  return index < 0 ? of_batch : "sample " + std::to_string(index) + " for " + of_batch;
}

}  // namespace

LoaderError::LoaderError(std::int64_t index, std::int64_t batch, std::string_view got,
                         std::shared_ptr<const void> cause)
    : Error("DataLoader", expected_of(index, batch), got, "mend the data set, or leave the sample out"),
      index_(index),
      batch_(batch),
      cause_(std::move(cause)) {}

void LoaderError::rethrow_cause() const {
  std::rethrow_exception(*static_cast<const std::exception_ptr*>(cause_.get()));
}

namespace detail {

void throw_loader_error(std::int64_t index, std::int64_t batch) {
  const std::exception_ptr cause = std::current_exception();
  throw LoaderError(index, batch, "'" + text_of(cause) + "'", std::make_shared<std::exception_ptr>(cause));
}

/// A batch, and when its copy to the device has run.
struct Made {
  HeldBatch held = {};
  std::optional<cuda::Event> uploaded = {};

  [[nodiscard]] bool is_end() const noexcept { return held.batch == nullptr; }
  void visit(const TensorVisitor& visitor) const { held.visit(held.batch.get(), visitor); }
};

/// Copies batches to a CUDA device in a stream of its own, beside the work of the loop.
class Uploader {
 public:
  explicit Uploader(Device device) : device_(device) {
    if (!device.is_cpu()) stream_.emplace(device);
  }
  void upload(Made& made) const {
    if (!stream_ || made.is_end()) return;
    const cuda::StreamGuard guard(*stream_);
    made.visit([this](Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.to(device_);
    });
    made.uploaded.emplace().record(*stream_);
  }
  /// Work that is queued from now on comes after the copy.
  void receive(Made& made) const {
    if (!made.uploaded) return;
    const cuda::Stream& stream = cuda::current_stream(device_);
    made.uploaded->wait(stream);
    made.visit([&](Tensor& tensor) {
      if (tensor.defined()) cuda::record_stream(tensor, stream);
    });
  }

 private:
  Device device_;
  std::optional<cuda::Stream> stream_;
};

class BatchQueue::Impl : mezzo::detail::NoCopy {
 public:
  Impl(BatchSource source, const QueueOptions& options)
      : source_(std::move(source)),
        uploader_(options.device),
        environment_(mezzo::detail::FloatEnvironment::current()),
        process_(::getpid()),
        slots_(static_cast<std::size_t>(options.workers) * static_cast<std::size_t>(options.prefetch)) {
    const mezzo::detail::SignalsBlocked blocked;
    try {
      for (int i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads
      stop();
      throw;
    }
  }
  ~Impl() { stop(); }

  [[nodiscard]] bool is_of_this_process() const noexcept { return process_ == ::getpid(); }

  HeldBatch next() {
    const Phase phase("loader");
    if (!is_of_this_process()) {
      throw StateError("DataLoader", "the process that began the epoch", "a child of it, without its workers",
                       "begin an epoch in the child");
    }
    Made made = slots_.empty() ? make_next() : take();
    if (!made.is_end()) uploader_.receive(made);
    return made.held;
  }

 private:
  struct Slot {
    bool ready = false;
    Made made;  ///< no batch: the end
    std::exception_ptr error;
  };

  /// Without workers.
  Made make_next() {
    if (ended_) return {};
    Made made;
    try {
      const PlainOps plain;  // whatever scopes the calling thread has open
      if (const MakeBatch make = source_()) made.held = make();
      uploader_.upload(made);
    } catch (...) {
      ended_ = true;
      throw;
    }
    ended_ = made.is_end();
    return made;
  }

  Made take() {
    std::unique_lock lock(mutex_);
    if (ended_) return {};
    Slot& slot = slots_[taken_ % slots_.size()];
    filled_.wait(lock, [&] { return slot.ready; });
    ++taken_;
    Slot result = std::exchange(slot, Slot{});
    ended_ = result.made.is_end();
    lock.unlock();
    freed_.notify_one();
    if (result.error != nullptr) std::rethrow_exception(result.error);
    return std::move(result.made);
  }

  void work() {
    const mezzo::detail::WithFloatEnvironment environment(environment_);
    const mezzo::detail::AloneScope alone;
    const PlainOps plain;
    while (work_once()) {
    }
  }

  /// The task of a worker: to make a batch, or to say that there is none.
  struct Job {
    std::uint64_t number = 0;
    MakeBatch make;
    std::exception_ptr error;
  };

  /// Makes a batch and puts it into its slot. False when there is nothing to be made any more.
  bool work_once() {
    std::optional<Job> job = next_job();
    if (!job) return false;
    Slot result{.ready = true, .made = {}, .error = std::move(job->error)};
    if (job->make) {
      const Activity activity(ActivityKind::worker, "loader worker");
      try {
        result.made.held = job->make();
        uploader_.upload(result.made);
      } catch (...) {
        result.made = {};
        result.error = std::current_exception();
      }
    }
    const bool more = !result.made.is_end();
    {
      const std::lock_guard lock(mutex_);
      slots_[job->number % slots_.size()] = std::move(result);
    }
    filled_.notify_one();
    return more;
  }

  /// Waits for a free slot. None when the queue ends, or when all is planned.
  std::optional<Job> next_job() {
    const std::lock_guard turn(planning_);
    if (all_planned_) return std::nullopt;
    Job job;
    {
      std::unique_lock lock(mutex_);
      freed_.wait(lock, [&] { return stopping_ || planned_ < taken_ + slots_.size(); });
      if (stopping_) return std::nullopt;
      job.number = planned_++;
    }
    try {
      job.make = source_();
    } catch (...) {
      job.error = std::current_exception();
    }
    all_planned_ = !job.make;
    return job;
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    freed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  const BatchSource source_;
  const Uploader uploader_;
  const mezzo::detail::FloatEnvironment environment_;
  const pid_t process_;
  bool ended_ = false;  ///< of the loop's thread

  std::mutex planning_;  ///< held by the worker whose turn it is
  bool all_planned_ = false;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable filled_, freed_;
  std::vector<Slot> slots_;
  std::uint64_t planned_ = 0, taken_ = 0;  ///< batches
  bool stopping_ = false;

  std::vector<std::thread> workers_;
};

BatchQueue::BatchQueue(BatchSource source, const QueueOptions& options)
    : impl_(std::make_unique<Impl>(std::move(source), options)) {}
BatchQueue::~BatchQueue() {
  // In a child of fork() the workers are not there, and what they waited for is not to be destroyed.
  if (!impl_->is_of_this_process()) static_cast<void>(impl_.release());
}

HeldBatch BatchQueue::next() { return impl_->next(); }

}  // namespace detail

}  // namespace mezzo::data
