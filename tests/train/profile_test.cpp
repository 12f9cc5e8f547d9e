// TrainerOptions::profile: which steps it records, what it leaves behind, and that it changes nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

struct Texts final : Sink {
  Texts() : Sink(1) {}
  void write(const LogRecord& /*record*/) override {}
  void write_text(const LogText& text) override { all[std::string(text.name)] = text.value; }
  std::map<std::string, Value> all;
};

class TrainerProfiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Trains with this profile, and returns the text that was logged.
  Value train(AlteredLoop& loop, Time duration, const TrainerProfile& profile) {
    auto texts = std::make_shared<Texts>();
    TrainerOptions options = loop.trainer(duration);
    options.sinks = {texts};
    options.profile = profile;
    Trainer(options).fit();
    const auto found = texts->all.find("profile");
    return found == texts->all.end() ? Value() : found->second;
  }
  std::string folder_ =
      (std::filesystem::path(::testing::TempDir()) / ("mezzo_profile_" + std::to_string(::getpid())))
          .string();
};

std::int64_t calls_of(const Value& report, const std::string& phase) {
  for (const Value& row : report.at("phases").as_list()) {
    if (row.at("phase").as_string() == phase) return row.at("calls").as_int();
  }
  return 0;
}

TEST_F(TrainerProfiles, LeaveReportAndTraceWithTheRun) {
  AlteredLoop loop({.precision = amp::Precision::amp_fp16});
  const Value report = train(loop, "2ep", {.from = 3, .steps = 5, .folder = folder_});
  EXPECT_EQ(report.at("steps").as_int(), 5);
  for (const char* const phase : {"loader", "backward", "check_finite", "step", "update", "logging"})
    EXPECT_EQ(calls_of(report, phase), 5) << phase;
  EXPECT_EQ(report.at("modules").as_list()[1].at("path").as_string(), "0");
  EXPECT_NE(read("profile.txt").find("5 steps on cpu"), std::string::npos);
  const auto json = nlohmann::json::parse(read("trace.json"));
  EXPECT_GT(json.at("traceEvents").size(), 100U);
}

TEST_F(TrainerProfiles, RecordWhatAShortTrainingHas) {
  AlteredLoop loop;
  EXPECT_EQ(train(loop, "6ba", {.from = 2, .steps = 10, .folder = folder_}).at("steps").as_int(), 4);
  EXPECT_TRUE(train(loop, "1ba", {.from = 2, .steps = 10, .folder = folder_}).is_null());
}

TEST_F(TrainerProfiles, AreInTheFolderOfCheckpoints) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("4ba");
  options.save = {.folder = folder_};
  options.profile = {.from = 1, .steps = 2};
  Trainer(options).fit();
  EXPECT_NE(read("profile.txt").find("2 steps on cpu"), std::string::npos);
}

TEST_F(TrainerProfiles, ChangeNoBits) {
  AlteredLoop plain, watched;
  Trainer(plain.trainer("12ba")).fit();
  static_cast<void>(train(watched, "12ba", {.from = 2, .steps = 4, .folder = folder_}));
  const auto expected = plain.net->named_parameters(), got = watched.net->named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(got[i].second.to_vector<float>(), expected[i].second.to_vector<float>()) << got[i].first;
}

TEST_F(TrainerProfiles, GoOnWhereFilesCannotBeWritten) {
  const test::CaughtWarnings warnings;
  AlteredLoop loop;
  EXPECT_EQ(train(loop, "6ba", {.from = 1, .steps = 2, .folder = "/nowhere/at/all"}).at("steps").as_int(), 2);
  EXPECT_NE(warnings.text_of("trainer_profile").find("/nowhere/at/all/profile.txt"), std::string::npos);
  EXPECT_NE(test::message_of<ValueError>([&] { train(loop, "1ba", {.steps = -1}); }).find("at least 1 step"),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo::train
