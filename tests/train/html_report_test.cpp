// Reports and plots: what a page shows, that nothing in it is a script, its size, and its life in a run.
#include "mezzo/train/html_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train/logging/chart.h"
#include "mezzo/train/logging/report_charts.h"
#include "mezzo/train/svg_plot.h"

namespace mezzo::train {
namespace {

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++number;
  return number;
}

/// Whether each element that is opened is closed, in order: a page and a picture are XML as far as that goes.
::testing::AssertionResult is_nested(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return ::testing::AssertionFailure() << "a tag without an end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag.back() == '/' || tag[0] == '!' || name == "meta" || name == "wbr") continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != tag) {
      return ::testing::AssertionFailure() << tag << " closes " << (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  if (open.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << open.back() << " is not closed";
}

class Report : public log_test::LogFiles {
 protected:
  HTMLReportOptions options() {
    return {.title = "a <title>", .clock = [this] { return now_; }};
  }
  double now_ = 0;
};

TEST_F(Report, ShowsValuesChartsAndTexts) {
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(1764063092));
    logger.text("config", Value::Map{{"lr", 0.1}, {"note", "<script>alert(1)</script>"}});
    logger.text("log", "first\nsecond & last");
    logger.text("table", Value::list(Value::Map{{"layer", "fc"}, {"dtype", "bf16"}}));
    for (int step = 1; step <= 20; ++step) {
      logger.log(step, {{"grad_norm", step == 5 ? std::nan("") : 1.5},
                        {"loss", 2.0 / step},
                        {"loss_scale", 65536},
                        {"steps_skipped", step / 6},
                        {"memory", 1.5e9}});
    }
    logger.log(20, {{"val_loss", 0.25}});
  }
  const std::string page = content(path("report.html"));
  EXPECT_TRUE(is_nested(page));
  EXPECT_NE(page.find("<h1>a &lt;title&gt;</h1>"), std::string::npos);
  EXPECT_NE(page.find("Step 20 · 0:00 since 2025-11-25 09:31:32 UTC · ended"), std::string::npos);
  EXPECT_EQ(count(page, "<svg"), 4U) << "loss and val_loss share one";
  EXPECT_LT(page.find(">loss</text>"), page.find(">loss_scale</text>"));
  EXPECT_LT(page.find(">loss_scale</text>"), page.find(">grad_norm</text>"));
  EXPECT_EQ(count(page, "<path class=\"k\""), 4U) << "three skipped steps, and the legend";
  EXPECT_EQ(count(page, "<path class=\"n\""), 2U) << "a NaN, and the legend";
  EXPECT_NE(page.find("<b>1.5 GB</b><span>memory</span>"), std::string::npos);
  EXPECT_NE(page.find("<b>65,536</b><span>loss_<wbr>scale</span>"), std::string::npos);
  EXPECT_NE(page.find("<b>3</b><span>steps_<wbr>skipped</span>"), std::string::npos);
  EXPECT_NE(page.find("<td>note</td><td>&lt;script&gt;alert(1)&lt;/script&gt;</td>"), std::string::npos);
  EXPECT_NE(page.find("<pre>first\nsecond &amp; last</pre>"), std::string::npos);
  EXPECT_NE(page.find("<tr><th>layer</th><th>dtype</th></tr>\n<tr><td>fc</td><td>bf16</td></tr>"),
            std::string::npos);
}

TEST_F(Report, HoldsNoScriptAndNothingFromElsewhere) {
  HTMLReport report(path("report.html"), options());
  const std::vector<LogScalar> values{{"<script>\"'&", 1}};
  report.write({1, 1, values});
  report.write_text(
      {1, 1, "</script><script>", Value(Value::Map{{"<img src=x onerror=y>", "</script>\xFF"}})});
  const std::string page = report.html();
  EXPECT_TRUE(is_nested(page));
  EXPECT_EQ(count(page, "<script"), 1U);
  EXPECT_EQ(count(page, "<script type=\"application/json\" id=\"mezzo-run\">"), 1U);
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(count(page, "http"), 2U) << "two http-equiv, no address";
  EXPECT_EQ(count(page, "http-equiv"), 2U);
  EXPECT_EQ(count(page, "url("), 0U);
}

TEST_F(Report, IsRewrittenNowAndThenAndAtTheEnd) {
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(5));
    logger.log(1, {{"a", 1}});
    const std::string first = content(path("report.html"));
    EXPECT_NE(first.find("Step 1 "), std::string::npos);
    EXPECT_NE(first.find("<meta http-equiv=\"refresh\" content=\"10\">"), std::string::npos);
    now_ = 9;
    logger.log(2, {{"a", 1}});
    EXPECT_EQ(content(path("report.html")), first);
    now_ = 10;
    logger.log(3, {{"a", 1}});
    EXPECT_NE(content(path("report.html")).find("Step 3 "), std::string::npos);
    logger.log(4, {{"a", 1}});
  }
  const std::string last = content(path("report.html"));
  EXPECT_NE(last.find("Step 4 "), std::string::npos);
  EXPECT_EQ(last.find("http-equiv=\"refresh\""), std::string::npos) << "nothing more will come";
}

TEST_F(Report, AResumedRunGoesOnInThePage) {
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(5));
    logger.text("config", Value::Map{{"lr", 0.1}});
    for (int step = 1; step <= 9; ++step) logger.log(step, {{"a", step}});
  }
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(6));
    logger.resume(4);
    logger.log(5, {{"a", 50}});
  }
  const std::string page = content(path("report.html"));
  EXPECT_NE(page.find("{\"name\":\"a\",\"buckets\":[[1,1],[2,2],[3,3],[4,4],[5,50]]}"), std::string::npos);
  EXPECT_NE(page.find("<td>lr</td><td>0.1</td>"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("report.html.bak")));
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(6));
    logger.log(1, {{"a", 1}});
  }
  EXPECT_EQ(content(path("report.html.bak")), page) << "a run that does not resume keeps the old page beside";
}

TEST_F(Report, AMillionPointsStayBelowAMegabyte) {
  HTMLReport report(path("report.html"), {.seconds = 1e9});
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("series_" + std::to_string(i));
  std::vector<LogScalar> values;
  for (const std::string& name : names) values.push_back({name, 0});
  std::uint32_t state = 1;
  for (std::int64_t step = 0; step < 1'000'000; ++step) {
    state = state * 1664525U + 1013904223U;
    values[0].value = static_cast<double>(state);
    report.write({step, 1, std::span(values).first(1)});
    if (step % 500 != 0) continue;
    for (LogScalar& value : values)
      value.value = static_cast<double>(state = state * 1664525U + 1013904223U) / 7;
    report.write({step, 1, values});
  }
  EXPECT_LT(report.html().size(), 1'000'000U);
}

TEST_F(Report, PathsThatCannotBeWrittenAreRefusedAtOnce) {
  EXPECT_EQ(mezzo::test::message_of<IoError>([&] { return HTMLReport(path("no/report.html")), 0; }),
            "write '" + path("no/report.html") +
                "': expected a folder that can be written, got No such file or directory; create it or check "
                "permissions");
  EXPECT_THROW(SvgPlot(path("no/plot.svg")), IoError);
  EXPECT_EQ(mezzo::test::message_of<ValueError>([&] { return SvgPlot(path("a.svg"), {.width = 10}), 0; }),
            "SvgPlot: expected a width and a height of 200 to 4000, got 10 and 400; the picture can be shown "
            "in any "
            "size");
  EXPECT_FALSE(std::filesystem::exists(path("a.svg"))) << "nothing is written before there is something";
}

TEST_F(Report, APageThatCannotBeWrittenIsAWarningAndTriedAgain) {
  mezzo::test::CaughtWarnings warnings;
  std::filesystem::create_directories(path("folder"));
  Logger logger({HTMLReport(path("folder/report.html"), options())});
  std::filesystem::remove_all(path("folder"));
  logger.log(1, {{"a", 1}});
  EXPECT_EQ(warnings.texts().size(), 1U);
  std::filesystem::create_directories(path("folder"));
  now_ = 5;
  logger.log(2, {{"a", 1}});
  EXPECT_FALSE(std::filesystem::exists(path("folder/report.html"))) << "not before its time";
  now_ = 20;
  logger.log(3, {{"a", 1}});
  EXPECT_TRUE(std::filesystem::exists(path("folder/report.html")));
  std::filesystem::remove_all(path("folder"));
  logger.close();
  std::filesystem::create_directories(path("folder"));
  logger.close();
  EXPECT_NE(content(path("folder/report.html")).find("ended"), std::string::npos);
}

TEST_F(Report, APlotHasTheChosenSeries) {
  {
    Logger logger({SvgPlot(path("loss.svg"), {.series = {"loss", "val_loss"}, .log_scale = true})},
                  at_time(5));
    for (int step = 1; step <= 10; ++step) logger.log(step, {{"loss", 1.0 / step}, {"lr", 0.1}});
    logger.log(10, {{"val_loss", 0}});  // has no place on a log scale
  }
  const std::string first = content(path("loss.svg"));
  EXPECT_TRUE(is_nested(first));
  EXPECT_NE(first.find(">loss, val_loss</text>"), std::string::npos);
  EXPECT_EQ(count(first, "\"lr\""), 0U);
  {
    Logger logger({SvgPlot(path("loss.svg"), {.series = {"loss"}})}, at_time(6));
    logger.resume(3);
    logger.log(4, {{"loss", 9}});
  }
  EXPECT_NE(content(path("loss.svg")).find("\"buckets\":[[1,1],[2,0.5],[3,0.33333334],[4,9]]"),
            std::string::npos);
}

TEST(Charts, ValuesOfOneNameShareAChart) {
  const std::pair<const char*, const char*> names[] = {{"loss", "loss"},
                                                       {"val_loss", "loss"},
                                                       {"train/loss", "loss"},
                                                       {"val/loss", "loss"},
                                                       {"loss/val", "loss"},
                                                       {"loss_test", "loss"},
                                                       {"gan/d_loss", "gan/d_loss"},
                                                       {"val", "val"},
                                                       {"valid/a/loss", "a/loss"},
                                                       {"evaluation", "evaluation"},
                                                       {"eval_top_5", "top_5"},
                                                       {"/", "/"}};
  for (const auto& [series, chart] : names) EXPECT_EQ(detail::chart_name(series), chart);
}

/// The numbers of the path with these classes, or none.
std::vector<double> path_numbers(const std::string& svg, const std::string& classes) {
  const std::string begin = "<path class=\"" + classes + "\" d=\"M";
  const std::size_t at = svg.find(begin);
  std::vector<double> numbers;
  if (at == std::string::npos) return numbers;
  std::string text = svg.substr(at + begin.size(), svg.find('"', at + begin.size()) - at - begin.size());
  for (char& c : text) c = c == 'L' ? ' ' : c;
  std::istringstream in(text);
  for (double number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

TEST(Charts, LinesAreWhereTheValuesAre) {
  detail::ThinSeries series;
  series.add(0, 0);
  series.add(50, 10);
  series.add(100, 5);
  const std::string svg = detail::chart_svg({.title = "x", .lines = {{"x", &series}}}, false);
  const std::vector<double> at = path_numbers(svg, "l l0");
  ASSERT_EQ(at.size(), 6U);
  EXPECT_NEAR(at[2], (at[0] + at[4]) / 2, 0.1) << "step 50 is in the middle";
  EXPECT_NEAR(at[5], (at[1] + at[3]) / 2, 0.1) << "5 is in the middle of 0 and 10";
  EXPECT_GT(at[1], at[3]) << "SVG counts downwards";
  EXPECT_EQ(at[4], 386) << "the last step is at the right edge";
  EXPECT_NE(svg.find(">10</text>"), std::string::npos) << "a tick";
}

TEST(Charts, AThinnedLineGoesOnFromStepToStepAndHasItsExtremes) {
  detail::ThinSeries series;
  for (std::int64_t step = 0; step < 100'000; ++step)
    series.add(step, step == 33'333   ? -5
                     : step == 33'334 ? 15
                                      : static_cast<double>(step * 7919 % 1000) / 100);
  const std::string svg = detail::chart_svg({.title = "x", .lines = {{"x", &series}}}, false);
  const std::vector<double> at = path_numbers(svg, "l l0 r");
  ASSERT_GT(at.size(), 1000U);
  double least = at[1], largest = at[1];
  for (std::size_t i = 2; i < at.size(); i += 2) {
    ASSERT_GE(at[i], at[i - 2]) << "back at point " << i / 2;
    least = std::min(least, at[i + 1]);
    largest = std::max(largest, at[i + 1]);
  }
  // 20 units are from -5 to 15, and 5 % of room above and below.
  EXPECT_NEAR((largest - least) / (226 - 34), 20.0 / 22, 0.01);
  const std::vector<double> means = path_numbers(svg, "l l0");
  EXPECT_EQ(means.size(), 2 * series.buckets().size());
}

TEST(Charts, ALogScaleHasEqualFactorsAtEqualDistances) {
  detail::ThinSeries series;
  for (std::int64_t step = 0; step < 3; ++step) series.add(step, std::pow(100.0, static_cast<double>(step)));
  series.add(3, -1);
  const std::string svg =
      detail::chart_svg({.title = "x", .lines = {{"x", &series}}, .log_scale = true}, false);
  const std::vector<double> at = path_numbers(svg, "l l0");
  ASSERT_EQ(at.size(), 6U);
  EXPECT_NEAR(at[1] - at[3], at[3] - at[5], 0.11);
  EXPECT_EQ(count(svg, ">1</text>") + count(svg, ">100</text>") + count(svg, ">10k</text>"), 4U)
      << "three ticks of values, and step 1";
}

TEST(Charts, OddSeriesAreDrawnWithoutNonsense) {
  const double inf = std::numeric_limits<double>::infinity(), large = std::numeric_limits<double>::max();
  const std::vector<std::vector<double>> cases{
      {},       {1},        {0, 0}, {5, 5, 5}, {large, -large}, {inf, -inf}, {std::nan("")}, {1e-308, 1e308},
      {-1, -2}, {5e-324, 0}};
  for (const std::vector<double>& values : cases) {
    for (const bool log_scale : {false, true}) {
      detail::ThinSeries series;
      std::int64_t step = 0;
      for (const double value : values) series.add(step += 1'000'000'000'000, value);
      const std::string svg = detail::chart_svg(
          {.title = "", .lines = {{"a", &series}, {"b", &series}}, .log_scale = log_scale, .marks = &series},
          true);
      EXPECT_TRUE(is_nested(svg));
      EXPECT_EQ(count(svg, "nan") + count(svg, "inf\"") + count(svg, "-9223372036854775808"), 0U)
          << ::testing::PrintToString(values);
    }
  }
}

}  // namespace
}  // namespace mezzo::train
