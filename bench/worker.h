// What every benchmark program is: named cases, and a loop that times the one it is asked for. The programs
// wait for commands on stdin, so that run.py can let mezzo and its peers take turns, a few hundredths of a
// second each; that is what Google Benchmark, which runs one program to its end, has no place for.
//
//   list            the names, a line each, then an empty line
//   time NAME SEC   runs NAME for about SEC seconds and prints the nanoseconds of one call
//   about           one line on the library and its version
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace bench {

using Body = std::function<void()>;

/// The cases of one program by name. A case's data is made when it is first timed, and let go when another
/// case is.
class Worker {
 public:
  explicit Worker(std::string about) : about_(std::move(about)) {}

  void add(const std::string& name, std::function<Body()> setup) { cases_[name] = std::move(setup); }

  /// Serves stdin to its end. Errors go to stdout as a line that begins with "error".
  int run() {
    std::string command;
    while (std::cin >> command) {
      try {
        if (command == "list") list();
        if (command == "about") std::cout << about_ << std::endl;
        if (command == "time") {
          std::string name;
          double seconds = 0;
          std::cin >> name >> seconds;
          std::cout << time(name, seconds) << std::endl;
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

  double time(const std::string& name, double seconds) {
    if (name != open_) {
      body_ = nullptr;
      body_ = cases_.at(name)();
      open_ = name;
      seconds_per_call_ = 0;
      repeat(2);
      for (std::int64_t calls = 1; calls * seconds_per_call_ < seconds / 4; calls *= 2) {
        seconds_per_call_ = repeat(calls) / static_cast<double>(calls);
      }
    }
    const std::int64_t calls =
        seconds_per_call_ > 0 ? 1 + static_cast<std::int64_t>(seconds / seconds_per_call_) : 1;
    seconds_per_call_ = repeat(calls) / static_cast<double>(calls);
    return 1e9 * seconds_per_call_;
  }

  double repeat(std::int64_t calls) const {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < calls; ++i) body_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::string about_, open_;
  std::map<std::string, std::function<Body()>> cases_;
  Body body_;
  double seconds_per_call_ = 0;
};

}  // namespace bench
