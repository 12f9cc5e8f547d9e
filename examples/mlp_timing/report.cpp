// Text and JSON from finished measurements: medians, speed-ups over the first mode with their spread, and a
// verdict that calls nothing faster below 1.05x, nor where the spread does not allow one. Also the progress
// bar. Nothing is measured here.
#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/memory/process_memory.h"
#include "mezzo/core/threads.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/gemm/gemm.h"

namespace mlp_timing {

using namespace mezzo;

namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kClaim = 1.05;  // below it nothing is called faster
constexpr double kBusy = 0.05;   // a share of other processes that is worth a line

struct Steps {
  double median = 0, low = 0, high = 0;
};
Steps steps_of(const Measurement& run) {
  std::vector<double> sorted = run.step_seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const double median = n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
  return {median, sorted.front(), sorted.back()};
}

/// The CUDA devices, or one line that says why there are none.
std::string cuda_text() {
  return cuda::is_available() ? backend(Device::cuda()).description() : cuda::why_unavailable();
}

/// The name of a GPU; of the CPU its instruction set.
std::string device_name(Device device) {
  if (device.is_cpu()) return kernels::cpu::isa_name();
  std::string all = backend(device).description();  // "name, capability, memory; name, ..."
  for (int i = 0; i < device.index; ++i) all.erase(0, all.find("; ") + 2);
  return all.substr(0, all.find(", "));
}

/// What matrix products are computed in: on the CPU 16 bits are storage only, and float8 is emulated.
std::string compute_of(const Workload& workload, const Mode& mode) {
  if (mode.tf32) return "tf32";
  if (!workload.device.is_cpu()) return mode.fp8 ? "f8" : to_string(mode.dtype);
  const bool native =
      mode.dtype == DType::bf16 && kernels::cpu::bf16_gemm() == kernels::cpu::Bf16Gemm::native;
  return to_string(native ? DType::bf16 : DType::f32);
}

/// The run of a mode, or nullptr.
const Measurement* find_run(const std::vector<Measurement>& runs, std::string_view key) {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const Measurement& run) { return run.mode.key == key; });
  return found == runs.end() ? nullptr : &*found;
}

std::string sizes_text(const Workload& workload) {
  std::string text;
  for (const std::int64_t size : workload.sizes) text += (text.empty() ? "" : "-") + std::to_string(size);
  return text;
}

/// A ratio with the values it lies between.
std::string text_of(const Spread& ratio) {
  return fmt::format("{:.2f}x ({:.2f} to {:.2f})", ratio.median, ratio.low, ratio.high);
}

/// How the fastest mode under autocast compares with f32 in TF32, to follow the comparison with f32.
std::string tf32_verdict(const Workload& workload, const std::vector<Measurement>& runs,
                         const Measurement& fastest) {
  if (workload.device.is_cpu()) return "";
  const Measurement* const tf32 = find_run(runs, "tf32");
  if (tf32 == nullptr) return " (without TF32; --modes tf32 measures f32 with it)";
  return ", and " + text_of(speedup(*tf32, fastest)) + " as fast as f32 with TF32";
}

/// What capturing did to the same steps.
std::string capture_verdict(const std::vector<Measurement>& runs) {
  const Measurement* const eager = find_run(runs, "f16-scaler");
  const Measurement* const captured = find_run(runs, "f16-scaler-captured");
  if (eager == nullptr || captured == nullptr) return "";
  return "Captured, steps of autocast f16 + scaler were " + text_of(speedup(*eager, *captured)) +
         " as fast as launched one by one.\n";
}

double samples_per_second(const Workload& workload, const Measurement& run) {
  return static_cast<double>(workload.batch_size * workload.steps()) / run.total_seconds;
}

}  // namespace

std::string banner(const Workload& workload) {
  const std::string cpu = fmt::format("cpu: {} thread{}, {} kernels, GEMM by {}", get_num_threads(),
                                      get_num_threads() == 1 ? "" : "s", kernels::cpu::isa_name(),
                                      kernels::cpu::gemm_description());
  std::string text = "mezzo timing sample on " + to_string(workload.device);
  text += workload.device.is_cpu() ? "\n" : " (" + device_name(workload.device) + ")\n";
  text +=
      fmt::format("  {}; bf16 products {}\n  {}\n", cpu, kernels::cpu::bf16_gemm_description(), cuda_text());
  text += fmt::format(
      "  size {}: MLP {} with ReLU between, {:.2f} M parameters; batch {} x {} batches, {} epoch{} = {} "
      "steps; MSE, SGD lr {}; seed {}\n",
      workload.name, sizes_text(workload), static_cast<double>(workload.parameters()) / 1e6,
      workload.batch_size, workload.num_batches, workload.epochs, workload.epochs == 1 ? "" : "s",
      workload.steps(), workload.lr, workload.seed);
  if (workload.name == "auto" && workload.device.is_cpu()) {
    text += "  this is the size for CPUs; --size seed runs the original (4096 wide, batch 512)\n";
  }
  return text;
}

std::string table(const Workload& workload, const std::vector<Measurement>& runs) {
  constexpr const char* kRow =
      "{:<24} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9} {:>9} {:>11} {:>8} {:>12}";
  const bool gpu = workload.device.is_cuda();
  const auto row = [&](const std::string& cells, const char* tf32) {
    return gpu ? fmt::format("{} {:>5}\n", cells, tf32) : cells + "\n";
  };
  std::string text = row(fmt::format(kRow, "", "", "", "total", "step ms", "step ms", "step ms", "", "peak",
                                     "w/o data", "final", "speed-", ""),
                         "");
  text += row(fmt::format(kRow, "mode", "compute", "storage", "s", "median", "min", "max", "samples/s", "MiB",
                          "MiB", "loss", "up", "between"),
              "TF32");
  for (const Measurement& run : runs) {
    const Steps steps = steps_of(run);
    const Spread faster = speedup(runs.front(), run);
    text +=
        row(fmt::format(kRow, run.mode.name, compute_of(workload, run.mode), to_string(run.mode.dtype),
                        fmt::format("{:.3f}", run.total_seconds), fmt::format("{:.3f}", 1e3 * steps.median),
                        fmt::format("{:.3f}", 1e3 * steps.low), fmt::format("{:.3f}", 1e3 * steps.high),
                        fmt::format("{:.0f}", samples_per_second(workload, run)),
                        fmt::format("{:.1f}", static_cast<double>(run.peak_bytes) / kMiB),
                        fmt::format("{:.1f}", static_cast<double>(run.peak_without_data) / kMiB),
                        fmt::format("{:.6f}", run.final_loss), fmt::format("{:.2f}x", faster.median),
                        &run == &runs.front() ? "" : fmt::format("{:.2f}-{:.2f}", faster.low, faster.high)),
            run.mode.tf32 ? "on" : "off");
  }
  const bool certain = speedup(runs.front(), runs.back()).certain;
  text += fmt::format("The modes took turns, {} each; a speed-up is the median of the turns' ratios, {}.\n",
                      runs.front().turn_seconds.size(),
                      certain ? "and lies between the two\nlast numbers with 95 % certainty"
                              : "the two last numbers are\nthe extremes");
  if (!gpu && std::any_of(runs.begin(), runs.end(), [](const Measurement& run) { return run.mode.fp8; }))
    text += "On a CPU float8 is emulated: codes are multiplied as bf16, so it saves memory and no time.\n";
  MemoryStats stats = memory_stats(workload.device);
  for (const Measurement& run : runs) stats.peak = std::max(stats.peak, run.peak_of_all);
  text += "Memory of all modes together, " + memory_line(workload.device, stats) + ".\n";
  if (gpu) {
    text +=
        "Steps are timed on the GPU, from before to behind each; the host waits at the end of a turn.\n"
        "One step per mode ran before, untimed, to start libraries and choose algorithms. Of the timed\n"
        "steps each mode's first takes its memory from the device; the captured mode's first three are\n"
        "eager, and its fourth is recorded.\n";
  }
  return text;
}

std::string other_processes(std::optional<double> share) {
  if (!share || *share < kBusy) return "";
  return fmt::format(
      "Other processes took {:.0f} % of the processors' time meanwhile: on an idle machine the times are "
      "shorter.\n",
      100 * *share);
}

std::string scale_report(const std::vector<Measurement>& runs) {
  std::string text;
  for (const Measurement& run : runs) {
    if (!run.mode.scaler) continue;
    text += fmt::format("scale, {}:", run.mode.name);
    for (const ScalePoint& point : run.scales) {
      text += point.step == 0 ? fmt::format(" {}", point.scale)
                              : fmt::format(" -> {} (step {})", point.scale, point.step);
    }
    text += fmt::format("; {} of {} steps skipped\n", run.steps_skipped, run.step_seconds.size());
  }
  return text;
}

std::string verdict(const Workload& workload, const std::vector<Measurement>& runs) {
  const std::int64_t baseline_peak = runs.front().peak_without_data;
  const Measurement* fastest = nullptr;
  std::int64_t least_peak = std::numeric_limits<std::int64_t>::max();
  for (const Measurement& run : runs) {
    if (!run.mode.autocast || run.mode.captured) continue;  // captured, other costs are saved too
    if (fastest == nullptr || speedup(*fastest, run).median > 1) fastest = &run;
    least_peak = std::min(least_peak, run.peak_without_data);
  }
  const std::string capture = capture_verdict(runs);
  if (fastest == nullptr) return capture;
  const std::string memory =
      least_peak < baseline_peak
          ? "It took less memory: activations are half as large.\n"
          : "It took more memory: the 16-bit copies of the weights outweigh what smaller activations save.\n";
  const Spread best = speedup(runs.front(), *fastest);
  const std::string tf32 = tf32_verdict(workload, runs, *fastest);
  if (!best.certain || (best.low < kClaim && best.high >= kClaim)) {
    return fmt::format(
        "whether mixed precision was faster than f32 here cannot be told: {} in {} turns{}; from {}x on it "
        "counts.\n"
        "More --epochs, or a machine without other work, would tell. {}{}",
        text_of(best), runs.front().turn_seconds.size(), tf32, kClaim, memory, capture);
  }
  if (best.low >= kClaim)
    return fmt::format("mixed precision was up to {} as fast as f32 here{}. {}{}", text_of(best), tf32,
                       memory, capture);
  if (workload.device.is_cpu()) {
    return fmt::format(
        "mixed precision was not faster here ({} at best): f16 is storage on a CPU, with f32 "
        "arithmetic,\nand bf16 products were {};\nspeed comes with units for 16-bit products. {}",
        text_of(best), kernels::cpu::bf16_gemm_description(), memory);
  }
  return fmt::format(
      "mixed precision was not faster than f32 here ({} at best){}:\n"
      "the network is too small to fill the device, or its sizes are not multiples of 8. {}{}",
      text_of(best), tf32, memory, capture);
}

Value to_value(const Workload& workload, const std::vector<Measurement>& runs, std::optional<double> others) {
  Value report;
  report.set("device", to_string(workload.device));
  report.set("device_name", device_name(workload.device));
  report.set("threads", get_num_threads());
  report.set("instruction_set", kernels::cpu::isa_name());
  report.set("gemm", kernels::cpu::gemm_description());
  report.set("bf16_gemm", kernels::cpu::bf16_gemm_description());
  report.set("cuda", cuda_text());
  report.set("workload", Value::Map{{"size", workload.name},
                                    {"layer_sizes", workload.sizes},
                                    {"parameters", workload.parameters()},
                                    {"batch_size", workload.batch_size},
                                    {"num_batches", workload.num_batches},
                                    {"epochs", workload.epochs},
                                    {"lr", workload.lr},
                                    {"seed", workload.seed},
                                    {"data_bytes", static_cast<std::int64_t>(workload.data_bytes())}});
  report.set("turns", static_cast<std::int64_t>(runs.front().turn_seconds.size()));
  if (others) report.set("other_processes", *others);
  Value list;
  for (const Measurement& run : runs) {
    const Steps steps = steps_of(run);
    const Spread faster = speedup(runs.front(), run);
    Value scales;
    for (const ScalePoint& point : run.scales)
      scales.push_back(Value::Map{{"step", point.step}, {"scale", point.scale}});
    list.push_back(Value::Map{
        {"mode", run.mode.name},
        {"key", run.mode.key},
        {"compute", compute_of(workload, run.mode)},
        {"storage", to_string(run.mode.dtype)},
        {"scaler", run.mode.scaler},
        {"tf32", run.mode.tf32},
        {"captured", run.mode.captured},
        {"total_seconds", run.total_seconds},
        {"step_seconds", Value::Map{{"median", steps.median}, {"min", steps.low}, {"max", steps.high}}},
        {"samples_per_second", samples_per_second(workload, run)},
        {"peak_bytes", run.peak_bytes},
        {"peak_bytes_without_data", run.peak_without_data},
        {"final_loss", run.final_loss},
        {"speedup", Value::Map{{"median", faster.median}, {"low", faster.low}, {"high", faster.high}}},
        {"steps_skipped", run.steps_skipped},
        {"host_reads", run.host_reads},
        {"scale", std::move(scales)}});
  }
  report.set("runs", std::move(list));
  return report;
}

ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), active_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::show(std::int64_t done) {
  if (!active_) return;
  const int percent = static_cast<int>(100 * done / total_);
  if (percent == last_percent_) return;
  last_percent_ = percent;
  const auto filled = static_cast<std::size_t>(percent * 30 / 100);
  fmt::print(stderr, "\r{:<24} [{:<30}] {:>3} %", label_, std::string(filled, '='), percent);
  std::fflush(stderr);
}

ProgressBar::~ProgressBar() {
  if (active_ && last_percent_ >= 0) std::fputs("\r\033[K", stderr);
}

}  // namespace mlp_timing
