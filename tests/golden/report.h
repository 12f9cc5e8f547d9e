// Counts and prints what became of each case. One object for a whole run; its totals decide the exit status.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <string_view>
#include <vector>
#include "mezzo/core/device.h"

namespace mezzo::golden {

/// What is run and how much is printed.
struct Options {
  std::vector<std::string> directories;
  std::string only;      ///< substring or glob of "file" or "file:case"; empty: everything
  Device device;         ///< where the cases run
  bool verbose = false;  ///< name passed and unsupported cases too
  bool strict = false;   ///< a case that is not supported counts as failed
};

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  /// Starts a file; cases are counted for it until the next.
  void begin_file(const std::string& name);
  /// Runs one case, unless `only` leaves it out: passed when `check` returns, not supported when it throws
  /// NotSupported, failed when it throws anything else.
  void run(const std::string& case_name, const std::function<void()>& check);
  /// Prints the file's line, and its failures.
  void end_file();
  /// A remark under the file's line.
  void note(const std::string& text) { notes_.push_back(text); }
  /// Prints the totals and what was not supported. Returns the exit status: 0 when at least one case passed
  /// and none failed.
  [[nodiscard]] int finish() const;

 private:
  struct Counts {
    std::int64_t passed = 0, failed = 0, unsupported = 0;
    [[nodiscard]] std::int64_t all() const { return passed + failed + unsupported; }
  };
  [[nodiscard]] bool selected(const std::string& case_name) const;

  const Options& options_;
  std::string file_;
  Counts counts_, totals_;
  std::vector<std::string> lines_, notes_;
  std::vector<std::string> reasons_;  ///< why cases of this file are not supported, each once
  std::vector<std::string> unsupported_files_;
};

}  // namespace mezzo::golden
