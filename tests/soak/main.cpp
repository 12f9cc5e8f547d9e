// Hours of training in blocks of steps. Each block runs twice from one file: in calm, and then on another
// number of threads beside noise, with signals and with requests for memory that fail. Both must end in the
// same bits, and the process must not grow: memory, open files, threads, processor time per step. usage: soak
// [--minutes N | --blocks N] [--seed N]
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/tests/faults/faults.h"
#include "mezzo/tests/soak/disturber.h"
#include "mezzo/tests/soak/process.h"
#include "mezzo/tests/soak/training.h"
#include "mezzo/tests/support/child.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo::soak {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::cpu::GemmEngine;
using kernels::cpu::set_gemm_engine;

constexpr std::int64_t kSteps = 60;    ///< of a block
constexpr std::size_t kWarmUp = 4;     ///< blocks until the process has what it needs
constexpr std::size_t kForTrend = 20;  ///< blocks from which on times are compared

struct Options {
  double minutes = 60;
  std::int64_t blocks = 0;  ///< 0: as many as the minutes allow
  std::uint64_t seed = 1;
};

struct Counts {
  std::int64_t steps = 0, overflows = 0, faults = 0;
};

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The middle value.
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class Soak {
 public:
  explicit Soak(const Options& options)
      : options_(options),
        folder_(std::filesystem::temp_directory_path() / ("mezzo_soak_" + std::to_string(::getpid()))),
        random_(options.seed) {
    std::filesystem::create_directories(folder_);
    manual_seed(options.seed);
    training_.emplace(options.seed);
  }
  ~Soak() { std::filesystem::remove_all(folder_); }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  void run() {
    const Clock::time_point start = Clock::now();
    Clock::time_point said = start;
    const auto minutes = [&] { return std::chrono::duration<double>(Clock::now() - start).count() / 60; };
    for (std::int64_t block = 0; options_.blocks > 0 ? block < options_.blocks : minutes() < options_.minutes;
         ++block) {
      run_block(block);
      if (Clock::now() - said < std::chrono::seconds(15)) continue;
      said = Clock::now();
      say(block + 1);
    }
    say(static_cast<std::int64_t>(seconds_.size()));
    check_trend();
    if (counts_.overflows == 0) throw std::runtime_error("no step overflowed");
    if (test::arm_faults() != nullptr && counts_.faults == 0)
      throw std::runtime_error("no request for memory failed");
    std::printf("soak: no bit, byte or file was lost\n");
  }

 private:
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  void run_block(std::int64_t block) {
    const std::int64_t first = block * kSteps;
    with_faults_ = block % 2 == 1 && test::arm_faults() != nullptr;
    // oneDNN ends a process that gets no memory in it.
    set_gemm_engine(with_faults_ ? GemmEngine::eigen : GemmEngine::automatic);
    training_->save(path("start"));
    set_num_threads(1);
    const double before = processor_seconds();
    for (std::int64_t step = first; step < first + kSteps; ++step) training_->step(step);
    seconds_.push_back((processor_seconds() - before) / kSteps);
    training_->save(path("calm"));

    set_num_threads(1 + static_cast<int>(random_() % 4));
    training_->load(path("start"));
    {
      const Disturber disturber(random_());
      for (std::int64_t step = first; step < first + kSteps; ++step) disturbed_step(step);
      training_->save(path("disturbed"));
    }
    if (content_of(path("calm")) != content_of(path("disturbed"))) {
      throw std::runtime_error("block " + std::to_string(block) +
                               ": a disturbed training has other bits; seed " +
                               std::to_string(options_.seed));
    }
    counts_.steps += 2 * kSteps;
    for (std::int64_t step = first; step < first + kSteps; ++step)
      counts_.overflows += training_->overflows(step) ? 2 : 0;
    check_process(block);
  }

  /// Every fifth step begins with a try in which one request for memory, or all after it, are refused. What
  /// that leaves is thrown away, as a program would: it loads what it has saved.
  void disturbed_step(std::int64_t step) {
    if (with_faults_ && random_() % 5 == 0) {
      training_->save(path("before"));
      if (!try_without_memory(step)) ++counts_.faults;
      training_->abandon_step();
      training_->load(path("before"));
    }
    training_->step(step);
  }
  [[nodiscard]] bool try_without_memory(std::int64_t step) {
    empty_cache(Device::cpu());
    const test::Faults faults(
        {.kinds = test::kMemory, .first = 1 + random_() % 400, .all_after = random_() % 2 == 0});
    try {
      training_->step(step);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    } catch (const Error&) {
      return false;
    }
  }

  void check_process(std::int64_t block) {
    const Process now = look_at_process();
    if (seconds_.size() <= kWarmUp) {
      most_ = now;
      return;
    }
    const auto refuse = [&](const char* what, double held, double expected) {
      throw std::runtime_error("block " + std::to_string(block) + ": " + what + " grew from " +
                               std::to_string(expected) + " to " + std::to_string(held));
    };
    // Sizes of freed blocks vary with the number of threads, and the system's malloc has an arena per thread.
    if (now.mebibytes > 1.25 * most_.mebibytes + 16) refuse("memory (MiB)", now.mebibytes, most_.mebibytes);
    if (now.files > most_.files)
      refuse("open files", static_cast<double>(now.files), static_cast<double>(most_.files));
    if (now.threads > 4) refuse("threads", static_cast<double>(now.threads), 4);
    if (now.tensor_bytes != most_.tensor_bytes) {
      refuse("bytes of tensors", static_cast<double>(now.tensor_bytes),
             static_cast<double>(most_.tensor_bytes));
    }
  }

  /// Processor time per step of the calm runs, which other processes change little.
  void check_trend() const {
    if (seconds_.size() < kForTrend) return;
    const auto third = static_cast<std::ptrdiff_t>(seconds_.size() / 3);
    const double early = median({seconds_.begin(), seconds_.begin() + third});
    const double late = median({seconds_.end() - third, seconds_.end()});
    if (late > 1.5 * early) {
      throw std::runtime_error("steps became slower: " + std::to_string(early * 1e3) + " ms at first, " +
                               std::to_string(late * 1e3) + " ms at last");
    }
  }

  void say(std::int64_t blocks) const {
    const Process now = look_at_process();
    std::printf(
        "soak: %lld blocks, %lld steps, %lld overflows, %lld failed requests for memory; %.2f ms per step; "
        "%.1f MiB, %lld files, %lld threads\n",
        static_cast<long long>(blocks), static_cast<long long>(counts_.steps),
        static_cast<long long>(counts_.overflows), static_cast<long long>(counts_.faults),
        median(seconds_) * 1e3, now.mebibytes, static_cast<long long>(now.files),
        static_cast<long long>(now.threads));
    std::fflush(stdout);
  }

  Options options_;
  std::filesystem::path folder_;
  std::mt19937_64 random_;
  std::optional<Training> training_;
  bool with_faults_ = false;
  Counts counts_;
  Process most_;
  std::vector<double> seconds_;  ///< of processor time per calm step, a block each
};

[[noreturn]] void refuse(const std::string& problem) {
  std::fprintf(stderr, "soak: %s; usage: soak [--minutes N | --blocks N] [--seed N]\n", problem.c_str());
  std::exit(2);
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) refuse("expected a number behind " + std::string(name));
    char* end = nullptr;
    const double value = std::strtod(argv[i + 1], &end);
    if (*end != '\0' || end == argv[i + 1] || !(value > 0) || value > 1e9) {
      refuse("expected a number above 0 behind " + std::string(name) + ", got '" + argv[i + 1] + "'");
    }
    if (name == "--minutes")
      options.minutes = value;
    else if (name == "--blocks")
      options.blocks = static_cast<std::int64_t>(value);
    else if (name == "--seed")
      options.seed = static_cast<std::uint64_t>(value);
    else
      refuse("unknown option " + std::string(name));
  }
  return options;
}

/// Starts the program again with the library that makes calls fail, which lies beside it.
void preload_faults(char** argv) {
  if (test::arm_faults() != nullptr || test::under_sanitizer() || std::getenv("MEZZO_FAULTS") != nullptr)
    return;
  ::setenv("LD_PRELOAD", (test::this_program().parent_path() / "libmezzo_faults.so").c_str(), 1);
  ::setenv("MEZZO_FAULTS", "preloaded", 1);
  ::execv("/proc/self/exe", argv);
}

}  // namespace
}  // namespace mezzo::soak

int main(int argc, char** argv) {
  const mezzo::soak::Options options = mezzo::soak::options_of(argc, argv);
  mezzo::soak::preload_faults(argv);
  try {
    mezzo::soak::Soak(options).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
  return 0;
}
