// One timed run per mode: presets, data, the training step, and clocks per step (CUDA events on a GPU). A
// run's first step also checks the dtypes of output, loss, parameters and gradients.
#include "workload.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "mezzo/core/cuda.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mlp_timing {

using namespace mezzo;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void require(bool good, const std::string& what, const std::string& got, const std::string& fix) {
  if (!good) throw ValueError("mlp_timing", what, got, fix);
}

nn::Sequential& fill(nn::Sequential& net, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) net.push_back(nn::make<nn::ReLU>());
    net.push_back(nn::make<nn::Linear>(sizes[i], sizes[i + 1]));
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
      if (mode.autocast) autocast.emplace(workload.device, mode.dtype);
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

}  // namespace

std::int64_t Workload::parameters() const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) count += sizes[i] * sizes[i + 1] + sizes[i + 1];
  return count;
}

double Workload::data_bytes() const {
  return 4.0 * static_cast<double>(num_batches) * static_cast<double>(batch_size) *
         (static_cast<double>(sizes.front()) + static_cast<double>(sizes.back()));
}

double Workload::working_bytes() const {
  double weights = 0, activations = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    weights += static_cast<double>(sizes[i]) * static_cast<double>(sizes[i + 1]);
    activations += static_cast<double>(batch_size) * static_cast<double>(sizes[i + 1]);
  }
  return 4.0 *
         (2 * weights + 2 * activations);  // parameters, gradients, activations before and after each ReLU
}

void check(const Workload& workload) {
  for (const std::int64_t size : workload.sizes) {
    require(size >= 1, "layer sizes of at least 1", std::to_string(size),
            "check --in-size, --out-size, --layers");
  }
  require(workload.sizes.size() >= 2, "at least 1 layer", std::to_string(workload.sizes.size()),
          "check --layers");
  require(workload.batch_size >= 1, "a batch of at least 1", std::to_string(workload.batch_size),
          "check --batch-size");
  require(workload.num_batches >= 1, "at least 1 batch", std::to_string(workload.num_batches),
          "check --num-batches");
  require(workload.epochs >= 1, "at least 1 epoch", std::to_string(workload.epochs), "check --epochs");
  require(workload.lr >= 0, "a learning rate of at least 0", std::to_string(workload.lr), "check --lr");
  if (!workload.device.is_cpu()) return;
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double needed = workload.data_bytes() + workload.working_bytes();
  const auto gib = [](double bytes) { return std::to_string(bytes / (1U << 30)) + " GiB"; };
  require(needed < physical, "a workload within this machine's " + gib(physical), gib(needed),
          "use smaller layers, batches or fewer batches");
}

Workload preset(const std::string& name, Device device) {
  Workload workload;
  workload.name = name;
  workload.device = device;
  if (name == "small") {
    workload.sizes = {8, 16, 16, 1};
    workload.batch_size = 512;
    workload.epochs = 1;
  } else if (name == "seed" || (name == "auto" && device.is_cuda())) {
    workload.sizes = {4096, 4096, 4096, 4096};
    workload.batch_size = 512;
  } else if (name == "auto") {
    workload.sizes = {512, 512, 512, 512};
  } else {
    throw ValueError("mlp_timing", "--size auto or seed", "\"" + name + "\"",
                     "choose one, then change single numbers with flags");
  }
  return workload;
}

std::vector<Mode> all_modes() {
  const Mode f32{.key = "f32", .name = "default precision"};
  const Mode tf32{.key = "tf32", .name = "default, TF32 allowed", .tf32 = true};
  const Mode f16{.key = "f16", .name = "autocast f16", .dtype = DType::f16, .autocast = true};
  const Mode bf16{.key = "bf16", .name = "autocast bf16", .dtype = DType::bf16, .autocast = true};
  const auto scaled = [](Mode mode) {
    mode.key += "-scaler";
    mode.name += " + scaler";
    mode.scaler = true;
    return mode;
  };
  Mode captured = scaled(f16);
  captured.key += "-captured";
  captured.name = "captured f16 + scaler";
  captured.captured = true;
  return {f32, tf32, f16, scaled(f16), captured, bf16, scaled(bf16)};
}

Data make_data(const Workload& workload) {
  manual_seed(workload.seed);
  Data data;
  for (std::int64_t i = 0; i < workload.num_batches; ++i) {
    data.inputs.push_back(randn({workload.batch_size, workload.sizes.front()}, {.device = workload.device}));
    data.targets.push_back(randn({workload.batch_size, workload.sizes.back()}, {.device = workload.device}));
  }
  return data;
}

void start_libraries(const Workload& workload, const std::vector<Mode>& modes, const Data& data) {
  if (workload.device.is_cuda()) {
    Workload one = workload;
    one.num_batches = one.epochs = 1;
    for (const Mode& mode : modes) static_cast<void>(run(one, mode, data, [](std::int64_t) {}));
    return;
  }
  const Tensor weight = zeros({workload.sizes[1], workload.sizes[0]}, {.device = workload.device});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    static_cast<void>(linear(data.inputs.front().to(dtype), weight.to(dtype)));
  }
}

Measurement run(const Workload& workload, const Mode& mode, const Data& data, const Progress& progress) {
  const Tf32Scope tf32(mode.tf32);
  manual_seed(workload.seed + 1);  // the same initial weights in every mode
  nn::Sequential net;
  fill(net, workload.sizes).to(workload.device);
  optim::SGD optimizer(net.parameters(), {.lr = workload.lr});
  amp::GradScaler scaler({.init_scale = workload.init_scale,
                          .growth_interval = workload.growth_interval,
                          .enabled = mode.scaler});
  Trainer trainer{workload, mode, net, optimizer, scaler};
  Steps steps(trainer, data);
  StepTimes times(workload.device);
  Measurement result;
  result.mode = mode;
  std::vector<Tensor> scales;
  Tensor loss;

  empty_cache(workload.device);
  reset_peak_memory_stats(workload.device);
  synchronize(workload.device);
  const std::uint64_t reads = host_reads();
  const Clock::time_point start = Clock::now();
  for (std::int64_t step = 0; step < workload.steps(); ++step) {
    times.begin();
    loss = steps(static_cast<std::size_t>(step % workload.num_batches));
    times.end();
    if (mode.scaler) scales.push_back(scaler.scale_tensor());
    progress(step + 1);
  }
  synchronize(workload.device);
  result.total_seconds = seconds_since(start);
  result.step_seconds = times.seconds();
  result.host_reads = static_cast<std::int64_t>(host_reads() - reads);

  result.peak_bytes = memory_stats(workload.device).peak;
  result.peak_without_data = result.peak_bytes - static_cast<std::int64_t>(workload.data_bytes());
  result.final_loss = loss.item();
  if (mode.scaler) {
    result.scales = changes(scales, workload.init_scale);
    result.steps_skipped = scaler.steps_skipped();
  }
  return result;
}

}  // namespace mlp_timing
