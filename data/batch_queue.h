// The threads behind a DataLoader: they make batches ahead of the loop, which gets them in their order. Knows
// no types of samples or batches.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/core/device.h"
#include "mezzo/core/error.h"
#include "mezzo/core/function.h"
#include "mezzo/data/collate.h"

namespace mezzo::data {

/// A sample or a batch could not be made. Its text holds the cause's; the cause itself can be rethrown.
class LoaderError : public Error {
 public:
  /// `index`: of the sample in the data set; -1 where no single one is at fault.
  LoaderError(std::int64_t index, std::int64_t batch, std::string_view got,
              std::shared_ptr<const void> cause);
  [[nodiscard]] std::int64_t index() const noexcept { return index_; }
  [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }
  /// Throws what the data set, a transform or the collate has thrown.
  [[noreturn]] void rethrow_cause() const;

 private:
  std::int64_t index_, batch_;
  std::shared_ptr<const void> cause_;  ///< a std::exception_ptr
};

namespace detail {

/// The exception that is being handled as a LoaderError.
[[noreturn]] void throw_loader_error(std::int64_t index, std::int64_t batch);

/// A batch of any type; none: the end.
struct HeldBatch {
  std::shared_ptr<void> batch = {};
  std::int64_t samples = 0;  ///< of the whole batch, also where this is a share of it
  void (*visit)(void* batch, const TensorVisitor& visitor) = nullptr;
};

/// Makes one batch. Called on any thread, with others at the same time.
using MakeBatch = mezzo::detail::Function<HeldBatch()>;
/// The batches of one epoch: of the next one what makes it, while the source lives; empty at the end. Called
/// on one thread at a time.
using BatchSource = mezzo::detail::Function<MakeBatch()>;

struct QueueOptions {
  int workers = 0;   ///< 0: batches are made by the thread that asks for them
  int prefetch = 2;  ///< batches that may be ready or in the making, for each worker
  Device device;     ///< where batches are brought
};

/// Makes the source's batches and hands them out in order. Its end waits for the samples that are in the
/// making.
class BatchQueue : mezzo::detail::NoCopy {
 public:
  BatchQueue(BatchSource source, const QueueOptions& options);
  ~BatchQueue();

  /// The next batch, on the device: what the thread's current stream does with it comes after its copy. None
  /// at the end. Throws: what the source or a MakeBatch threw, once; then the end. StateError in a child of
  /// fork().
  [[nodiscard]] HeldBatch next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

}  // namespace mezzo::data
