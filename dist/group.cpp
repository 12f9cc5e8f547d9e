// Groups and work: who does what is asked of them.
#include "mezzo/dist/group.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/dist/detail/group_state.h"

namespace mezzo::dist {

namespace {

/// Work on the queue's thread.
class QueuedWork final : public WorkState {
 public:
  explicit QueuedWork(Ref<Job> job) : job_(std::move(job)) {}
  void wait() override { job_->wait(); }
  bool is_completed() override { return job_->is_done(); }

 private:
  Ref<Job> job_;
};

}  // namespace

Work::Work() noexcept = default;
Work::Work(Ref<WorkState> state) noexcept : state_(std::move(state)) {}
Work::Work(const Work& other) noexcept = default;
Work::Work(Work&& other) noexcept = default;
Work& Work::operator=(Work other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Work::~Work() = default;

void Work::wait() const {
  if (state_) state_->wait();
}
bool Work::is_completed() const { return !state_ || state_->is_completed(); }

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

GroupState::GroupState(int rank, int size, Ref<Transport> host, Ref<JobQueue> queue,
                       MakeDeviceTransport make_device)
    : rank_(rank),
      size_(size),
      host_(std::move(host)),
      queue_(std::move(queue)),
      make_device_(std::move(make_device)) {}

GroupState::~GroupState() {
  if (!queue_) return;
  // A transport's end may be a call of MPI, which the queue's thread makes.
  static_cast<void>(queue_->push([host = std::exchange(host_, nullptr)]() mutable { host = nullptr; }));
}

Ref<GroupState> GroupState::split(std::span<const int> ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  Ref<Transport> host;
  if (host_) {
    queue_->push([&] { host = host_->split(ranks); })->wait();
  }
  if (found == ranks.end()) return {};
  // Where there is no CPU transport the group's ids are exchanged by this group's transport of the device.
  MakeDeviceTransport make;
  if (make_device_) {
    make = [parent = Ref<GroupState>(this), list = std::vector<int>(ranks.begin(), ranks.end())](
               Device device, const GroupState& part) -> Ref<Transport> {
      return part.host() ? parent->make_device_(device, part) : parent->device_transport(device).split(list);
    };
  }
  return make_ref<GroupState>(static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()),
                              std::move(host), queue_, std::move(make));
}

Transport& GroupState::device_transport(Device device) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& known) { return known->device() == device; });
  if (found != devices_.end()) return **found;
  if (!make_device_) {
    throw DeviceError("dist", "CPU tensors in a group without NCCL", "one on " + mezzo::to_string(device),
                      "build mezzo with CUDA where NCCL is installed");
  }
  devices_.push_back(make_device_(device, *this));
  return *devices_.back();
}

Work GroupState::start(Device device, std::vector<Tensor> keep,
                       mezzo::detail::Function<void(Transport&)> job) {
  if (size_ == 1) return {};
  if (!device.is_cpu()) return start_on_device(device_transport(device), std::move(keep), job);
  if (!host_) {
    throw DeviceError("dist", "CUDA tensors in a group that NCCL alone moves", "one on the CPU",
                      "start the program by mpirun or srun, or bring the tensor to the GPU");
  }
  return Work(make_ref<QueuedWork>(
      queue_->push([host = host_, keep = std::move(keep), job = std::move(job)]() mutable { job(*host); })));
}

}  // namespace mezzo::dist
