// The lab of the GradScaler: trains a small network in f16, makes chosen layers overflow or underflow at
// chosen steps, and shows what the scaler does about it. This file is the command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.h"
#include "lab.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"
#include "network.h"
#include "plot.h"
#include "report.h"

namespace {

using namespace scaler_lab;
using namespace mezzo;

/// What the command line said.
struct Options {
  std::vector<std::string> overflows, underflows;
  bool no_faults = false;
  std::string device = "auto", csv, svg, json;
  std::int64_t steps = 120, batch_size = 64, growth_interval = 20, every = 0;
  double lr = 2e-3, init_scale = 65536;
  std::uint64_t seed = 0;
};

void add_options(CLI::App& app, Options& o) {
  const std::string layers = fmt::format("{}", fmt::join(layer_names(), ", "));
  app.add_option("--overflow", o.overflows,
                 "STEP[-STEP]:LAYER[:forward or :backward], again for more: the result of the layer, or its "
                 "gradient, leaves f16. Steps count from 1; layers: " +
                     layers)
      ->type_name("FAULT");
  app.add_option("--underflow", o.underflows,
                 "STEP[-STEP]:LAYER, again for more: gradients vanish in f16 unless the scale is large")
      ->type_name("FAULT");
  app.add_flag("--no-faults", o.no_faults,
               "inject nothing; with none of these three flags, one fault of each kind is injected");
  app.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--steps", o.steps, "training steps")->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "samples per step")->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate of AdamW")->capture_default_str();
  app.add_option("--seed", o.seed, "seed of data and weights")->capture_default_str();
  app.add_option("--init-scale", o.init_scale, "initial scale of the GradScaler")->capture_default_str();
  app.add_option("--growth-interval", o.growth_interval, "good steps before the scale grows")
      ->capture_default_str();
  app.add_option("--every", o.every, "print every so many steps, beside those in which something happens");
  app.add_option("--csv", o.csv, "also write all steps to this file");
  app.add_option("--svg", o.svg, "also draw loss and scale into this file");
  app.add_option("--json", o.json, "also write all steps to this file, as JSON");
}

void require(bool good, const char* what, const std::string& got, const char* fix) {
  if (!good) throw ValueError("scaler_lab", what, got, fix);
}

/// One fault of each kind, spread over the run.
std::vector<Fault> tour(std::int64_t steps) {
  const auto at = [&](double share) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(steps)));
  };
  return {{FaultKind::overflow_forward, at(0.25), at(0.25), "hidden1"},
          {FaultKind::overflow_backward, at(0.5), at(0.5), "hidden2"},
          {FaultKind::underflow, at(0.75), at(0.85), "hidden1"}};
}

std::vector<Fault> faults_of(const Options& o) {
  if (o.overflows.empty() && o.underflows.empty()) return o.no_faults ? std::vector<Fault>{} : tour(o.steps);
  require(!o.no_faults, "--no-faults or faults", "both", "leave one out");
  std::vector<Fault> faults;
  for (const std::string& text : o.overflows)
    faults.push_back(parse_fault(text, false, o.steps, layer_names()));
  for (const std::string& text : o.underflows)
    faults.push_back(parse_fault(text, true, o.steps, layer_names()));
  return faults;
}

Settings settings_of(const Options& o) {
  require(o.steps >= 1 && o.steps <= 1'000'000, "--steps from 1 to 1000000", std::to_string(o.steps),
          "pass 120");
  require(o.batch_size >= 1, "--batch-size of at least 1", std::to_string(o.batch_size), "pass 64");
  require(o.every >= 0, "--every of at least 1", std::to_string(o.every), "pass 10");
  Settings settings;
  settings.faults = faults_of(o);
  settings.device = o.device == "auto" ? Device::best() : Device::parse(o.device);
  static_cast<void>(memory_stats(settings.device));  // a device that is not there says so now
  settings.steps = o.steps;
  settings.batch_size = o.batch_size;
  settings.lr = o.lr;
  settings.seed = o.seed;
  settings.scaler.init_scale = o.init_scale;
  settings.scaler.growth_interval = o.growth_interval;
  return settings;
}

/// A file that was asked for, or none. Opened before the run: what cannot be written is refused at once.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) {
    if (!path.empty()) file_.emplace(path);
  }
  void write(const std::string& text) {
    if (!file_) return;
    file_->write(text);
    file_->commit();
  }

 private:
  std::optional<io::AtomicFile> file_;
};

void run_all(const Options& o) {
  const Settings settings = settings_of(o);
  OutputFile csv_file(o.csv), svg_file(o.svg), json_file(o.json);
  const std::vector<Row> rows = run(settings);
  fmt::print("The lab of the GradScaler: {} steps under f16 autocast, layers {}, {}\n\n", settings.steps,
             fmt::join(layer_names(), ", "), to_string(settings.device));
  const std::int64_t every = o.every > 0 ? o.every : std::max<std::int64_t>(1, o.steps / 12);
  fmt::print("{}\n{}", table(rows, every), summary(rows));
  csv_file.write(csv(rows));
  svg_file.write(plot(rows));
  json_file.write(io::dump_json(to_value(rows), 2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      argc, argv, "scaler_lab",
      "Trains a small network in f16 with a GradScaler, makes chosen layers overflow or underflow at chosen "
      "steps, and shows the scale, the skipped steps, and where each went wrong first.",
      add_options, run_all);
}
