// A communicator of NCCL and the transport over it. It is blocking: one that is not puts its kernels into the
// stream from a thread of its own, later than the event that says that it is done.
#pragma once

#include <nccl.h>

#include <string>

#include "mezzo/core/tensor.h"
#include "mezzo/dist/nccl/transport.h"
#include "mezzo/dist/nccl/watch.h"
#include "mezzo/dist/transport.h"

namespace mezzo::dist {

class NcclTransport final : public Transport {
 public:
  /// Owns the communicator.
  NcclTransport(int rank, int size, Device device, ncclComm_t comm, const NcclOptions& options);
  ~NcclTransport() override;

  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override;
  void reduce_scatter(void* whole, void* part, std::int64_t count, DType dtype, ReduceOp op) override;
  void all_gather(const void* part, void* whole, std::size_t bytes) override;
  void all_to_all(const void* from, void* to, std::size_t bytes) override;
  void barrier() override;
  [[nodiscard]] Ref<Transport> split(std::span<const int> ranks) override;
  void set_place(std::string_view place) override { place_ = place; }

 private:
  friend class WatchedReplay;
  /// Lets replays of the graph that this thread captures be watched, and keeps the communicator for them.
  void note_recorded();
  /// Makes the call in the device's current stream, watched. `f` gets the stream.
  template <class F>
  void call(const char* function, std::size_t bytes, F f);

  ncclComm_t comm_;
  NcclOptions options_;
  WatchedGroup watched_;
  std::string place_;
  Tensor one_;  ///< what a barrier reduces
};

/// "rank 1 of 4 on cuda:1".
[[nodiscard]] std::string place_of(int rank, int size, Device device);

}  // namespace mezzo::dist
