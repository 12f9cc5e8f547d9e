// For tests of sinks: a folder of their own, the content of files, a sink that remembers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/train/logger.h"

namespace mezzo::train::log_test {

/// A folder of its own for each test, removed at its end.
class LogFiles : public ::testing::Test {
 protected:
  LogFiles() {
    const ::testing::TestInfo& info = *::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("mezzo_log_" + std::to_string(::getpid()) + "_" + info.test_suite_name() + "_" + info.name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LogFiles() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  /// A logger whose time of day stands still.
  static LoggerOptions at_time(double seconds) {
    return {.wall_clock = [seconds] { return seconds; }};
  }

 private:
  std::filesystem::path folder_;
};

/// Remembers what it is told.
class Memory final : public Sink {
 public:
  explicit Memory(std::int64_t every = 1) : Sink(every) {}
  void write(const LogRecord& record) override {
    std::string text = std::to_string(record.step);
    for (const LogScalar& value : record.values)
      text += " " + std::string(value.name) + "=" + number_text(value.value);
    records.push_back(text);
  }
  void write_text(const LogText& text) override {
    records.push_back(std::string(text.name) + ": " + text.value.to_string());
  }
  std::vector<std::string> records;
};

/// Says that the disk is full until `works`.
class Failing final : public Sink {
 public:
  void write(const LogRecord& /*record*/) override {
    ++tries;
    if (!works) throw IoError("write 'x'", "a disk that takes it", "none", "free some space");
  }
  int tries = 0;
  bool works = false;
};

}  // namespace mezzo::train::log_test
