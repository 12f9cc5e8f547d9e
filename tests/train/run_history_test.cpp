// Thinned series, ticks and saved runs: what plots are made of.
#include "mezzo/train/logging/run_history.h"

#include <cmath>
#include <limits>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train/logging/markup.h"
#include "mezzo/train/logging/ticks.h"

namespace mezzo::train::detail {
namespace {

using mezzo::test::message_of;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(ThinSeries, KeepsFirstLastLeastLargestAndMeanOfEachRun) {
  std::mt19937 generator(5);
  std::normal_distribution<double> noise;
  std::vector<ThinPoint> all;
  ThinSeries series;
  for (std::int64_t i = 0; i < 30'001; ++i) {
    const double value = i % 1000 == 500 ? kNan : i % 1000 == 501 ? -kInf : noise(generator);
    all.push_back({3 * i, value});
    series.add(3 * i, value);
  }
  ASSERT_LE(series.buckets().size(), ThinSeries::kCapacity);
  ASSERT_GE(series.buckets().size(), ThinSeries::kCapacity / 2);
  std::size_t at = 0;
  for (const ThinBucket& bucket : series.buckets()) {
    ThinBucket wanted;
    double sum = 0;
    std::int64_t bad = 0;
    const std::size_t begin = at;
    for (std::int64_t i = 0; i < bucket.count; ++i, ++at) {
      const ThinPoint& point = all.at(at);
      if (!std::isfinite(point.value)) {
        ++bad;
        continue;
      }
      if (i == bad) wanted.first = wanted.least = wanted.largest = point;
      if (point.value < wanted.least.value) wanted.least = point;
      if (point.value > wanted.largest.value) wanted.largest = point;
      wanted.last = point;
      sum += point.value;
    }
    EXPECT_EQ(bucket.begin, all[begin].step);
    EXPECT_EQ(bucket.end, all[at - 1].step);
    EXPECT_EQ(bucket.bad, bad);
    EXPECT_EQ(bucket.first.step, wanted.first.step);
    EXPECT_EQ(bucket.last.value, wanted.last.value);
    EXPECT_EQ(bucket.least.step, wanted.least.step);
    EXPECT_EQ(bucket.largest.step, wanted.largest.step);
    EXPECT_NEAR(bucket.mean, sum / static_cast<double>(bucket.count - bad), 1e-12);
  }
  EXPECT_EQ(at, all.size()) << "every point is in one bucket";
}

TEST(ThinSeries, ABucketWithLaterStepsIsDroppedAsAWhole) {
  ThinSeries series;
  for (std::int64_t step = 0; step < 1000; ++step) series.add(step, 1);  // buckets of 4 in the end
  EXPECT_EQ(series.buckets()[0].count, 4);
  series.drop_after(101);
  EXPECT_EQ(series.buckets().back().end, 99);
  EXPECT_EQ(series.newest().step, 99);
  series.add(102, 5);
  EXPECT_EQ(series.newest().value, 5);
  series.drop_after(-1);
  EXPECT_TRUE(series.empty());
}

TEST(Ticks, AreRoundNumbersInTheRange) {
  EXPECT_EQ(linear_ticks({0, 1}, 5), (std::vector<double>{0, 0.2, 0.4, 0.6, 0.8, 1}));
  EXPECT_EQ(linear_ticks({-0.13, 0.32}, 5), (std::vector<double>{-0.1, 0, 0.1, 0.2, 0.3}));
  EXPECT_EQ(linear_ticks({0, 19000}, 5), (std::vector<double>{0, 5000, 10000, 15000}));
  EXPECT_EQ(linear_ticks({1e-9, 3.2e-9}, 5).size(), 5U);
  EXPECT_TRUE(linear_ticks({1, 1}, 5).empty());
  EXPECT_EQ(log_ticks({0.5, 2e6}, 5), (std::vector<double>{1, 100, 1e4, 1e6}));
  EXPECT_EQ(log_ticks({0.15, 2.5}, 5), (std::vector<double>{0.2, 0.5, 1, 2}));
  EXPECT_EQ(log_ticks({1.1, 1.9}, 5), (std::vector<double>{1.2, 1.4, 1.6, 1.8}));
  for (const double low : {-1e300, -1.0, 0.0, 1e-300, 5.0, 1e300}) {
    for (const double width : {0.0, 1e-310, 1e-9, 1.0, 1e300}) {
      const Range range = padded({low, low + width}, false);
      EXPECT_LT(range.low, range.high);
      EXPECT_LE(linear_ticks(range, 5).size(), 12U);
      EXPECT_GE(linear_ticks(range, 5).size(), 2U) << low << " " << width;
      if (low <= 0) continue;
      const Range log_range = padded({low, low + width}, true);
      EXPECT_LT(log_range.low, log_range.high);
      EXPECT_GE(log_ticks(log_range, 5).size(), 2U) << low << " " << width;
    }
  }
}

TEST(Ticks, AreWrittenShort) {
  const std::pair<double, const char*> texts[] = {{0, "0"},          {0.25, "0.25"},     {-0.1, "-0.1"},
                                                  {1e-5, "1e-5"},    {2.5e-7, "2.5e-7"}, {9999, "9999"},
                                                  {65536, "65.54k"}, {1.5e6, "1.5M"},    {-2e9, "-2G"},
                                                  {3e12, "3T"},      {1e20, "1e20"},     {1e300, "1e300"}};
  for (const auto& [value, text] : texts) EXPECT_EQ(tick_text(value), text);
}

TEST(Markup, NothingInATextEndsIt) {
  EXPECT_EQ(escaped("a<b>&\"'\n\tü"), "a&lt;b&gt;&amp;&quot;&#39;\n\tü");
  EXPECT_EQ(escaped(std::string_view("\0\x1B\x7F\xFF\xC3", 5)), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escaped("\uFFFE"), "\uFFFD") << "no character of XML";
  EXPECT_EQ(json_in_markup("{\"</script>&\":1}"), "{\"\\u003c/script\\u003e\\u0026\":1}");
  std::string out;
  for (const double value : {1.25, -0.04, -0.5, 12.0, 100.06}) {
    append_coordinate(out, value);
    out += ' ';
  }
  EXPECT_EQ(out, "1.3 0 -0.5 12 100.1 ");
  EXPECT_EQ(time_text(1764063092.5), "2025-11-25 09:31:32 UTC");
  EXPECT_EQ(time_text(kNan), "1970-01-01 00:00:00 UTC");
}

RunHistory history_of(std::int64_t steps) {
  RunHistory history;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<LogScalar> values{
        {"loss", step % 100 == 7 ? kNan : 1.0 / static_cast<double>(step + 1)},
        {"steps_skipped", static_cast<double>(step / 10)},
        {"<x> & \"y\"", 1e300}};
    history.add({step, 100.5 + static_cast<double>(step), values});
  }
  history.set_text("config", Value::Map{{"a", "</script>"}}, 5000);
  return history;
}

TEST(RunHistory, ComesBackAsItWasSaved) {
  for (const std::int64_t steps : {0, 1, 50, 5000}) {
    const RunHistory history = history_of(steps);
    const std::string saved = history.saved();
    EXPECT_EQ(saved.find_first_of("<>&"), std::string::npos);
    const RunHistory again = RunHistory::parse(saved, "read");
    EXPECT_EQ(again.saved(), saved) << steps;
    EXPECT_EQ(again.step(), history.step());
    EXPECT_EQ(again.texts(), history.texts());
  }
}

TEST(RunHistory, AGrowingCountMarksSteps) {
  const RunHistory history = history_of(40);
  std::vector<std::int64_t> marked;
  for (const ThinBucket& bucket : history.find("skipped")->points.buckets())
    if (bucket.largest.value != 0) marked.push_back(bucket.begin);
  EXPECT_EQ(marked, (std::vector<std::int64_t>{10, 20, 30}));
}

TEST(RunHistory, GoesOnBehindACheckpoint) {
  RunHistory history = RunHistory::parse(history_of(40).saved(), "read");
  history.drop_after(14);
  EXPECT_EQ(history.step(), 14);
  EXPECT_EQ(history.find("loss")->points.buckets().size(), 15U);
  const std::vector<LogScalar> values{{"steps_skipped", 1}};
  history.add({15, 7000, values});
  EXPECT_EQ(history.find("skipped")->points.newest().value, 0) << "no step was skipped since the checkpoint";
}

TEST(RunHistory, RefusesWhatItDidNotWrite) {
  const std::string begin =
      "{\"mezzo_run\":1,\"step\":3,\"started\":1,\"time\":2,\"series\":[{\"name\":\"a\",\"buckets\":[";
  const std::string end = "]}],\"texts\":[]}";
  EXPECT_EQ(
      RunHistory::parse(begin + "[0,1],[1,2],[2,3,2,0,2,1,3,3,2,1,3,3,2]" + end, "read").series().size(), 1U);
  const auto refused = [&](const std::string& text) {
    return message_of<IoError>([&] { return RunHistory::parse(text, "read 'x'"); });
  };
  EXPECT_EQ(refused(begin + "[1,2],[0,1]" + end),
            "read 'x': expected a plot or report that this class wrote, got steps that go back; give the "
            "path of such "
            "a file, or move this one away");
  for (const char* const bucket :
       {"[]", "[1]", "[1,2,3]", "[1,\"nan\"]", "[-1,2]", "[0,1,2,1]", "[2,1,2,2]", "[0,1,0,0]", "[0,1,2,3]",
        "7", "[0,1,2,0,0,1,1,1,0,1,1,1,\"inf\"]", "[0,1,2,0,0,1,1,1,0,1,2,1,1]",
        "[0,1,2,0,0,1,1,3,0,1,1,2,1]", "[0,1,2,0,0,1,1,1,0,1,1,1,2]",
        "[0,1,9223372036854775807,0,0,1,1,1,0,1,1,1,1]"})
    static_cast<void>(refused(begin + bucket + end));
  for (const std::string& text : {std::string("{}"), std::string("["), begin,
                                  begin + "[0,1]]}],\"texts\":[1]}", std::string("{\"mezzo_run\":2}")})
    static_cast<void>(refused(text));
  std::string many = begin + "[0,1]";
  for (std::size_t i = 0; i < ThinSeries::kCapacity; ++i) many += ",[1,1]";
  EXPECT_NE(refused(many + end).find("401 buckets in \"a\""), std::string::npos);
}

class SavedRuns : public log_test::LogFiles {};

TEST_F(SavedRuns, AreFoundInTheirFile) {
  EXPECT_FALSE(RunHistory::load(path("none")).has_value());
  put(path("empty"), "");
  EXPECT_FALSE(RunHistory::load(path("empty")).has_value());
  put(path("page"), "<script id=\"mezzo-run\">" + history_of(9).saved() + "</script><p>");
  EXPECT_EQ(RunHistory::load(path("page"))->saved(), history_of(9).saved());
  put(path("other"), "<p>my page</p>");
  EXPECT_EQ(message_of<IoError>([&] { return RunHistory::load(path("other")); }),
            "read '" + path("other") +
                "': expected a plot or report that this class wrote, got a file without a saved run; give "
                "the path of "
                "such a file, or move this one away");
}

}  // namespace
}  // namespace mezzo::train::detail
