// Saving and loading a checkpoint while each call of the system fails once, or from then on: it ends in
// success or in one clear error, no descriptor and no temporary file is left, and the file that was there is
// whole.
#include <sys/resource.h>
#include <csignal>

#include "mezzo/tests/faults/support.h"

namespace mezzo::test {
namespace {

struct Fault {
  const char* name;
  FaultPlan plan;
};

const Fault kSaveFaults[] = {
    {"write", {.kinds = kWrite, .error = ENOSPC}},
    {"write from then on", {.kinds = kWrite, .all_after = true, .error = EIO}},
    {"fsync", {.kinds = kSync}},
    {"rename", {.kinds = kRename, .error = EACCES}},
    {"open", {.kinds = kOpen, .error = EMFILE}},
    {"open from then on", {.kinds = kOpen, .all_after = true, .error = EMFILE}},
    {"mmap", {.kinds = kMap, .error = ENOMEM}},
    {"memory", {.kinds = kMemory}},
    {"memory from then on", {.kinds = kMemory, .all_after = true}},
    {"anything", {.kinds = kMemory | kMap | kOpen | kWrite | kSync | kRename, .all_after = true}},
};

class CheckpointFaults : public FaultTest {};

/// Two states that differ, and their files.
struct TwoStates {
  explicit TwoStates(const std::string& path) {
    training.step();
    training.save(path);
    old_file = content_of(path);
    training.step();
    training.save(path);
    new_file = content_of(path);
  }
  Training training;
  std::string old_file, new_file;
};

TEST_F(CheckpointFaults, ASaveThatFailsLeavesTheOldFile) {
  TwoStates states(path());
  ASSERT_TRUE(states.old_file != states.new_file);
  for (const Fault& fault : kSaveFaults) {
    int refused = 0;
    for (std::uint64_t n = 1, calls = n; calls >= n; ++n) {
      std::ofstream(path(), std::ios::binary) << states.old_file;
      const std::ptrdiff_t files = open_files();
      FaultPlan plan = fault.plan;
      plan.first = n;
      std::string message;
      empty_cache(Device::cpu());
      const End end = run_with(plan, calls, message, [&] { states.training.save(path()); });
      SCOPED_TRACE(std::string(fault.name) + ", call " + std::to_string(n) + " of " + std::to_string(calls));
      ASSERT_EQ(open_files(), files);
      ASSERT_EQ(entries_of(folder()), 1);
      ASSERT_TRUE(content_of(path()) == (end == End::success ? states.new_file : states.old_file)) << message;
      if (end == End::refused) expect_clear(message);
      refused += end == End::success ? 0 : 1;
    }
    EXPECT_TRUE(refused > 0 || fault.plan.kinds == kMap) << fault.name;
  }
}

TEST_F(CheckpointFaults, ALoadThatFailsSaysSoAndCanBeRepeated) {
  TwoStates states(path());
  Training other;
  for (const Fault& fault :
       {Fault{"open", {.kinds = kOpen, .error = EMFILE}}, Fault{"read", {.kinds = kRead}},
        Fault{"read from then on", {.kinds = kRead, .all_after = true}},
        Fault{"mmap", {.kinds = kMap, .error = ENOMEM}}, Fault{"memory", {.kinds = kMemory}},
        Fault{"memory from then on", {.kinds = kMemory, .all_after = true}}}) {
    int refused = 0;
    for (std::uint64_t n = 1, calls = n; calls >= n; ++n) {
      const std::ptrdiff_t files = open_files();
      FaultPlan plan = fault.plan;
      plan.first = n;
      std::string message;
      empty_cache(Device::cpu());
      const End end = run_with(plan, calls, message, [&] { other.load(path()); });
      SCOPED_TRACE(std::string(fault.name) + ", call " + std::to_string(n) + " of " + std::to_string(calls));
      ASSERT_EQ(open_files(), files);
      if (end == End::refused) expect_clear(message);
      refused += end == End::success ? 0 : 1;
    }
    EXPECT_TRUE(refused > 0 || fault.plan.kinds == kMap) << fault.name;
    other.load(path());
    other.save(path());
    ASSERT_TRUE(content_of(path()) == states.new_file) << fault.name;
  }
}

TEST_F(CheckpointFaults, InterruptedAndShortCallsAreRepeated) {
  TwoStates states(path());
  for (const FaultAction action : {FaultAction::shorten, FaultAction::interrupt}) {
    std::filesystem::remove(path());
    const FaultPlan plan{.kinds = kRead | kWrite | kSync | kOpen, .action = action, .all_after = true};
    std::uint64_t calls = 0;
    std::string message;
    EXPECT_EQ(run_with(plan, calls, message, [&] { states.training.save(path()); }), End::success) << message;
    EXPECT_GT(calls, 4U);
    EXPECT_TRUE(content_of(path()) == states.new_file);
    Training other;
    EXPECT_EQ(run_with(plan, calls, message, [&] { other.load(path()); }), End::success) << message;
    EXPECT_GT(calls, 2U);
    other.save(path());
    EXPECT_TRUE(content_of(path()) == states.new_file);
  }
}

TEST_F(CheckpointFaults, AFullDiskLeavesTheOldFile) {
  TwoStates states(path());
  std::ofstream(path(), std::ios::binary) << states.old_file;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::size_t part : {0, 100, 5000}) {
    rlimit limit = before;
    limit.rlim_cur = std::min(part, states.new_file.size() - 1);
    std::string message;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    try {
      states.training.save(path());
    } catch (const IoError& error) {
      message = error.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_clear(message);
    EXPECT_NE(message.find("free some space"), std::string::npos) << message;
    EXPECT_TRUE(content_of(path()) == states.old_file);
    EXPECT_EQ(entries_of(folder()), 1);
  }
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace mezzo::test
