// What the programs that train a model of this folder share: options, the precision they name, checkpoints to
// go on from, and logs.
#pragma once

#include <mezzo/mezzo.h>
#include <mezzo/train.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct TrainingOptions {
  std::string precision = "fp32", device = {}, data = {}, resume = {}, report = {};
  std::int64_t steps = 0, save_every = 100, stop = 0;
  std::uint64_t seed = 0;
};

/// Adds an option with a default that --help shows.
template <class T>
void add_option(CLI::App& app, const char* name, T& value, const char* what) {
  app.add_option(name, value, what)->capture_default_str();
}

inline void add_training_options(CLI::App& app, TrainingOptions& o, const char* data) {
  add_option(app, "--precision", o.precision, "fp32, amp_fp16, amp_bf16 or amp_fp8");
  add_option(app, "--device", o.device, "cpu or cuda:N; the best there is, unless it is said");
  add_option(app, "--data", o.data, data);
  app.add_option("--steps", o.steps, "training steps")->check(CLI::Range(0, 1 << 30))->capture_default_str();
  add_option(app, "--resume", o.resume, "folder of checkpoints; goes on from the newest one there, if any");
  app.add_option("--save-every", o.save_every, "steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_option(app, "--stop", o.stop, "end at this step, as if killed; the same command without it goes on");
  add_option(app, "--report", o.report, "write the run as a page to this file");
  add_option(app, "--seed", o.seed, "of all random numbers");
}

inline void require(bool good, const char* program, const std::string& expected, const std::string& got,
                    const std::string& fix) {
  if (!good) throw mezzo::ValueError(program, expected, got, fix);
}

/// Where a program computes, and in which dtype autocast runs; f32: without autocast.
struct Setting {
  mezzo::Device device;
  mezzo::DType dtype;
  bool fp8 = false;
  /// A region is `const auto autocast = setting.autocast();`.
  [[nodiscard]] mezzo::amp::Autocast autocast() const {
    return mezzo::amp::Autocast(device, dtype, {.enabled = dtype != mezzo::DType::f32, .fp8 = fp8});
  }
};

/// Throws: ValueError for another precision.
inline Setting setting_of(const char* program, const TrainingOptions& o) {
  using mezzo::amp::Precision;
  const Precision precision = mezzo::amp::precision_from_string(o.precision);
  require(precision != Precision::fp16, program, "--precision fp32, amp_fp16, amp_bf16 or amp_fp8",
          o.precision, "choose one of them");
  const mezzo::DType dtype = precision == Precision::amp_fp16 ? mezzo::DType::f16
                             : precision == Precision::fp32   ? mezzo::DType::f32
                                                              : mezzo::DType::bf16;
  const mezzo::Device device = o.device.empty() ? mezzo::Device::best() : mezzo::Device::parse(o.device);
  return {device, dtype, precision == Precision::amp_fp8};
}

/// Checkpoints and logs of a run.
class TrainingRun {
 public:
  /// Goes on from the newest checkpoint in the folder of --resume, if there is one; `step` is then that
  /// one's.
  TrainingRun(const TrainingOptions& options, mezzo::train::Parts parts, std::int64_t& step,
              const char* title)
      : options_(options), step_(step), logger_(sinks(options, title)) {
    if (options.resume.empty()) return;
    parts.emplace_back("step", step);
    parts.emplace_back("random", mezzo::default_generator());
    checkpoints_.emplace(options.resume, std::move(parts),
                         mezzo::train::CheckpointManagerOptions{.keep_last = 2});
    if (checkpoints_->load_latest()) logger_.resume(step);
  }
  [[nodiscard]] bool is_done() const { return step_ >= options_.steps || is_stopped(); }
  /// Whether --stop ended it.
  [[nodiscard]] bool is_stopped() const { return options_.stop > 0 && step_ >= options_.stop; }
  /// To be called at the end of each step: counts it, logs, and writes a checkpoint where one is due.
  void end_step(std::initializer_list<mezzo::train::LogEntry> entries) {
    ++step_;
    logger_.log(step_, entries);
    if (checkpoints_ && (step_ % options_.save_every == 0 || step_ == options_.steps))
      checkpoints_->save(step_);
  }

 private:
  static std::vector<mezzo::train::AnySink> sinks(const TrainingOptions& options, const char* title) {
    std::vector<mezzo::train::AnySink> sinks{mezzo::train::ProgressBar({.total = options.steps})};
    if (!options.report.empty())
      sinks.emplace_back(mezzo::train::HTMLReport(options.report, {.title = title}));
    return sinks;
  }

  const TrainingOptions& options_;
  std::int64_t& step_;
  mezzo::train::Logger logger_;
  std::optional<mezzo::train::CheckpointManager> checkpoints_;
};
