// Folders of checkpoints: which files stay, what a damaged one does, and runs that are killed at any moment.
#include "mezzo/train/checkpoint_manager.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/small_training.h"

namespace mezzo::train {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using Steps = std::vector<std::int64_t>;

class Manager : public testing::Test {
 protected:
  Manager() : folder_(fs::temp_directory_path() / ("mezzo-manager-" + std::to_string(::getpid())) / "run") {}
  ~Manager() override { fs::remove_all(folder_.parent_path()); }

  /// The step that a link leads to.
  [[nodiscard]] std::string target(const char* link) const {
    return fs::read_symlink(folder_ / link).string();
  }

  fs::path folder_;
  std::int64_t value_ = 0;
  Parts parts_{{"value", value_}};
};

TEST_F(Manager, KeepsTheLastAndTheBest) {
  for (const bool background : {false, true}) {
    CheckpointManager manager(folder_.string(), parts_,
                              {.keep_last = 2, .keep_best = 2, .background = background});
    const double losses[] = {5, 1, 4, 2, 3, 6, 7};
    for (std::int64_t step = 0; step < 7; ++step) {
      value_ = step * 10;
      EXPECT_EQ(manager.save(step, losses[step]), manager.path_of(step));
      value_ = -1;  // the file has what was there when it was saved
    }
    EXPECT_EQ(manager.steps(), (Steps{1, 3, 5, 6}));
    EXPECT_EQ(target("latest.safetensors"), "step-000000000006.safetensors");
    EXPECT_EQ(target("best.safetensors"), "step-000000000001.safetensors");
    EXPECT_EQ(manager.load_best(), 1);
    EXPECT_EQ(value_, 10);
    EXPECT_EQ(manager.load_latest(), 6);
    EXPECT_EQ(value_, 60);
    load_checkpoint((folder_ / "best.safetensors").string(), parts_);
    EXPECT_EQ(value_, 10);
    fs::remove_all(folder_);
  }
}

TEST_F(Manager, FindsWhatAnEarlierRunHasLeft) {
  {
    CheckpointManager manager(folder_.string(), parts_, {.best = Best::highest});
    for (const std::int64_t step : {1, 2, 3}) manager.save(step, static_cast<double>(-step));
    manager.save(1'000'000'000'000'000);
  }
  CheckpointManager manager(folder_.string(), parts_, {.keep_last = 1, .best = Best::highest});
  EXPECT_EQ(manager.steps(), (Steps{1, 2, 3, 1'000'000'000'000'000}));
  manager.save(4);
  EXPECT_EQ(manager.steps(), (Steps{1, 4, 1'000'000'000'000'000})) << "the best, this one, and the last";
}

TEST_F(Manager, ShardsAreOneCheckpoint) {
  Tensor a = full({100}, 1), b = full({100}, 2);
  const Parts parts{{"a", a}, {"b", b}};
  const auto count = [&] { return std::distance(fs::directory_iterator(folder_), {}); };
  {
    CheckpointManager manager(folder_.string(), parts, {.keep_last = 2, .max_shard_size = 500});
    for (const std::int64_t step : {1, 2, 3}) {
      a.fill_(static_cast<double>(step));
      manager.save(step, 5.0);
    }
    EXPECT_EQ(manager.steps(), (Steps{2, 3}));
    EXPECT_EQ(count(), 2 * 3 + 2) << "two shards and an index each, and two links";
  }
  a.fill_(0);
  b.fill_(0);
  CheckpointManager manager(folder_.string(), parts, {.keep_last = 1, .keep_best = 0});
  EXPECT_EQ(manager.steps(), (Steps{2, 3}));
  EXPECT_EQ(manager.load_best(), 3);
  EXPECT_EQ(a[0].item() * 10 + b[0].item(), 32);
  a.fill_(0);
  load_checkpoint((folder_ / "latest.safetensors").string(), parts);
  EXPECT_EQ(a[0].item(), 3);
  manager.save(4);
  EXPECT_EQ(manager.steps(), (Steps{4}));
  EXPECT_EQ(target("latest.safetensors"), "step-000000000004.safetensors");
  EXPECT_EQ(count(), 1 + 1) << "a file and its link";
}

TEST_F(Manager, NothingIsThereAtFirst) {
  CheckpointManager manager(folder_.string(), parts_);
  EXPECT_EQ(manager.load_latest(), std::nullopt);
  EXPECT_EQ(manager.load_best(), std::nullopt);
  manager.save(3);
  EXPECT_EQ(manager.load_best(), std::nullopt) << "no metric was given";
}

TEST_F(Manager, ADamagedFileIsPassedOver) {
  CheckpointManager manager(folder_.string(), parts_);
  for (const std::int64_t step : {1, 2}) {
    value_ = step;
    manager.save(step);
  }
  manager.wait();
  fs::resize_file(manager.path_of(2), fs::file_size(manager.path_of(2)) - 1);
  {
    const test::CaughtWarnings warnings;
    EXPECT_EQ(manager.load_latest(), 1);
    EXPECT_EQ(value_, 1);
    ASSERT_EQ(warnings.texts().size(), 1U);
    EXPECT_NE(warnings.texts()[0].find(manager.path_of(2)), std::string::npos) << warnings.texts()[0];
  }
  std::ofstream(manager.path_of(1)) << "nothing";
  const test::CaughtWarnings quiet;
  const std::string message = message_of<IoError>([&] { manager.load_latest(); });
  EXPECT_NE(message.find("expected a checkpoint that can be read"), std::string::npos) << message;
}

TEST_F(Manager, WhatFailsInTheBackgroundIsSaidByTheNextCall) {
  CheckpointManager manager(folder_.string(), parts_);
  manager.save(1);
  manager.wait();
  fs::remove_all(folder_);
  manager.save(2);
  EXPECT_THROW(manager.wait(), IoError);
  EXPECT_NO_THROW(manager.wait()) << "said once";
  manager.save(3);
  EXPECT_THROW(manager.save(4), IoError);
  const test::CaughtWarnings warnings;
  { CheckpointManager(folder_.string() + "/../other", parts_).save(1); }
  EXPECT_TRUE(warnings.texts().empty());
}

TEST_F(Manager, RefusesWhatMakesNoSense) {
  EXPECT_EQ(
      message_of<ValueError>([&] { CheckpointManager manager(folder_.string(), parts_, {.keep_last = -1}); }),
      "CheckpointManager: expected numbers of files of at least 0, got -1");
  CheckpointManager manager(folder_.string(), parts_);
  EXPECT_EQ(message_of<ValueError>([&] { manager.save(-2, 1.0); }),
            "CheckpointManager.save: expected a step of at least 0, and a metric that is a number, got step "
            "-2, metric "
            "1");
  EXPECT_THROW(manager.save(1, NAN), ValueError);
  std::ofstream(folder_ / "file") << "x";
  const std::string message =
      message_of<IoError>([&] { CheckpointManager other((folder_ / "file").string(), parts_); });
  EXPECT_NE(message.find("expected a folder that can be made"), std::string::npos) << message;
}

TEST_F(Manager, ATrainingThatIsKilledAgainAndAgainEndsWithTheSameBits) {
  constexpr int kSteps = 150, kKills = 50;
  const Recipe recipe{"f16", DType::f16};
  SmallTraining straight(recipe);
  for (int i = 0; i < kSteps; ++i) straight.micro_step();
  const auto run = [&](bool pause) {
    SmallTraining training(recipe);
    CheckpointManager manager(folder_.string(), training.parts(), {.keep_last = 2});
    manager.load_latest();
    while (training.steps() < kSteps) {
      training.micro_step();
      manager.save(training.steps());
      if (pause) ::usleep(200);
    }
    manager.wait();
    return training.bits();
  };
  std::mt19937_64 random(7);
  int killed = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      while (true) run(true);
    }
    ::usleep(static_cast<unsigned>(2000 + random() % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
  }
  EXPECT_EQ(killed, kKills);
  EXPECT_EQ(run(false), straight.bits());
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path() << " was left";
}

}  // namespace
}  // namespace mezzo::train
