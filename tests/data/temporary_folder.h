// A folder for the files that a test writes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mezzo::data {

/// A folder of its own for each test, removed at its end.
class TemporaryFolder : public ::testing::Test {
 protected:
  TemporaryFolder()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("mezzo_data_" + std::to_string(::getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }
  ~TemporaryFolder() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? folder_.string() : (folder_ / name).string();
  }
  /// Writes a file, in folders that need not be there yet, and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace mezzo::data
