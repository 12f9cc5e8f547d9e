// Time strings, and the counts of a training.
#include "mezzo/train/time.h"

#include <gtest/gtest.h>

#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::train {
namespace {

TEST(TrainerTime, NumbersWithUnits) {
  const std::pair<const char*, Time> cases[] = {
      {"2iter", {2, TimeUnit::iteration}},  {"10ep", {10, TimeUnit::epoch}},
      {"500BA", {500, TimeUnit::batch}},    {"3e4tok", {30000, TimeUnit::token}},
      {"64sp", {64, TimeUnit::sample}},     {"0.25dur", {0.25, TimeUnit::duration}},
      {"90sec", {90, TimeUnit::second}},    {"0ep", {0, TimeUnit::epoch}},
      {"1e2Ep", {100, TimeUnit::epoch}},    {"1h30m", {5400, TimeUnit::second}},
      {"90s", {90, TimeUnit::second}},      {"2d12h", {216000, TimeUnit::second}},
      {"45m10s", {2710, TimeUnit::second}},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(Time(text), expected) << text;
  EXPECT_EQ(Time(3), Time("3ep"));
  EXPECT_EQ(to_string(Time("3e4tok")), "30000tok");
  EXPECT_EQ(to_string(Time("0.5dur")), "0.5dur");
}

TEST(TrainerTime, RefusesOtherTexts) {
  for (const char* text : {"", "ep", "3", "3 ep", "three ep", "3epochs", "-1ep", "infep", "nanep", "1h2h",
                           "30m1h", "1x", "5e", "1e400tok", "0x10ba"})
    EXPECT_THROW(Time{text}, ValueError) << text;
  for (const char* text : {"0.5ep", "1.5ba", "2.5sp", "1e-1tok", "0.5sec", "0.1iter"})
    EXPECT_THROW(Time{text}, ValueError) << text;
  EXPECT_EQ(test::message_of<ValueError>([] { Time("2.5ba"); }),
            "Time: expected a whole number of ba, got '2.5ba'; only dur takes fractions");
}

TEST(TrainerTime, ComparesWithinAUnit) {
  EXPECT_LT(Time("2ep"), Time("3ep"));
  EXPECT_GE(Time("3ep"), Time("3ep"));
  EXPECT_EQ(Time("1ba") + Time("2ba"), Time("3ba"));
  EXPECT_THROW(static_cast<void>(Time("1ep") < Time("1ba")), ValueError);
  EXPECT_THROW(static_cast<void>(Time("1ep") == Time("1ba")), ValueError);
}

TEST(TrainerTime, ATimestampCountsAndComesBack) {
  Timestamp time;
  time.add_batch(8, 80);
  time.add_batch(4, 40);
  time.end_epoch();
  time.add_batch(8, 80);
  EXPECT_EQ(time.get(TimeUnit::batch), Time("3ba"));
  EXPECT_EQ(time.get(TimeUnit::sample), Time("20sp"));
  EXPECT_EQ(time.get(TimeUnit::token), Time("200tok"));
  EXPECT_EQ(time.get(TimeUnit::epoch), Time("1ep"));
  EXPECT_EQ(time.batch_in_epoch, 1);
  EXPECT_EQ(time.sample_in_epoch, 8);
  EXPECT_EQ(time.get_in_iteration(TimeUnit::token), Time("200tok"));
  time.end_iteration();
  EXPECT_EQ(time.get_in_iteration(TimeUnit::epoch), Time("0ep"));
  EXPECT_THROW(static_cast<void>(time.get(TimeUnit::duration)), ValueError);

  Timestamp other;
  other.load_state_dict(time.state_dict());
  EXPECT_EQ(other.state_dict(), time.state_dict());
  for (const std::int64_t count : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    Value bad = time.state_dict();
    bad.set("batch", count);
    EXPECT_THROW(other.load_state_dict(bad), ValueError) << count;
  }
  EXPECT_THROW(other.load_state_dict(Value::Map{}), ValueError);
  EXPECT_EQ(other.state_dict(), time.state_dict());
}

}  // namespace
}  // namespace mezzo::train
