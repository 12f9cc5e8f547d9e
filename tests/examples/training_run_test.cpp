// examples/training_run as a user runs it: whole, and stopped in the middle and begun again, which ends with
// the same bits and the same log.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"
#include "support/child.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;

class TrainingRun : public testing::Test {
 protected:
  TrainingRun()
      : program_(test::this_program().parent_path().parent_path() / "examples/training_run"),
        folder_(fs::temp_directory_path() / ("mezzo-training-run-" + std::to_string(::getpid()))) {}
  void SetUp() override {
    if (!fs::exists(program_)) GTEST_SKIP() << program_ << " was not built";
    fs::create_directories(folder_);
  }
  ~TrainingRun() override { fs::remove_all(folder_); }

  [[nodiscard]] test::Ran run(const std::string& options) const {
    return test::run_shell("cd '" + folder_.string() + "' && '" + program_.string() + "' --device cpu " +
                           options);
  }
  /// A log without the times.
  [[nodiscard]] std::vector<std::string> log(const std::string& name) const {
    std::ifstream in(folder_ / name / "log.csv");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      const std::size_t time = line.find(',') + 1;
      lines.push_back(line.erase(time, line.find(',', time) - time));
    }
    return lines;
  }

  fs::path program_, folder_;
};

TEST_F(TrainingRun, StoppedAndBegunAgainItEndsWithTheSameBits) {
  const test::Ran whole = run("--epochs 1 --out whole");
  ASSERT_EQ(whole.status, 0) << whole.text;
  const test::Ran stopped = run("--epochs 1 --out parts --stop 57 --workers 0");
  ASSERT_EQ(stopped.status, 0) << stopped.text;
  EXPECT_TRUE(fs::exists(folder_ / "parts/step-000000000050.safetensors"));
  const test::Ran resumed = run("--epochs 1 --out parts");
  ASSERT_EQ(resumed.status, 0) << resumed.text;

  const auto checkpoint = [&](const char* name) {
    return io::TensorFile::load((folder_ / name / "latest.safetensors").string());
  };
  const io::TensorFile expected = checkpoint("whole"), got = checkpoint("parts");
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < got.tensors.size(); ++i)
    EXPECT_TRUE(equal(got.tensors[i].second, expected.tensors[i].second)) << got.tensors[i].first;
  EXPECT_EQ(got.metadata, expected.metadata);
  EXPECT_EQ(log("parts"), log("whole"));
  EXPECT_GT(std::stod(expected.metadata.at("mezzo.metric")), 0.5) << "the accuracy after an epoch";
  for (const char* name : {"report.html", "log.csv", "best.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "parts" / name));
}

TEST_F(TrainingRun, SaysWhatIsWrongInOneLine) {
  const test::Ran ran = run("--data nowhere");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.text.find("nowhere"), std::string::npos) << ran.text;
  EXPECT_EQ(ran.text.find('\n'), ran.text.size() - 1) << ran.text;
}

}  // namespace
}  // namespace mezzo
