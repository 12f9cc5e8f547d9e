// Presets, modes and data, and what a machine can hold.
#include "workload.h"

#include <unistd.h>

#include <string>

namespace mlp_timing {

using namespace mezzo;

namespace {

void require(bool good, const std::string& what, const std::string& got, const std::string& fix) {
  if (!good) throw ValueError("mlp_timing", what, got, fix);
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

void check(const Workload& workload, std::size_t modes) {
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
  const double needed = workload.data_bytes() + static_cast<double>(modes) * workload.working_bytes();
  const auto gib = [](double bytes) { return std::to_string(bytes / (1U << 30)) + " GiB"; };
  require(needed < physical, "a workload within this machine's " + gib(physical), gib(needed),
          "use smaller layers, batches, fewer batches or --modes");
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
  Mode fp8 = bf16;
  fp8.key = "fp8";
  fp8.name = "autocast fp8";
  fp8.fp8 = true;
  return {f32, tf32, f16, scaled(f16), captured, bf16, scaled(bf16), fp8};
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

}  // namespace mlp_timing
