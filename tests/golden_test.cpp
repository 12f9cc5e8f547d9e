// golden_test [DIR...] [--device D] [--only PATTERN] [--verbose] [--strict]
// Executes golden files (tests/goldens): op results, gradients and second-order results,
// conversions, clipping, GradScaler, optimizers, models, dtype rules. Directories come from the command line,
// else from MEZZO_GOLDENS (separated by ':'), else goldens/ of support/data_folder.h. Ends with a line of
// totals; the exit status is 0 when at least one case ran and none failed, 77 when the device is not there.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "golden/case_file.h"
#include "golden/kinds.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/factory.h"
#include "support/data_folder.h"

namespace {

using mezzo::golden::Options;

constexpr const char* kUsage =
    "usage: golden_test [DIR...] [--device D] [--only PATTERN] [--verbose] [--strict]\n"
    "  DIR             directories with golden files (default: $MEZZO_GOLDENS, else tests/goldens)\n"
    "  --device D      cpu, cuda or cuda:N (default: cpu)\n"
    "  --only PATTERN  only files or \"file:case\" that contain or match it\n"
    "  --verbose       name passed and unsupported cases too\n"
    "  --strict        a case that mezzo does not support counts as failed\n";

/// Throws std::runtime_error for what it does not know.
Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--verbose")
      options.verbose = true;
    else if (arg == "--strict")
      options.strict = true;
    else if (arg == "--device" && i + 1 < argc)
      options.device = mezzo::Device::parse(argv[++i]);
    else if (arg == "--only" && i + 1 < argc)
      options.only = argv[++i];
    else if (arg.rfind("-", 0) == 0)
      throw std::runtime_error("unknown or incomplete option " + arg + "\n" + kUsage);
    else
      options.directories.push_back(arg);
  }
  if (!options.directories.empty()) return options;
  const char* environment = std::getenv("MEZZO_GOLDENS");
  std::istringstream list(environment == nullptr ? "" : environment);
  for (std::string directory; std::getline(list, directory, ':');) {
    if (!directory.empty()) options.directories.push_back(directory);
  }
  if (options.directories.empty()) options.directories.push_back(mezzo::test::data_folder() + "/goldens");
  return options;
}

/// The golden files of a directory by name. Throws when there are none.
std::vector<std::string> files_of(const std::string& directory) {
  if (!std::filesystem::is_directory(directory)) throw std::runtime_error(directory + ": no such directory");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto extension = entry.path().extension();
    if (extension == ".safetensors" || extension == ".json") files.push_back(entry.path().string());
  }
  if (files.empty()) throw std::runtime_error(directory + ": no golden files (*.safetensors, *.json)");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    mezzo::golden::set_run_device(options.device);
    // A device that is not there: said once, and for ctest a test that did not run.
    try {
      static_cast<void>(mezzo::zeros({1}, {.device = options.device}));
    } catch (const mezzo::DeviceError& error) {
      std::cerr << "golden_test: " << error.what() << "\n";
      return 77;
    }
    mezzo::golden::Report report(options);
    for (const std::string& directory : options.directories) {
      std::cout << directory << "\n";
      for (const std::string& file : files_of(directory)) mezzo::golden::run_file(file, report);
    }
    return report.finish();
  } catch (const std::exception& error) {
    std::cerr << "golden_test: " << error.what() << "\n";
    return 1;
  }
}
