// What the programs that train a model by train::Trainer have in common: their options, what becomes of them
// in the trainer, and the last line, which says whether the goal was reached.
#pragma once

#include <fmt/format.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "mezzo/data.h"
#include "mezzo/dist.h"
#include "mezzo/io/json.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace examples {

/// end_program, and of several processes all end.
inline int end_processes(int status, const char* error) {
  if (mezzo::dist::world_size() > 1) mezzo::dist::abort(error);
  return end_program(status, error);
}

/// The options that all of them have. A program's own derive from it and set other defaults.
struct ModelOptions {
  std::string data = {}, precision = {}, resume = {}, report = {}, profile = {}, record = {}, device = {};
  std::string duration = "1ep", eval_interval = "1ep", save_interval = "1ep";
  std::int64_t batch = 64, stop = 0;
  double lr = 1e-3;
  std::uint64_t seed = 0;
  int workers = 0;
  std::optional<double> goal = {};
  bool check = false;
};

inline void add_model_options(CLI::App& app, ModelOptions& o, const std::string& data) {
  app.add_option("--data", o.data, data);
  app.add_option("--precision", o.precision,
                 "fp32, amp_fp16, amp_bf16 or amp_fp8; default: fp32, amp_fp16 on CUDA");
  app.add_option("--resume", o.resume, "folder of checkpoints; goes on from the newest one there, if any");
  app.add_option("--report", o.report, "page with the run's charts, rewritten while it goes (HTML)");
  app.add_option("--profile", o.profile, "folder for profile.txt and trace.json of steps 10 to 20");
  app.add_option("--goal", o.goal, "what is to be reached; the last line says whether it was");
  app.add_flag("--check", o.check, "end with status 1 if the goal was not reached");
  app.add_option("--duration", o.duration, "epochs or batches, as 5ep or 2000ba")->capture_default_str();
  app.add_option("--eval-interval", o.eval_interval, "from one evaluation to the next")
      ->capture_default_str();
  app.add_option("--save-interval", o.save_interval, "from one checkpoint to the next")
      ->capture_default_str();
  app.add_option("--batch", o.batch, "samples in a batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "largest learning rate")->capture_default_str();
  app.add_option("--seed", o.seed, "of weights and batches")->capture_default_str();
  app.add_option("--workers", o.workers, "threads that make batches")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--stop", o.stop, "kill the process behind this batch, to try --resume");
  app.add_option("--device", o.device, "cpu or cuda:N; the best there is, unless it is said");
  app.add_option(
      "--record", o.record,
      "file for first weights, batches, rates and losses, from which bench/curves.py repeats the run");
}

/// Of several processes of one machine each has a device of its own. Finds the others.
inline mezzo::Device device_of(const ModelOptions& o) {
  mezzo::dist::ensure_initialized();
  if (!o.device.empty()) return mezzo::Device::parse(o.device);
  const mezzo::Device best = mezzo::Device::best();
  return best.is_cuda() ? mezzo::Device::cuda(mezzo::dist::local_rank()) : best;
}
inline mezzo::train::TrainerPrecision precision_of(const ModelOptions& o) {
  return o.precision.empty() ? mezzo::train::TrainerPrecision() : o.precision;
}
inline mezzo::train::TrainerSave save_of(const ModelOptions& o) {
  return {.folder = o.resume, .interval = o.save_interval};
}
inline mezzo::train::TrainerProfile profile_of(const ModelOptions& o) {
  return {.steps = o.profile.empty() ? 0 : 10, .folder = o.profile};
}
inline std::vector<mezzo::train::AnySink> sinks_of(const ModelOptions& o, const std::string& title) {
  std::vector<mezzo::train::AnySink> sinks;
  if (!o.report.empty()) sinks.emplace_back(mezzo::train::HTMLReport(o.report, {.title = title}));
  return sinks;
}

/// Batches in the whole training, for schedules. Throws: ValueError for a duration in other units than epochs
/// and batches.
inline std::int64_t batches_of(const ModelOptions& o, std::int64_t per_epoch) {
  const mezzo::train::Time time = o.duration;
  if (time.unit() == mezzo::train::TimeUnit::batch) return static_cast<std::int64_t>(time.value());
  if (time.unit() != mezzo::train::TimeUnit::epoch)
    throw mezzo::ValueError("--duration", "epochs or batches, as 5ep or 2000ba", o.duration,
                            "use one of these");
  return static_cast<std::int64_t>(time.value()) * per_epoch;
}
/// Up to the largest rate within a twentieth of the training, then down to 0 as a cosine.
inline mezzo::optim::Schedule warmup_cosine(const ModelOptions& o, std::int64_t per_epoch) {
  const std::int64_t total = batches_of(o, per_epoch);
  return mezzo::optim::WarmupCosineOptions{.warmup_steps = total / 20, .total_steps = total};
}

/// Keeps the first weights, and of each step batch, rate and loss: a file from which the same training can be
/// repeated elsewhere.
class Recorder final : public mezzo::train::Callback {
 public:
  Recorder(std::string path, mezzo::io::Metadata metadata) : path_(std::move(path)) {
    file_.metadata = std::move(metadata);
  }
  [[nodiscard]] bool match(mezzo::train::Event event) const override {
    using enum mezzo::train::Event;
    return event == fit_start || event == before_train_batch || event == batch_end || event == fit_end;
  }
  void run(mezzo::train::Event event, mezzo::train::State& state) override {
    using enum mezzo::train::Event;
    if (event == fit_start) {
      for (const auto& [name, tensor] : state.model.state_dict())
        file_.tensors.emplace_back("model." + name, tensor.clone());
      file_.metadata["precision"] = mezzo::amp::to_string(state.precision);
      file_.metadata["optimizer"] = mezzo::io::dump_json(state.optimizer->state_dict().options);
    } else if (event == before_train_batch) {
      const auto& [data, target] = state.batch.get<mezzo::data::Example>();
      file_.tensors.emplace_back(fmt::format("data.{}", losses_.size()), data.clone());
      file_.tensors.emplace_back(fmt::format("target.{}", losses_.size()), target.clone());
      rates_.push_back(state.optimizer->lr());
    } else if (event == batch_end) {
      losses_.push_back(state.loss.item());
    } else {
      file_.tensors.emplace_back("lr", mezzo::tensor(rates_).to(mezzo::DType::f64));
      file_.tensors.emplace_back("loss", mezzo::tensor(losses_).to(mezzo::DType::f64));
      file_.save(path_);
    }
  }

 private:
  std::string path_;
  mezzo::io::TensorFile file_;
  std::vector<double> rates_, losses_;
};

/// Prints the results of each evaluation; with --record also a Recorder, for which `model` says what network
/// and loss are.
inline std::vector<mezzo::train::AnyCallback> callbacks_of(const ModelOptions& o,
                                                           const mezzo::io::Metadata& model = {}) {
  using mezzo::train::Event;
  std::vector<mezzo::train::AnyCallback> callbacks;
  if (!o.record.empty() && mezzo::dist::world_size() > 1)
    throw mezzo::ValueError("--record", "one process", std::to_string(mezzo::dist::world_size()),
                            "leave it out: each process has a share of a batch");
  callbacks.push_back(mezzo::train::on(Event::eval_end, [](mezzo::train::State& state) {
    if (mezzo::dist::rank() != 0) return;
    std::string line = fmt::format("batch {}:", state.time.batch);
    for (const auto& [name, value] : state.eval_results) line += fmt::format(" {} {:.4g}", name, value);
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }));
  if (o.stop > 0) {
    callbacks.push_back(mezzo::train::on(Event::batch_end, [stop = o.stop](mezzo::train::State& state) {
      if (state.time.batch == stop) static_cast<void>(std::raise(SIGKILL));
    }));
  }
  if (!o.record.empty()) callbacks.emplace_back(Recorder(o.record, model));
  return callbacks;
}

/// What a program is to reach: at least a share, where the unit begins with %, else at most a number.
struct Goal {
  std::optional<double> wanted = {};
  std::string unit = "%";
};

/// Prints the last line, as "goal 97 %: reached 98.1 % in 41 s", about one of the results of the last
/// evaluation; of several processes the first one does. Throws: std::runtime_error with --check where the
/// goal was not reached.
inline void finish(const ModelOptions& o, Goal goal, const std::string& name,
                   const mezzo::train::State& state) {
  if (mezzo::dist::rank() != 0) return;
  double result = state.eval_results.at(name);
  if (o.goal) goal.wanted = o.goal;
  const bool is_share = goal.unit.starts_with("%");
  if (is_share) result *= 100;
  const std::string got = is_share ? fmt::format("{:.1f} %", result) : fmt::format("{:.3f}", result);
  const double seconds = state.time.seconds, cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  fmt::print("{} batches, {} samples, {:.0f} s of processor time in this process\n", state.time.batch,
             state.time.sample, cpu);
  if (!goal.wanted) {
    fmt::print("no goal: {}{} in {:.0f} s\n", got, is_share ? goal.unit.substr(1) : " " + goal.unit, seconds);
    return;
  }
  const bool reached = is_share ? result >= *goal.wanted : result <= *goal.wanted;
  fmt::print("goal {:g} {}: {}{} in {:.0f} s\n", *goal.wanted, goal.unit,
             reached ? "reached " : "not reached, ", got, seconds);
  std::fflush(stdout);
  if (o.check && !reached)
    throw std::runtime_error(fmt::format("goal not reached: {} instead of {:g}", got, *goal.wanted));
}

}  // namespace examples
