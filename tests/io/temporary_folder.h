// A folder of a test's own, with files of Python's programs beside it (tests/io/files).
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "mezzo/tests/support/data_folder.h"

namespace mezzo::io {

/// A file that files/make.py wrote.
inline std::string made_by_python(const std::string& name) {
  return test::data_folder() + "/io/files/" + name;
}

inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Removed at the end of each test.
class WithFolder : public ::testing::Test {
 protected:
  WithFolder()
      : folder_(std::filesystem::path(::testing::TempDir()) / ("mezzo_io_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~WithFolder() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  /// The path of a file with these bytes.
  std::string written(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace mezzo::io
