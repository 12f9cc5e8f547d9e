// Surgery on norm layers: trains a small convolutional network with GroupNorm and a small transformer with
// LayerNorm, with norms in f32, in low precision and fused, and prints what each costs. This file is the
// command line and what is printed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../command_line.h"
#include "experiment.h"
#include "mezzo/io/json.h"
#include "models.h"

namespace {

using namespace norm_surgery;
using namespace mezzo;

/// What the command line said.
struct Options {
  std::string model = "both", device = "auto", precision = "amp_bf16", data, json;
  std::int64_t steps = 60, batch_size = 64, side = 28;
  double lr = 2e-3;
  std::uint64_t seed = 0;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--model", o.model, "conv, transformer or both")->capture_default_str();
  app.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--precision", o.precision, "amp_bf16 or amp_fp16")->capture_default_str();
  app.add_option("--steps", o.steps, "training steps of each run")->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "images per step")->capture_default_str();
  app.add_option("--side", o.side, "pixels per side of generated images")->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate of AdamW")->capture_default_str();
  app.add_option("--seed", o.seed, "seed of images and weights")->capture_default_str();
  app.add_option("--data", o.data, "folder with *images-idx3-ubyte and *labels-idx1-ubyte to learn from");
  app.add_option("--json", o.json, "also write the results to this file");
}

void require(bool good, const char* what, const std::string& got, const char* fix) {
  if (!good) throw ValueError("norm_surgery", what, got, fix);
}

Settings settings_of(const Options& o) {
  require(o.steps >= 2, "--steps of at least 2", std::to_string(o.steps), "pass 60");
  require(o.batch_size >= 1, "--batch-size of at least 1", std::to_string(o.batch_size), "pass 64");
  require(o.side >= 8, "--side of at least 8", std::to_string(o.side), "pass 28");
  Settings settings;
  settings.device = o.device == "auto" ? Device::best() : Device::parse(o.device);
  static_cast<void>(memory_stats(settings.device));  // a device that is not there says so now
  settings.precision = amp::precision_from_string(o.precision);
  require(amp::NormPrecision(settings.precision).acts(), "--precision amp_bf16 or amp_fp16", o.precision,
          "in the others no norm runs in low precision");
  settings.steps = o.steps;
  settings.lr = o.lr;
  settings.seed = o.seed;
  return settings;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void print_row(const Result& result, const Result& f32_run) {
  const double step = median(result.step_seconds);
  fmt::print("  {:30} {:>9.2f} ms {:>8.2f} {:>11.2f} MiB {:>9.4f} {:>10.4f} {:>+11.4f} {:>8}\n",
             name_of(result.norms), 1e3 * step, median(f32_run.step_seconds) / step,
             static_cast<double>(result.activation_bytes) / (1 << 20), result.first_loss, result.last_loss,
             result.last_loss - f32_run.last_loss, result.steps_skipped);
  std::fflush(stdout);
}

/// What surgery does to the model, and in which dtype each layer then runs.
void print_surgery(const std::string& name, const Settings& settings, const std::vector<Batch>& batches) {
  const std::shared_ptr<nn::Layer> model = make_model(name, batches.front().images.size(-1));
  model->to(settings.device);
  const nn::surgery::Report report = operate(*model, Norms::low_precision, settings);
  fmt::print("{}\n", nn::surgery::to_string(report));
  const Tensor image = narrow(batches.front().images, 0, 0, 1);
  fmt::print("{}\n",
             nn::to_string(amp::summary(*model, image, {.dtype = settings.dtype(), .table = {.depth = 6}})));
}

Value to_value(const std::string& model, const Result& result) {
  return Value::Map{{"model", model},
                    {"norms", name_of(result.norms)},
                    {"median_step_seconds", median(result.step_seconds)},
                    {"activation_bytes", result.activation_bytes},
                    {"first_loss", result.first_loss},
                    {"last_loss", result.last_loss},
                    {"steps_skipped", result.steps_skipped}};
}

/// Adds its results to `all`.
void run_model(const std::string& name, const Settings& settings, const std::vector<Batch>& batches,
               Value& all) {
  fmt::print("== {}\n\n", name);
  print_surgery(name, settings, batches);
  fmt::print("  {:30} {:>12} {:>8} {:>15} {:>9} {:>10} {:>11} {:>8}\n", "", "step", "speed-up", "activations",
             "loss at 0", "at the end", "beyond f32", "skipped");
  std::vector<Norms> runs = {Norms::no_autocast, Norms::f32, Norms::low_precision};
  if (name == "transformer") runs.push_back(Norms::fused);
  std::vector<Result> results;
  for (const Norms norms : runs) {
    results.push_back(train(name, norms, settings, batches));
    print_row(results.back(), results.front());
    all.push_back(to_value(name, results.back()));
  }
  fmt::print("\n");
}

void run_all(const Options& o) {
  const Settings settings = settings_of(o);
  require(o.model == "both" || o.model == "conv" || o.model == "transformer",
          "--model conv, transformer or both", "\"" + o.model + "\"", "choose one");
  manual_seed(settings.seed);
  constexpr std::int64_t kMostBatches = 100;
  const std::int64_t count = std::min(settings.steps, kMostBatches);
  const std::vector<Batch> batches = o.data.empty()
                                         ? generated(count, o.batch_size, o.side, settings.device)
                                         : from_folder(o.data, count, o.batch_size, settings.device);
  fmt::print("Norm layers in f32, in low precision and fused: {} steps on {} of {} images, {}, {}\n\n",
             settings.steps, o.data.empty() ? "generated batches" : "batches of " + o.data, o.batch_size,
             amp::to_string(settings.precision), to_string(settings.device));
  Value results;
  for (const char* name : {"conv", "transformer"}) {
    if (o.model == "both" || o.model == name) run_model(name, settings, batches, results);
  }
  fmt::print(
      "step: median time; activations: what lives between forward and backward; loss: mean over a tenth of "
      "the "
      "steps.\n");
  if (!o.json.empty()) io::write_json_file(o.json, results);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, "norm_surgery",
                     "Trains two small networks with their norm layers in f32, in low precision and fused.",
                     add_options, run_all);
}
