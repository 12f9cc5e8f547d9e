// What every benchmark program is: named cases, and a loop that times the one it is asked for. The programs
// wait for commands on stdin, so that run.py can let mezzo and its peers take turns, a few hundredths of a
// second each; that is what Google Benchmark, which runs one program to its end, has no place for.
//
//   list            the names, a line each, then an empty line
//   time NAME SEC   runs NAME for about SEC seconds and prints the nanoseconds of one call
//   peak NAME       makes NAME anew, runs it some times and prints the largest number of bytes that it took
//   resident NAME   makes NAME in a process that has done nothing else, runs it some times and prints by how
//   many
//                   bytes the process's resident memory grew at its peak
//   work NAME       what a call of NAME cannot do without, in lines, then an empty line (Worker::add_work)
//   about           one line on the library and its version
//   plans           what its products and convolutions on a GPU ran with, a line each, then an empty line
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using Body = std::function<void()>;

/// What the cases run on.
struct Target {
  /// Waits for the work that calls have begun; unset where a call ends with its work. A reading waits inside
  /// its clock, and before it one call and one wait see to it that the device serves this process.
  std::function<void()> synchronize = {};
  /// Lets all memory go that is not in use and begins a new peak; then says that peak in bytes.
  std::function<void()> reset_peak = {};
  std::function<std::int64_t()> peak = {};
  /// What products and convolutions ran with, in lines; unset where nobody says it.
  std::function<std::string()> plans = {};
  /// Calls before the first reading: they load kernels, choose algorithms, fill caches, record graphs.
  int warmup = 2;
};

/// The cases of one program by name. A case's data is made when it is first timed; that of the last two
/// stays, so that two cases of one program can take turns.
class Worker {
 public:
  explicit Worker(std::string about, Target target = {})
      : about_(std::move(about)), target_(std::move(target)) {}

  void add(const std::string& name, std::function<Body()> setup) { cases_[name] = std::move(setup); }

  /// What a call of a case cannot do without, for the time that the machine needs at least: "moved BYTES",
  /// and for each product "OP<tab>SHAPES OF INPUTS<tab>CALLS<tab>FLOP of all".
  void add_work(const std::string& name, std::function<std::vector<std::string>()> work) {
    work_[name] = std::move(work);
  }

  /// Serves stdin to its end. Errors go to stdout as a line that begins with "error".
  int run() {
    std::string command;
    while (std::cin >> command) {
      try {
        if (command == "list") list();
        if (command == "work") {
          std::string name;
          std::cin >> name;
          const auto found = work_.find(name);
          for (const std::string& line : found == work_.end() ? std::vector<std::string>() : found->second())
            std::cout << line << '\n';
          std::cout << std::endl;
        }
        if (command == "about") std::cout << about_ << std::endl;
        if (command == "plans") std::cout << (target_.plans ? target_.plans() : "") << std::endl;
        if (command == "time") {
          std::string name;
          double seconds = 0;
          std::cin >> name >> seconds;
          std::cout << time(name, seconds) << std::endl;
        }
        if (command == "peak") {
          std::string name;
          std::cin >> name;
          std::cout << peak(name) << std::endl;
        }
        if (command == "resident") {
          std::string name;
          std::cin >> name;
          std::cout << resident(name) << std::endl;
        }
      } catch (const std::exception& error) {
        std::cout << "error " << error.what() << std::endl;
      }
    }
    return 0;
  }

 private:
  void list() const {
    for (const auto& entry : cases_) std::cout << entry.first << '\n';
    std::cout << std::endl;
  }

  struct Open {
    std::string name;
    Body body;
    double seconds_per_call = 0;
  };
  static constexpr std::size_t kOpen = 2;

  Open& open(const std::string& name, double seconds) {
    const auto at =
        std::find_if(open_.begin(), open_.end(), [&](const Open& one) { return one.name == name; });
    if (at != open_.end()) return *at;
    const auto& setup = cases_.at(name);
    if (open_.size() == kOpen) open_.erase(open_.begin());
    open_.push_back({name, setup()});
    Open& opened = open_.back();
    repeat(opened.body, target_.warmup);
    for (std::int64_t calls = 1; static_cast<double>(calls) * opened.seconds_per_call < seconds / 4;
         calls *= 2) {
      opened.seconds_per_call = repeat(opened.body, calls) / static_cast<double>(calls);
    }
    return opened;
  }

  double time(const std::string& name, double seconds) {
    Open& opened = open(name, seconds);
    const double before = opened.seconds_per_call;
    const std::int64_t calls = before > 0 ? 1 + static_cast<std::int64_t>(seconds / before) : 1;
    if (target_.synchronize) repeat(opened.body, 1);
    opened.seconds_per_call = repeat(opened.body, calls) / static_cast<double>(calls);
    return 1e9 * opened.seconds_per_call;
  }

  std::int64_t peak(const std::string& name) {
    if (!target_.peak) throw std::runtime_error("this library has no count of its memory");
    open_.clear();
    target_.reset_peak();
    const Body body = cases_.at(name)();
    repeat(body, target_.warmup);
    return target_.peak();
  }

  /// Of this process in bytes, as Linux counts: "VmRSS" now, "VmHWM" at its peak.
  static std::int64_t memory_of_process(const std::string& entry) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(entry + ":", 0) == 0) return 1024 * std::stoll(line.substr(entry.size() + 1));
    }
    throw std::runtime_error("no " + entry + " in /proc/self/status");
  }
  std::int64_t resident(const std::string& name) const {
    const std::int64_t before = memory_of_process("VmRSS");
    const Body body = cases_.at(name)();
    repeat(body, target_.warmup);
    return memory_of_process("VmHWM") - before;
  }

  double repeat(const Body& body, std::int64_t calls) const {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < calls; ++i) body();
    if (target_.synchronize) target_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::string about_;
  Target target_;
  std::map<std::string, std::function<Body()>> cases_;
  std::map<std::string, std::function<std::vector<std::string>()>> work_;
  std::vector<Open> open_;
};

}  // namespace bench
