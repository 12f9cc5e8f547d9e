// Training in each mode: the step, clocks per step (CUDA events on a GPU), memory, and the turns. A mode's
// first step also checks the dtypes of output, loss, parameters and gradients.
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "mezzo/core/cuda.h"
#include "mezzo/core/memory/allocator.h"

namespace mlp_timing {

using namespace mezzo;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::int64_t kTurns = 15;

nn::Sequential& fill(nn::Sequential& net, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) net.push_back(nn::ReLU());
    net.push_back(nn::Linear(sizes[i], sizes[i + 1]));
  }
  return net;
}

void expect_dtype(const Tensor& tensor, DType expected, const char* what) {
  if (tensor.dtype() == expected) return;
  throw std::logic_error(std::string("mlp_timing: expected ") + what + " in " + to_string(expected) +
                         ", got " + to_string(tensor.dtype()));
}

/// The dtypes that a step must show: outputs in the mode's, everything that is kept between steps in f32.
void check_dtypes(const nn::Sequential& net, const Mode& mode, const Tensor& output, const Tensor& loss) {
  expect_dtype(output, mode.dtype, "the output");
  expect_dtype(loss, DType::f32, "the loss");
  for (const Tensor& parameter : net.parameters()) {
    expect_dtype(parameter, DType::f32, "parameters");
    expect_dtype(parameter.grad(), DType::f32, "gradients");
  }
}

/// One training step; returns the loss, which stays on the device.
struct Trainer {
  const Workload& workload;
  const Mode& mode;
  nn::Sequential& net;
  optim::SGD& optimizer;
  amp::GradScaler& scaler;

  Tensor step(const Tensor& input, const Tensor& target, bool check_it) {
    Tensor output, loss;
    {
      std::optional<amp::Autocast> autocast;
      if (mode.autocast) autocast.emplace(workload.device, mode.dtype, amp::AutocastOptions{.fp8 = mode.fp8});
      output = net(input);
      loss = mse_loss(output, target);
    }
    scaler.scale(loss).backward();
    if (check_it) check_dtypes(net, mode, output, loss);
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
    return loss.detach();
  }
};

/// How long each step took, asked when the device has run them all. On a GPU the host is ahead of the work,
/// so the clock is in the stream.
class StepTimes {
 public:
  explicit StepTimes(Device device) : device_(device) {}
  void begin() { mark(); }
  void end() { mark(); }
  [[nodiscard]] std::vector<double> seconds() const {
    std::vector<double> all;
    if (device_.is_cpu()) {
      for (std::size_t i = 1; i < times_.size(); i += 2)
        all.push_back(std::chrono::duration<double>(times_[i] - times_[i - 1]).count());
    } else {
      for (std::size_t i = 1; i < events_.size(); i += 2)
        all.push_back(1e-3 * static_cast<double>(events_[i].elapsed_ms(events_[i - 1])));
    }
    return all;
  }

 private:
  void mark() {
    if (device_.is_cpu())
      times_.push_back(Clock::now());
    else
      events_.emplace_back(cuda::Timing::on).record(cuda::current_stream(device_));
  }
  Device device_;
  std::vector<Clock::time_point> times_;
  std::vector<cuda::Event> events_;
};

/// Allows or forbids TF32 while it lives.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool allow) : before_(cuda::allow_tf32()) { cuda::set_allow_tf32(allow); }
  ~Tf32Scope() { cuda::set_allow_tf32(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool before_;
};

/// The steps of a run, one per call: eager ones on the batches themselves, captured ones on a copy, since a
/// recorded step reads the same memory every time.
class Steps {
 public:
  Steps(Trainer& trainer, const Data& data) : trainer_(trainer), data_(data) {
    if (!trainer.mode.captured) return;
    input_ = empty_like(data.inputs.front());
    target_ = empty_like(data.targets.front());
    captured_.emplace(trainer.workload.device, [this] {
      const bool first = std::exchange(first_, false);
      return trainer_.step(input_, target_, first);
    });
  }
  Tensor operator()(std::size_t batch) {
    if (!captured_)
      return trainer_.step(data_.inputs[batch], data_.targets[batch], std::exchange(first_, false));
    input_.copy_(data_.inputs[batch]);
    target_.copy_(data_.targets[batch]);
    return (*captured_)();
  }

 private:
  Trainer& trainer_;
  const Data& data_;
  bool first_ = true;
  Tensor input_, target_;
  std::optional<amp::CapturedStep> captured_;
};

std::vector<ScalePoint> changes(const std::vector<Tensor>& scales, double initial) {
  std::vector<ScalePoint> points{{0, initial}};
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const double scale = scales[i].item();
    if (scale != points.back().scale) points.push_back({static_cast<std::int64_t>(i) + 1, scale});
  }
  return points;
}

nn::Sequential& start(nn::Sequential& net, const Workload& workload) {
  manual_seed(workload.seed + 1);  // the same initial weights in every mode
  return fill(net, workload.sizes);
}

/// One mode: what it trains, and what it measured so far.
class Session {
 public:
  Session(const Workload& workload, const Mode& mode, const Data& data)
      : workload_(workload), mode_(mode), before_(memory_stats(workload.device).current) {
    start(net_, workload).to(workload.device);
    optimizer_.emplace(net_.parameters(), optim::SGDOptions{.lr = workload.lr});
    scaler_.emplace(amp::GradScalerOptions{.init_scale = workload.init_scale,
                                           .growth_interval = workload.growth_interval,
                                           .enabled = mode.scaler});
    trainer_.emplace(Trainer{workload_, mode_, net_, *optimizer_, *scaler_});
    steps_.emplace(*trainer_, data);
    own_bytes_ = memory_stats(workload.device).current - before_;
    result_.mode = mode;
  }

  /// Trains for `count` steps more, or what is left of the run.
  void turn(std::int64_t count, const std::function<void()>& after_step) {
    const Tf32Scope tf32(mode_.tf32);
    const Device device = workload_.device;
    StepTimes times(device);
    reset_peak_memory_stats(device);
    synchronize(device);
    const std::int64_t allocated = memory_stats(device).current;
    const std::uint64_t reads = host_reads();
    const Clock::time_point begin = Clock::now();
    for (const std::int64_t end = std::min(done_ + count, workload_.steps()); done_ < end; ++done_) {
      times.begin();
      loss_ = (*steps_)(static_cast<std::size_t>(done_ % workload_.num_batches));
      times.end();
      if (mode_.scaler) scales_.push_back(scaler_->scale_tensor());
      after_step();
    }
    synchronize(device);
    result_.total_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    result_.host_reads += static_cast<std::int64_t>(host_reads() - reads);
    // The other modes' models lie in memory as well: what counts is what this one added to its own.
    result_.peak_of_all = std::max(result_.peak_of_all, memory_stats(device).peak);
    const std::int64_t peak = own_bytes_ + memory_stats(device).peak - allocated;
    result_.peak_without_data = std::max(result_.peak_without_data, peak);
    own_bytes_ += memory_stats(device).current - allocated;
    const std::vector<double> seconds = times.seconds();
    result_.turn_seconds.push_back(spread_of(seconds).median);
    result_.step_seconds.insert(result_.step_seconds.end(), seconds.begin(), seconds.end());
  }

  Measurement result() {
    result_.peak_bytes = result_.peak_without_data + static_cast<std::int64_t>(workload_.data_bytes());
    result_.final_loss = loss_.item();
    if (mode_.scaler) {
      result_.scales = changes(scales_, workload_.init_scale);
      result_.steps_skipped = scaler_->steps_skipped();
    }
    return result_;
  }

 private:
  const Workload& workload_;
  const Mode mode_;
  std::int64_t before_, own_bytes_ = 0, done_ = 0;
  nn::Sequential net_;
  std::optional<optim::SGD> optimizer_;
  std::optional<amp::GradScaler> scaler_;
  std::optional<Trainer> trainer_;
  std::optional<Steps> steps_;
  std::vector<Tensor> scales_;
  Tensor loss_;
  Measurement result_;
};

}  // namespace

void start_libraries(const Workload& workload, const std::vector<Mode>& modes, const Data& data) {
  if (workload.device.is_cuda()) {
    Workload one = workload;
    one.num_batches = one.epochs = 1;
    static_cast<void>(measure(one, modes, data, [](std::int64_t) {}));
    return;
  }
  const Tensor weight = zeros({workload.sizes[1], workload.sizes[0]}, {.device = workload.device});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    static_cast<void>(linear(data.inputs.front().to(dtype), weight.to(dtype)));
  }
}

std::vector<Measurement> measure(const Workload& workload, const std::vector<Mode>& modes, const Data& data,
                                 const Progress& progress) {
  empty_cache(workload.device);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Mode& mode : modes) sessions.push_back(std::make_unique<Session>(workload, mode, data));
  const std::int64_t length = (workload.steps() - 1) / kTurns + 1;
  std::int64_t done = 0;
  const auto after_step = [&] { progress(++done); };
  for (std::int64_t begin = 0, turn = 0; begin < workload.steps(); begin += length, ++turn) {
    for (std::size_t i = 0; i < sessions.size(); ++i)
      sessions[turn % 2 == 0 ? i : sessions.size() - 1 - i]->turn(length, after_step);
  }
  std::vector<Measurement> results;
  for (const auto& session : sessions) results.push_back(session->result());
  return results;
}

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
  // Each value is above the true median as likely as below. `tail` is the chance that `rank` or fewer are
  // below it.
  double probability = 1;
  for (std::size_t i = 0; i < n; ++i) probability *= 0.5;
  double tail = probability;
  std::size_t rank = 0;
  while (rank < n / 2) {
    probability *= static_cast<double>(n - rank) / static_cast<double>(rank + 1);
    if (tail + probability > 0.025) break;
    tail += probability;
    ++rank;
  }
  return {median, values[rank], values[n - 1 - rank], tail <= 0.025};
}

Spread speedup(const Measurement& baseline, const Measurement& mode) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < mode.turn_seconds.size(); ++i)
    ratios.push_back(baseline.turn_seconds[i] / mode.turn_seconds[i]);
  return spread_of(ratios);
}

}  // namespace mlp_timing
