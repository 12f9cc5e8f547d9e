// Callbacks that log: speed, memory, learning rates, gradients, metrics of the training.
#include <cmath>
#include <map>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape.h"
#include "mezzo/optim/clip.h"
#include "mezzo/train/callbacks.h"

namespace mezzo::train::callbacks {

namespace {

void check_every(const char* op, std::int64_t every) {
  if (every < 1) throw ValueError(op, "every of at least 1", std::to_string(every), "1 is each batch");
}

}  // namespace

// --- SpeedMonitor

SpeedMonitor::SpeedMonitor(const SpeedMonitorOptions& options)
    : throughput_({.window = options.window, .clock = options.clock}),
      clock_(options.clock ? options.clock : Clock(steady_seconds)) {}

void SpeedMonitor::run(Event event, State& state) {
  if (event == Event::fit_start) {
    throughput_.reset();
    tokens_ = state.time.token;
    waited_ = 0;
    return;
  }
  if (event == Event::before_dataloader) {
    wait_begin_ = clock_();
    return;
  }
  if (event == Event::after_dataloader) {
    waited_ += clock_() - wait_begin_;
    return;
  }
  if (event != Event::batch_end) {
    const bool goes_on = event == Event::eval_end || event == Event::predict_end;
    goes_on ? throughput_.resume() : throughput_.pause();
    return;
  }
  throughput_.update({.samples = state.batch_samples,
                      .tokens = state.time.token - std::exchange(tokens_, state.time.token)});
  const auto log = [&](const char* name, double rate) {
    if (std::isfinite(rate)) state.log(name, rate);
  };
  log("speed/loader_wait", std::exchange(waited_, 0));
  log("speed/samples_per_second", throughput_.samples_per_second());
  log("speed/batches_per_second", throughput_.steps_per_second());
  if (throughput_.total().tokens > 0) log("speed/tokens_per_second", throughput_.tokens_per_second());
}

// --- MemoryMonitor

MemoryMonitor::MemoryMonitor(const MemoryMonitorOptions& options) : options_(options) {
  check_every("MemoryMonitor", options.every);
}

void MemoryMonitor::run(Event event, State& state) {
  if (event == Event::fit_end) return state.logger().text("memory", memory_line(state.device));
  if (state.time.batch % options_.every != 0) return;
  const MemoryStats stats = memory_stats(state.device);
  state.log("memory/allocated", stats.current);
  state.log("memory/peak_allocated", stats.peak);
  state.log("memory/reserved", stats.reserved);
  state.log("memory/cached", stats.cached);
  const ProcessMemory process = process_memory();
  if (process.resident == 0) return;
  state.log("memory/process", process.resident);
  state.log("memory/process_peak", process.peak);
}

// --- LRMonitor

void LRMonitor::run(Event /*event*/, State& state) {
  if (state.optimizer == nullptr) return;
  for (std::size_t group = 0; group < state.optimizer->num_groups(); ++group) {
    const std::string name = "group" + std::to_string(group);
    if (state.schedule == nullptr) {  // then the host knows them
      state.log("lr/" + name, state.optimizer->lr(group));
      if (options_.momentum) state.log("momentum/" + name, state.optimizer->momentum(group).value_or(0));
    } else {
      const Tensor rates =
          state.optimizer->rates(group).clone();  // the schedule writes the next ones over them
      state.log("lr/" + name, select(rates, 0, 0));
      if (options_.momentum) state.log("momentum/" + name, select(rates, 0, 1));
    }
  }
}

// --- GradientMonitor

GradientMonitor::GradientMonitor(const GradientMonitorOptions& options) : options_(options) {
  check_every("GradientMonitor", options.every);
  if (options.histograms < 0)
    throw ValueError("GradientMonitor", "histograms of at least 0", std::to_string(options.histograms),
                     "0 is none");
}

void GradientMonitor::run(Event event, State& state) {
  if (event == Event::batch_start) {
    has_histograms_ = false;
    return;
  }
  const std::int64_t batch = state.time.batch + 1;  // it is counted when the step is made
  const bool is_of_norms = batch % options_.every == 0;
  const bool is_of_histograms =
      options_.histograms > 0 && batch % options_.histograms == 0 && !std::exchange(has_histograms_, true);
  if (!is_of_norms && !is_of_histograms) return;
  const nn::NamedTensors weights = state.model.named_parameters();
  nn::NamedTensors gradients;
  std::map<std::string, std::vector<Tensor>> layers;
  for (const auto& [name, parameter] : weights) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const std::size_t dot = name.rfind('.');
    layers[dot == std::string::npos ? "model" : name.substr(0, dot)].push_back(gradient);
    gradients.emplace_back("gradients/" + name, gradient);
  }
  if (is_of_norms) {
    for (const auto& [path, of_layer] : layers)
      state.log("grad_norm/" + path, optim::get_total_norm(of_layer));
  }
  if (!is_of_histograms) return;
  for (const auto& [name, parameter] : weights) gradients.emplace_back("weights/" + name, parameter);
  state.logger().histograms(batch, gradients);
}

// --- TrainMetrics

TrainMetrics::TrainMetrics(std::vector<EvalMetric> metrics) : metrics_(std::move(metrics)) {
  if (metrics_.empty())
    throw ValueError("TrainMetrics", "at least one metric", "none", "{{\"accuracy\", train::Accuracy()}}");
}

void TrainMetrics::begin_batch() {
  const NoGrad no_grad;
  if (!is_open_) {
    before_.clear();
    for (const EvalMetric& metric : metrics_) {
      auto& sums = before_.emplace_back();
      for (const Tensor& sum : metric.metric().state()) sums.push_back(clone(sum));
    }
  } else {  // the batch is tried again
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      Metric& metric = metrics_[i].metric();
      if (before_[i].empty()) metric.reset();
      for (std::size_t k = 0; k < before_[i].size(); ++k) metric.state()[k].copy_(before_[i][k]);
    }
  }
  is_open_ = true;
}

void TrainMetrics::run(Event event, State& state) {
  switch (event) {
    case Event::after_loss:
      for (const EvalMetric& metric : metrics_) metric.update().call(state.output, state.batch);
      return;
    case Event::before_train_batch:
      begin_batch();
      return;
    case Event::batch_end:
      is_open_ = false;
      for (const EvalMetric& metric : metrics_) {
        const Tensor result = state.over_ranks(metric.metric());
        const std::vector<std::string> names = metric.names(result);
        for (std::size_t i = 0; i < names.size(); ++i)
          state.log("train/" + names[i], flatten(result).select(0, static_cast<std::int64_t>(i)));
      }
      return;
    default:
      is_open_ = false;
      for (const EvalMetric& metric : metrics_) metric.metric().reset();
  }
}

}  // namespace mezzo::train::callbacks
