#include "workload.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <stdexcept>

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
      output = net.forward(input);
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
  return {{"default precision", DType::f32, false, false},
          {"autocast f16", DType::f16, true, false},
          {"autocast f16 + scaler", DType::f16, true, true},
          {"autocast bf16", DType::bf16, true, false},
          {"autocast bf16 + scaler", DType::bf16, true, true}};
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

void start_libraries(const Workload& workload, const Data& data) {
  const Tensor weight = zeros({workload.sizes[1], workload.sizes[0]}, {.device = workload.device});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    static_cast<void>(linear(data.inputs.front().to(dtype), weight.to(dtype)));
  }
  synchronize(workload.device);
}

Measurement run(const Workload& workload, const Mode& mode, const Data& data, const Progress& progress) {
  manual_seed(workload.seed + 1);  // the same initial weights in every mode
  nn::Sequential net;
  fill(net, workload.sizes).to(workload.device);
  optim::SGD optimizer(net.parameters(), {.lr = workload.lr});
  amp::GradScaler scaler({.init_scale = workload.init_scale,
                          .growth_interval = workload.growth_interval,
                          .enabled = mode.scaler});
  Trainer trainer{workload, mode, net, optimizer, scaler};
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
    const auto batch = static_cast<std::size_t>(step % workload.num_batches);
    const Clock::time_point step_start = Clock::now();
    loss = trainer.step(data.inputs[batch], data.targets[batch], step == 0);
    result.step_seconds.push_back(seconds_since(step_start));
    if (mode.scaler) scales.push_back(scaler.scale_tensor());
    progress(step + 1);
  }
  synchronize(workload.device);
  result.total_seconds = seconds_since(start);
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
