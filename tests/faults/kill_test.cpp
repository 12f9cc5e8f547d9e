// Processes that are killed in the middle of a save: the file is the old one or the new one, whole, and the
// next save removes what they left.
#include <sys/wait.h>

#include <csignal>
#include <random>

#include "mezzo/tests/faults/support.h"

namespace mezzo::test {
namespace {

class KilledSaves : public FaultTest {
 protected:
  void SetUp() override {
    FaultTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    training_.step();
    training_.save(path());
    old_file_ = content_of(path());
    training_.step();
    training_.save(path());
    new_file_ = content_of(path());
  }

  /// A child that saves, killed at `first` of its calls or, where that is 0, after `wait` microseconds.
  void kill_one(std::uint64_t first, FaultAction action, unsigned wait) {
    std::ofstream(path(), std::ios::binary) << old_file_;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Faults faults({.kinds = kOpen | kWrite | kSync | kRename,
                           .action = action,
                           .first = first == 0 ? ~std::uint64_t{0} : first});
      for (bool again = true; again; again = first == 0) training_.save(path());
      ::_exit(0);
    }
    if (first == 0) {
      ::usleep(wait);
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed_ += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
    const std::string now = content_of(path());
    ASSERT_TRUE(now == old_file_ || now == new_file_) << "a file of " << now.size() << " bytes";
    new_files_ += now == new_file_ ? 1 : 0;
    left_ += static_cast<int>(entries_of(folder()) - 1);
    training_.save(path());
    ASSERT_EQ(entries_of(folder()), 1) << "the next save removes what was left";
  }

  Training training_;
  std::string old_file_, new_file_;
  int killed_ = 0, new_files_ = 0, left_ = 0;
};

TEST_F(KilledSaves, AtEachCallOfTheSystem) {
  std::uint64_t calls = 0;
  std::string message;
  const FaultPlan none{.kinds = kOpen | kWrite | kSync | kRename, .first = ~std::uint64_t{0}};
  ASSERT_EQ(run_with(none, calls, message, [&] { training_.save(path()); }), End::success);
  for (const FaultAction action : {FaultAction::kill_before, FaultAction::kill_after}) {
    for (std::uint64_t n = 1; n <= calls; ++n) kill_one(n, action, 0);
  }
  EXPECT_EQ(killed_, static_cast<int>(2 * calls));
  EXPECT_GT(left_, 0);
}

TEST_F(KilledSaves, AtRandomMoments) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 40; ++i) kill_one(0, FaultAction::fail, static_cast<unsigned>(random() % 4000));
  EXPECT_EQ(killed_, 40);
}

/// Saves in several files: a reader of the index finds the former tensors, the new ones, or no index.
class KilledShards : public FaultTest {
 protected:
  void save(double value) const {
    io::TensorFile::NamedTensors tensors;
    for (int i = 0; i < 4; ++i) tensors.emplace_back(std::to_string(i), full({10}, value));
    io::save(tensors, file(), {.max_shard_size = 40});
  }
  [[nodiscard]] std::string file() const { return (folder() / "m.safetensors").string(); }

  /// The value that all tensors have; -1 where there is no index.
  [[nodiscard]] double read() const {
    const std::string index = file() + ".index.json";
    if (!std::filesystem::exists(index)) return -1;
    const io::TensorFile::NamedTensors tensors = io::load(index);
    EXPECT_EQ(tensors.size(), 4U);
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(tensor.equal(tensors[0].second)) << "old and new together";
    return tensors[0].second.to_vector<double>()[0];
  }
};

TEST_F(KilledShards, NeverMixOldAndNew) {
  const FaultPlan none{.kinds = kOpen | kWrite | kSync | kRename, .first = ~std::uint64_t{0}};
  std::uint64_t calls = 0;
  std::string message;
  ASSERT_EQ(run_with(none, calls, message, [&] { save(1); }), End::success);
  int before = 0, after = 0, without = 0;
  for (std::uint64_t n = 1; n <= calls; ++n) {
    save(1);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const Faults faults({.kinds = none.kinds, .action = FaultAction::kill_before, .first = n});
      save(2);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << n;
    const double found = read();
    before += found == 1 ? 1 : 0;
    after += found == 2 ? 1 : 0;
    without += found == -1 ? 1 : 0;
  }
  EXPECT_EQ(before + after + without, static_cast<int>(calls));
  EXPECT_GT(before, after);
  EXPECT_GT(before, without) << "the time without an index is that of giving names";
  save(3);
  EXPECT_EQ(read(), 3);
  EXPECT_EQ(entries_of(folder()), 5) << "the next save removes what was left";
}

}  // namespace
}  // namespace mezzo::test
