// Thinned series and saved runs: what reports are made of.
#include "mezzo/train/logging/run_history.h"

#include <cmath>
#include <limits>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"

namespace mezzo::train::detail {
namespace {

using mezzo::test::message_of;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The buckets of values at steps 0, 3, 6, ...
std::vector<Bucket> thinned(const std::vector<double>& values) {
  RunHistory history;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<LogScalar> record{{"a", values[i]}};
    history.add({static_cast<std::int64_t>(3 * i), 1, record});
  }
  return history.series.at(0).buckets;
}

TEST(Series, KeepsLeastLargestLastAndSumOfEachBucket) {
  std::mt19937 generator(5);
  std::normal_distribution<double> noise;
  std::vector<double> all;
  for (int i = 0; i < 30'001; ++i)
    all.push_back(i % 1000 == 500 ? kNan : i % 1000 == 501 ? -kInf : noise(generator));
  const std::vector<Bucket> buckets = thinned(all);
  ASSERT_LT(buckets.size(), Series::kCapacity);
  ASSERT_GE(buckets.size(), Series::kCapacity / 2);
  std::size_t at = 0;
  for (const Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.begin, static_cast<std::int64_t>(3 * at));
    double sum = 0, least = kInf, largest = -kInf;
    std::int64_t bad = 0;
    for (std::int64_t i = 0; i < bucket.count; ++i, ++at) {
      const double value = all.at(at);
      if (!std::isfinite(value)) {
        ++bad;
        continue;
      }
      sum += value;
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
    EXPECT_EQ(bucket.end, static_cast<std::int64_t>(3 * (at - 1)));
    EXPECT_EQ(bucket.bad, bad);
    EXPECT_EQ(bucket.last, all[at - 1]);
    EXPECT_EQ(bucket.least, least);
    EXPECT_EQ(bucket.largest, largest);
    EXPECT_NEAR(bucket.sum, sum, 1e-12);
    EXPECT_EQ(bucket.count, &bucket == &buckets.back() ? bucket.count : buckets[0].count);
  }
  EXPECT_EQ(at, all.size()) << "every point is in one bucket";
}

TEST(Series, AFewPointsStayAsTheyAre) {
  const std::vector<Bucket> buckets = thinned(std::vector<double>(Series::kCapacity - 1, 2.5));
  EXPECT_EQ(buckets.size(), Series::kCapacity - 1);
  for (const Bucket& bucket : buckets) EXPECT_EQ(bucket.count, 1);
}

TEST(Series, BucketsWithoutFiniteValuesHaveNone) {
  const std::vector<Bucket> buckets = thinned(std::vector<double>(1000, kInf));
  for (const Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.bad, bucket.count);
    EXPECT_EQ(bucket.sum, 0);
    EXPECT_TRUE(std::isnan(bucket.least) && std::isnan(bucket.largest));
    EXPECT_EQ(bucket.last, kInf);
  }
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
  const Value config = Value::Map{{"a", "</script>"}};
  history.add({steps, 5000, "config", config});
  return history;
}

const Series& series_of(const RunHistory& history, std::string_view name) {
  for (const Series& series : history.series) {
    if (series.name == name) return series;
  }
  throw ValueError("series_of", "a series", std::string(name), "log it");
}

TEST(RunHistory, ComesBackAsItWasSaved) {
  for (const std::int64_t steps : {0, 1, 50, 5000}) {
    const RunHistory history = history_of(steps);
    const std::string saved = history.saved().to_string();
    const RunHistory again = RunHistory::parse(saved, "read");
    EXPECT_EQ(again.saved().to_string(), saved) << steps;
    EXPECT_EQ(again.step, history.step);
    EXPECT_EQ(again.texts, history.texts);
    EXPECT_EQ(again.series.size(), history.series.size());
  }
}

TEST(RunHistory, AGrowingCountMarksSteps) {
  const RunHistory history = history_of(40);
  std::vector<std::int64_t> marked;
  for (const Bucket& bucket : series_of(history, "skipped").buckets)
    if (bucket.largest != 0) marked.push_back(bucket.begin);
  EXPECT_EQ(marked, (std::vector<std::int64_t>{10, 20, 30}));
}

TEST(RunHistory, MarksStepsThatWereSkippedFromTheFirstOn) {
  RunHistory history;
  for (const auto& [step, count] : {std::pair(1, 1), {2, 2}, {3, 2}, {4, 3}}) {
    const std::vector<LogScalar> values{{"steps_skipped", static_cast<double>(count)}};
    history.add({step, 1, values});
  }
  std::vector<double> marks;
  for (const Bucket& bucket : series_of(history, "skipped").buckets) marks.push_back(bucket.last);
  EXPECT_EQ(marks, (std::vector<double>{1, 1, 0, 1}));
}

TEST(RunHistory, RefusesPicturesThatItCannotHaveSaved) {
  const auto parse = [](const std::string& pictures) {
    return RunHistory::parse(
        R"({"mezzo_run":2,"step":1,"started":1,"time":1,"series":{},"texts":{},"pictures":)" + pictures + "}",
        "read");
  };
  const std::string good = R"({"a":[1,"iVBORw0KGgo="],"h":[2,0,-1.5,3,[1,2]]})";
  EXPECT_EQ(parse(good).saved()["pictures"].to_string(), good);
  for (const char* const picture :
       {"1", "[]", "[1]", "[-1,\"AAAA\"]", "[1,\"A'onerror=x\"]", "[1,2]", "[1,0,1,2]", "[1,0,1,2,[\"x\"]]",
        "[1,0,\"x\",2,[]]", "[1.5,\"AAAA\"]", "{\"a\":1}"}) {
    EXPECT_THROW(parse(std::string(R"({"a":)") + picture + "}"), IoError) << picture;
  }
  EXPECT_THROW(parse("[]"), IoError);
  EXPECT_EQ(
      RunHistory::parse(R"({"mezzo_run":2,"step":1,"started":1,"time":1,"series":{},"texts":{}})", "read")
          .pictures.size(),
      0U)
      << "a page of before there were pictures";
}

TEST(RunHistory, GoesOnBehindACheckpoint) {
  RunHistory history = RunHistory::parse(history_of(40).saved().to_string(), "read");
  history.drop_after(14);
  EXPECT_EQ(history.step, 14);
  EXPECT_EQ(series_of(history, "loss").buckets.size(), 15U);
  const std::vector<LogScalar> values{{"steps_skipped", 1}};
  history.add({15, 7000, values});
  EXPECT_EQ(series_of(history, "skipped").buckets.back().last, 0)
      << "no step was skipped since the checkpoint";
  EXPECT_EQ(series_of(history, "skipped").buckets.back().begin, 15);
}

TEST(RunHistory, ABucketWithLaterStepsIsDroppedAsAWhole) {
  RunHistory history = history_of(1000);  // buckets of 4 in the end
  EXPECT_EQ(series_of(history, "loss").buckets[0].count, 4);
  history.drop_after(101);
  EXPECT_EQ(series_of(history, "loss").buckets.back().end, 99);
  history.drop_after(-1);
  EXPECT_TRUE(series_of(history, "loss").buckets.empty());
  EXPECT_EQ(RunHistory::parse(history.saved().to_string(), "read").saved(), history.saved());
}

TEST(RunHistory, RefusesWhatItDidNotWrite) {
  const std::string begin =
      "{\"mezzo_run\":2,\"step\":3,\"started\":1,\"time\":2,\"texts\":{},\"series\":{\"a\":[";
  const std::string end = "]}}";
  EXPECT_EQ(
      RunHistory::parse(begin + "[0,1],[1,\"nan\"],[2,3,4,2,1,0.5,0.5,0.5]" + end, "read").series.size(), 1U);
  const auto refused = [&](const std::string& text) {
    return message_of<IoError>([&] { return RunHistory::parse(text, "read 'x'"); });
  };
  EXPECT_EQ(
      refused(begin + "[1,2],[0,1]" + end),
      "read 'x': expected a report that this class wrote, got bucket \"[0,1]\" behind step 1; give the path "
      "of such a file, or move this one away");
  EXPECT_EQ(
      refused("{\"mezzo_run\":1}"),
      "read 'x': expected a report that this class wrote, got version 1; give the path of such a file, or "
      "move this one away");
  for (const char* const bucket :
       {"[]", "[1]", "[1,2,3]", "[1,\"x\"]", "[-1,2]", "[1.5,2]", "7", "null", "[2,0,1,2,0,0,0,0]",
        "[0,0,1,0,0,0,0,0]", "[0,0,1,2,3,0,0,0]", "[0,0,1,2,-1,0,0,0]", "[0,0,1,2,0,0,0]",
        "[0,0,1,9223372036854775807,0,0,0,0]"})
    static_cast<void>(refused(begin + bucket + end));
  for (const std::string& text :
       {std::string("{}"), std::string("["), begin, begin + "],\"a\":[" + end,
        std::string("{\"mezzo_run\":2,\"step\":1,\"started\":0,\"time\":0,\"series\":{},\"texts\":[]}")})
    static_cast<void>(refused(text));
}

class SavedRuns : public log_test::LogFiles {};

TEST_F(SavedRuns, AreFoundInTheirFile) {
  EXPECT_FALSE(RunHistory::load(path("none")).has_value());
  put(path("empty"), "");
  EXPECT_FALSE(RunHistory::load(path("empty")).has_value());
  const RunHistory history = history_of(9);
  std::string saved = history.saved().to_string();
  for (std::size_t at = saved.find('<'); at != std::string::npos; at = saved.find('<'))
    saved.replace(at, 1, "\\u003c");
  put(path("page"), "<script id=\"mezzo-run\">" + saved + "</script><p>");
  EXPECT_EQ(RunHistory::load(path("page"))->saved(), history.saved());
  put(path("large"), std::string(16'000'001, ' '));
  EXPECT_NE(message_of<IoError>([&] { return RunHistory::load(path("large")); }).find("got 16000001 bytes"),
            std::string::npos);
  EXPECT_THROW(static_cast<void>(RunHistory::load(path("."))), IoError);
}

}  // namespace
}  // namespace mezzo::train::detail
