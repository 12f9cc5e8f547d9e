// A program of examples/ that trains, run as a user runs it in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "mezzo/mezzo.h"
#include "support/child.h"

namespace mezzo::test {

class TrainedProgram : public testing::Test {
 protected:
  explicit TrainedProgram(const std::string& name)
      : program_(this_program().parent_path().parent_path() / "examples" / name),
        folder_(std::filesystem::path(testing::TempDir()) /
                ("mezzo-" + name + "-" + std::to_string(::getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  void SetUp() override {
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " was not built";
    std::filesystem::create_directories(folder_);
  }
  ~TrainedProgram() override { std::filesystem::remove_all(folder_); }

  /// The program with these flags, on the CPU unless they name a device.
  [[nodiscard]] Ran run(const std::string& flags) const { return run_shell(command(flags)); }
  /// The same, which must succeed.
  [[nodiscard]] std::string text_of(const std::string& flags) const {
    const Ran ran = run(flags);
    EXPECT_EQ(ran.status, 0) << ran.text;
    return ran.text;
  }
  /// The number behind the first place where `text` has `words`; NaN where it has not.
  static double number_behind(const std::string& text, const std::string& words) {
    const std::size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << '"' << words << "\" is not in\n" << text;
    return at == std::string::npos ? std::nan("") : std::stod(text.substr(at + words.size()));
  }
  /// Expects one line on stderr that has `words`, and a status that is not 0.
  void expect_refused(const std::string& flags, const std::string& words) const {
    const Ran ran = run_shell("(" + command(flags) + " >/dev/null)");
    EXPECT_GT(ran.status, 0) << flags << '\n' << ran.text;
    EXPECT_NE(ran.text.find(words), std::string::npos) << flags << '\n' << ran.text;
    EXPECT_EQ(std::count(ran.text.begin(), ran.text.end(), '\n'), 1) << flags << '\n' << ran.text;
  }
  /// Expects that the newest checkpoints of two folders are the same bits.
  void expect_same_checkpoint(const std::string& got, const std::string& expected) const {
    const auto load = [&](const std::string& name) {
      return io::TensorFile::load((folder_ / name / "latest.safetensors").string());
    };
    const io::TensorFile a = load(got), b = load(expected);
    ASSERT_EQ(a.tensors.size(), b.tensors.size());
    for (std::size_t i = 0; i < a.tensors.size(); ++i) {
      EXPECT_EQ(a.tensors[i].first, b.tensors[i].first);
      EXPECT_TRUE(equal(a.tensors[i].second, b.tensors[i].second)) << a.tensors[i].first;
    }
    EXPECT_EQ(a.metadata, b.metadata);
  }
  [[nodiscard]] std::string content_of(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path program_, folder_;

 private:
  [[nodiscard]] std::string command(const std::string& flags) const {
    const std::string device = flags.find("--device") == std::string::npos ? " --device cpu " : " ";
    return "cd '" + folder_.string() + "' && '" + program_.string() + "'" + device + flags;
  }
};

}  // namespace mezzo::test
