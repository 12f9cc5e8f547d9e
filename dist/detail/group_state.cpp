// A group's transports, and who runs jobs with them.
#include "mezzo/dist/detail/group_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/dist/group.h"

namespace mezzo::dist {

GroupState::GroupState(int rank, int size, Ref<Transport> host, Ref<JobQueue> queue,
                       MakeDeviceTransport make_device, Device device)
    : rank_(rank),
      size_(size),
      host_(std::move(host)),
      queue_(std::move(queue)),
      make_device_(std::move(make_device)),
      device_(host_ ? Device::cpu() : device) {}

GroupState::~GroupState() {
  if (!queue_) return;
  // A transport's end may be a call of MPI, which the queue's thread makes.
  static_cast<void>(queue_->push([host = std::exchange(host_, nullptr)]() mutable { host = nullptr; }));
}

Ref<GroupState> GroupState::split(std::span<const int> ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  const auto place = static_cast<int>(found - ranks.begin());
  const auto count = static_cast<int>(ranks.size());
  if (host_) {
    Ref<Transport> host;
    queue_->push([&] { host = host_->split(ranks); })->wait();
    if (found == ranks.end()) return {};
    return make_ref<GroupState>(place, count, std::move(host), queue_, make_device_);
  }
  // All take part in a split of the device's transport, so it cannot wait for the first collective.
  Ref<Transport> part;
  if (size_ > 1) part = device_transport(device_).split(ranks);
  if (found == ranks.end()) return {};
  auto group = make_ref<GroupState>(place, count, nullptr, queue_, MakeDeviceTransport(), device_);
  if (part) group->devices_.push_back(std::move(part));
  return group;
}

Transport& GroupState::device_transport(Device device) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& known) { return known->device() == device; });
  if (found != devices_.end()) return **found;
  if (!make_device_) {
    if (!device_.is_cpu()) {
      throw DeviceError("dist", "tensors on " + mezzo::to_string(device_),
                        "one on " + mezzo::to_string(device),
                        "start the program by mpirun or srun to use several devices in a process");
    }
    throw DeviceError("dist", "CPU tensors in a group without NCCL", "one on " + mezzo::to_string(device),
                      "build mezzo with CUDA where NCCL is installed");
  }
  devices_.push_back(make_device_(device, *this));
  return *devices_.back();
}

Work GroupState::start(Device device, std::vector<Tensor> keep,
                       mezzo::detail::Function<void(Transport&)> job) {
  if (size_ == 1) return {};
  if (!device.is_cpu()) return start_on_device(device_transport(device), keep, job);
  if (!host_) {
    throw DeviceError("dist", "CUDA tensors in a group that NCCL alone moves", "one on the CPU",
                      "start the program by mpirun or srun, or bring the tensor to the GPU");
  }
  return Work(
      queue_->push([host = host_, keep = std::move(keep), job = std::move(job)]() mutable { job(*host); }));
}

// --- groups: which ranks they are made of

Group::Group() : state_(make_ref<GroupState>(0, 1, nullptr, nullptr, MakeDeviceTransport())) {}
Group::Group(Ref<GroupState> state) noexcept : state_(std::move(state)) {}
Group::Group(const Group& other) noexcept = default;
Group::Group(Group&& other) noexcept = default;
Group& Group::operator=(Group other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Group::~Group() = default;

int Group::rank() const noexcept { return state_->rank(); }
int Group::size() const noexcept { return state_->size(); }

Group Group::split(const std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool is_there = ranks[i] >= 0 && ranks[i] < size();
    const bool comes_twice = std::count(ranks.begin(), ranks.end(), ranks[i]) > 1;
    if (is_there && !comes_twice) continue;
    throw ValueError("Group.split", "ranks of the group, each once",
                     std::to_string(ranks[i]) + (is_there ? " twice" : ""),
                     "name ranks in [0, " + std::to_string(size()) + ")");
  }
  if (ranks.empty()) throw ValueError("Group.split", "at least one rank", "none", "name the group's ranks");
  Ref<GroupState> part = state_->split(ranks);
  return part ? Group(std::move(part)) : Group();
}

}  // namespace mezzo::dist
