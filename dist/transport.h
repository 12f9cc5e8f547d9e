// Transport: what moves bytes among the processes of a group. MPI is one (dist/mpi), NCCL another
// (dist/nccl); collectives on tensors (dist/collectives.h) are made of its few calls. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo::dist {

/// How values of several processes become one. `mean` is the sum, divided by the number of processes.
enum class ReduceOp : std::uint8_t { sum, mean, min, max };

/// "sum".
[[nodiscard]] std::string_view to_string(ReduceOp op);

/// A group of processes whose members make the same calls in the same order, one at a time. Memory is dense
/// and on the transport's device. A CPU transport's call returns when its result is there. A CUDA
/// transport's call puts its work into the current stream of the device. A call that fails or takes longer
/// than the timeout ends the program on all processes (dist/init.h), or throws CommunicationError where a
/// transport cannot end them.
class Transport : public RefCounted {
 public:
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Where its memory is.
  [[nodiscard]] Device device() const noexcept { return device_; }

  /// Root's bytes into everybody's.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// In place; sum, min or max. Dtypes: f32, f64, i32, i64, u8.
  virtual void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;
  /// `whole` has size() parts of `count` elements, of which rank r gets the reduced part r. `part` may be
  /// that place in `whole`, whose other elements may be written to. Dtypes as all_reduce.
  virtual void reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) = 0;
  /// `whole` has size() parts of so many bytes, of which part r is rank r's `part`, which may be its place.
  virtual void all_gather(const void* part, void* whole, std::size_t bytes) = 0;
  /// Part r of `from` to rank r, which finds it as part rank() of its `to`. The two do not overlap.
  virtual void all_to_all(const void* from, void* to, std::size_t bytes) = 0;
  /// Returns, or lets the stream go on, when all have called it.
  virtual void barrier() = 0;
  /// A group of these ranks, in this order; called by all of this group. Ranks that are not among them get
  /// nothing.
  [[nodiscard]] virtual Ref<Transport> split(std::span<const int> ranks) = 0;
  /// Says what the calls that follow are for, in messages: "gradients, bucket 2".
  virtual void set_place(std::string_view /*place*/) {}

 protected:
  Transport(int rank, int size, Device device) : rank_(rank), size_(size), device_(device) {}

 private:
  int rank_, size_;
  Device device_;
};

}  // namespace mezzo::dist
