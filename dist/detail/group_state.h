// The state behind a Group: transports by device, and the thread that makes a CPU transport's calls.
#pragma once

#include <atomic>
#include <mutex>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/dist/detail/job_queue.h"
#include "mezzo/dist/transport.h"
#include "mezzo/dist/work.h"

namespace mezzo::dist {

class GroupState;

/// Makes the transport of a CUDA device for a group, at the first collective there. Ids are exchanged by
/// the group's CPU transport, where it has one.
using MakeDeviceTransport = mezzo::detail::Function<Ref<Transport>(Device device, GroupState& group)>;

/// A group. Members are called by one thread at a time.
class GroupState : public RefCounted {
 public:
  /// `host` moves CPU tensors; empty: there are none to move (NCCL alone) or the group is this process.
  /// `queue`: of all groups of the process. `device`: without `host`, the one whose transport is all there
  /// is.
  GroupState(int rank, int size, Ref<Transport> host, Ref<JobQueue> queue, MakeDeviceTransport make_device,
             Device device = Device::cpu());
  ~GroupState() override;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const Ref<Transport>& host() const noexcept { return host_; }
  /// The device that texts and splits go through: the CPU, or the group's if it has no CPU transport.
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] Ref<GroupState> split(std::span<const int> ranks);

  /// Runs `job` with the transport of `device`: on the CPU on the queue's thread, behind all jobs before; on
  /// CUDA now, in the group's stream there, behind the work that is in the current stream. `keep`: what must
  /// live until it is done. Throws: DeviceError for a device without transport.
  [[nodiscard]] Work start(Device device, std::vector<Tensor> keep,
                           mezzo::detail::Function<void(Transport&)> job);

  void count(std::uint64_t bytes) noexcept {
    calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] Transport& device_transport(Device device);

  int rank_, size_;
  Ref<Transport> host_;
  Ref<JobQueue> queue_;
  MakeDeviceTransport make_device_;
  Device device_;
  std::mutex mutex_;
  std::vector<Ref<Transport>> devices_;
  std::atomic<std::uint64_t> calls_{0}, bytes_{0};
};

/// Puts a job of a CUDA transport into the group's stream of its device (cuda_work.cpp; nothing without
/// CUDA).
[[nodiscard]] Work start_on_device(Transport& transport, const std::vector<Tensor>& keep,
                                   const mezzo::detail::Function<void(Transport&)>& job);

}  // namespace mezzo::dist
