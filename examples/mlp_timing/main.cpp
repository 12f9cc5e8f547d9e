// The mixed-precision timing sample: trains one MLP in default precision, under autocast, and under autocast
// with GradScaler, and prints what each cost. This file is the command line.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../command_line.h"
#include "measure.h"
#include "mezzo/io/json.h"
#include "processors.h"
#include "report.h"
#include "workload.h"

namespace {

using namespace mlp_timing;

/// What the command line said; absent numbers stay those of the preset.
struct Options {
  std::string size = "auto", model = "mlp", device = "auto", json;
  std::vector<std::string> modes;
  std::optional<std::int64_t> in_size, out_size, layers, batch_size, num_batches, epochs, growth_interval;
  std::optional<double> lr, init_scale;
  std::optional<std::uint64_t> seed;
  bool advise = false;
};

std::string keys(const std::vector<Mode>& modes) {
  std::string text;
  for (const Mode& mode : modes) text += (text.empty() ? "" : ", ") + mode.key;
  return text;
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--size", o.size, "auto (a size for this device) or seed (3 x 4096 wide, batch 512)")
      ->capture_default_str();
  app.add_option("--model", o.model, "mlp, or small: the 8-16-16-1 network")->capture_default_str();
  app.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--in-size", o.in_size, "features of the input and of hidden layers");
  app.add_option("--out-size", o.out_size, "features of the output");
  app.add_option("--layers", o.layers, "number of Linear layers");
  app.add_option("--batch-size", o.batch_size, "samples per batch");
  app.add_option("--num-batches", o.num_batches, "batches that are made and kept on the device");
  app.add_option("--epochs", o.epochs, "passes over these batches");
  app.add_option("--lr", o.lr, "learning rate of SGD");
  app.add_option("--seed", o.seed, "seed of data and weights");
  app.add_option("--init-scale", o.init_scale, "initial scale of the GradScaler");
  app.add_option("--growth-interval", o.growth_interval, "good steps before the scale grows");
  app.add_option("--modes", o.modes, keys(all_modes()) + "; all that the device has unless given")
      ->delimiter(',');
  app.add_option("--json", o.json, "also write the results to this file");
  app.add_flag("--advise", o.advise,
               "say why mixed precision is not faster in place of timing it (amp::advise)");
}

Workload workload_of(const Options& o) {
  const mezzo::Device device = o.device == "auto" ? mezzo::Device::best() : mezzo::Device::parse(o.device);
  static_cast<void>(mezzo::memory_stats(device));  // a device that is not there says so now
  if (o.model != "mlp" && o.model != "small") {
    throw mezzo::ValueError("mlp_timing", "--model mlp or small", "\"" + o.model + "\"", "choose one");
  }
  Workload w = preset(o.size, device);
  if (o.model == "small") w = preset("small", device);
  if (o.layers && *o.layers < 1) {
    throw mezzo::ValueError("mlp_timing", "--layers of at least 1", std::to_string(*o.layers), "pass 3");
  }
  if (o.layers && *o.layers > 1000) {
    throw mezzo::ValueError("mlp_timing", "--layers of at most 1000", std::to_string(*o.layers), "pass 3");
  }
  const std::int64_t in = o.in_size.value_or(w.sizes.front());
  const std::int64_t out = o.out_size.value_or(w.sizes.back());
  if (o.in_size || o.layers) {
    w.sizes.assign(
        static_cast<std::size_t>(o.layers.value_or(static_cast<std::int64_t>(w.sizes.size()) - 1)) + 1, in);
  }
  w.sizes.back() = out;
  w.batch_size = o.batch_size.value_or(w.batch_size);
  w.num_batches = o.num_batches.value_or(w.num_batches);
  w.epochs = o.epochs.value_or(w.epochs);
  w.lr = o.lr.value_or(w.lr);
  w.seed = o.seed.value_or(w.seed);
  w.init_scale = o.init_scale.value_or(w.init_scale);
  w.growth_interval = o.growth_interval.value_or(w.growth_interval);
  if (o.in_size || o.out_size || o.layers || o.batch_size || o.num_batches || o.epochs)
    w.name += ", changed by flags";
  return w;
}

/// The runs asked for; the f32 run comes first always, since speed-ups refer to it.
std::vector<Mode> modes_of(const Options& o, mezzo::Device device) {
  const std::vector<Mode> all = all_modes();
  for (const std::string& key : o.modes) {
    const auto mode = std::find_if(all.begin(), all.end(), [&](const Mode& m) { return m.key == key; });
    if (mode == all.end()) {
      throw mezzo::ValueError("mlp_timing", "--modes out of " + keys(all), "\"" + key + "\"",
                              "separate several by commas");
    }
    if (device.is_cpu() && mode->needs_cuda()) {
      throw mezzo::ValueError("mlp_timing", "--modes that a CPU has", "\"" + key + "\"",
                              mode->tf32 ? "TF32 is a format of NVIDIA GPUs: name a GPU by --device"
                                         : "steps are captured by CUDA graphs: name a GPU by --device");
    }
  }
  std::vector<Mode> chosen;
  for (const Mode& mode : all) {
    const bool asked = o.modes.empty() ? device.is_cuda() || !mode.needs_cuda()
                                       : std::find(o.modes.begin(), o.modes.end(), mode.key) != o.modes.end();
    if (asked || chosen.empty()) chosen.push_back(mode);
  }
  return chosen;
}

/// Refuses a file that could not be written before an hour is spent on its contents.
void check_json_path(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (access(parent.c_str(), W_OK) == 0) return;
  throw mezzo::ValueError("mlp_timing", "--json in a folder that can be written to", "\"" + path + "\"",
                          "make the folder first");
}

/// Becomes the program beside this one, which has all of the library. Its dtype is that of the first mode
/// which names one.
[[noreturn]] void advise(const Workload& workload, const Options& options) {
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mlp_advise").string();
  std::string sizes;
  for (const std::int64_t size : workload.sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  std::vector<std::string> arguments{program,
                                     "--sizes",
                                     sizes,
                                     "--batch-size",
                                     std::to_string(workload.batch_size),
                                     "--device",
                                     mezzo::to_string(workload.device)};
  for (const std::string& key : options.modes) {
    const std::string dtype = key.substr(0, key.find('-'));
    if (dtype != "f16" && dtype != "bf16") continue;
    arguments.insert(arguments.end(), {"--dtype", dtype});
    break;
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  throw mezzo::ValueError("mlp_timing", "the program mlp_advise beside this one for --advise", "none",
                          "build it: cmake --build <folder> --target mlp_advise");
}

void run_all(const Options& options) {
  const Workload workload = workload_of(options);
  if (options.advise) advise(workload, options);
  const std::vector<Mode> modes = modes_of(options, workload.device);
  check(workload, modes.size());
  check_json_path(options.json);
  std::fputs((banner(workload) + "\n").c_str(), stdout);
  std::fflush(stdout);
  const Data data = make_data(workload);
  start_libraries(workload, modes, data);
  const ProcessorUse use;
  std::vector<Measurement> runs;
  {
    ProgressBar bar("training", workload.steps() * static_cast<std::int64_t>(modes.size()));
    runs = measure(workload, modes, data, [&](std::int64_t done) { bar.show(done); });
  }
  const std::optional<double> others = use.others();
  std::fputs(
      (table(workload, runs) + other_processes(others) + "\n" + scale_report(runs) + verdict(workload, runs))
          .c_str(),
      stdout);
  if (!options.json.empty()) mezzo::io::write_json_file(options.json, to_value(workload, runs, others));
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      argc, argv, "mlp_timing",
      "Times the training of an MLP in default precision, under autocast, and under autocast with "
      "GradScaler.",
      add_options, run_all);
}
