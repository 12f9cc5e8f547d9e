// Reports: what data a page holds, that nothing in it gets out of its element, its size, and its life in a
// run.
#include "mezzo/train/html_report.h"

#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <map>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"

namespace mezzo::train {
namespace {

constexpr std::string_view kDataBegin = "<script type=\"application/json\" id=\"mezzo-run\">";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++number;
  return number;
}

/// A page as what a browser takes for its data, and the rest.
struct Page {
  explicit Page(const std::string& text) {
    const std::size_t begin = text.find(kDataBegin) + kDataBegin.size(), end = text.find("</script>", begin);
    EXPECT_LT(begin, end);
    data = text.substr(begin, end - begin);
    rest = text.substr(0, begin) + text.substr(end);
    run = io::parse_json(data);
  }
  [[nodiscard]] const Value& series(std::string_view name) const { return run["series"][name]; }
  std::string data, rest;
  Value run;
};

/// Single points as they are saved.
std::string buckets(std::initializer_list<std::pair<int, double>> points) {
  Value list = Value::List{};
  for (const auto& [step, value] : points) list.push_back(Value::list(step, value));
  return list.to_string();
}

class Report : public log_test::LogFiles {
 protected:
  HTMLReportOptions options() {
    return {.title = "a <title>", .clock = [this] { return now_; }};
  }
  [[nodiscard]] Page page(const std::string& name = "report.html") const { return Page(content(path(name))); }
  double now_ = 0;
};

TEST_F(Report, HoldsValuesAndTexts) {
  {
    HTMLReportOptions with_scale = options();
    with_scale.log_scale = {"grad_norm"};
    Logger logger({HTMLReport(path("report.html"), with_scale)}, at_time(1764063092));
    logger.text("config", Value::Map{{"lr", 0.1}, {"model", Value::Map{{"layers", 6}}}});
    logger.text("log", "first\nsecond & last");
    logger.text("log", "third");
    logger.text("table",
                Value::list(Value::Map{{"layer", "fc"}, {"dtype", "bf16"}}, Value::Map{{"dtype", 1}}));
    for (int step = 1; step <= 6; ++step) {
      logger.log(step, {{"grad_norm", step == 5 ? std::nan("") : 1.5},
                        {"loss", 2.0 / step},
                        {"scale", step == 4 ? -std::numeric_limits<double>::infinity() : 65536},
                        {"steps_skipped", step / 3}});
    }
    logger.log(6, {{"val_loss", 0.25}});
  }
  const Value run = page().run;
  EXPECT_EQ(run["title"], Value("a <title>"));
  EXPECT_EQ(run["step"], Value(6));
  EXPECT_EQ(run["started"], Value(1764063092.0));
  EXPECT_EQ(run["time"], Value(1764063092.0));
  EXPECT_EQ(run["ended"], Value(true));
  EXPECT_EQ(run["log_scale"], Value::list("grad_norm"));
  std::string names;
  for (const auto& [name, values] : run["series"].as_map()) names += name + " ";
  EXPECT_EQ(names, "grad_norm loss scale steps_skipped skipped val_loss ");
  EXPECT_EQ(run["series"]["loss"].to_string(),
            buckets({{1, 2}, {2, 1}, {3, 2.0 / 3}, {4, 0.5}, {5, 0.4}, {6, 2.0 / 6}}));
  EXPECT_EQ(run["series"]["val_loss"].to_string(), buckets({{6, 0.25}}));
  EXPECT_EQ(run["series"]["skipped"].to_string(), buckets({{1, 0}, {2, 0}, {3, 1}, {4, 0}, {5, 0}, {6, 1}}));
  EXPECT_EQ(run["series"]["grad_norm"][4], Value::list(5, "nan"));
  EXPECT_EQ(run["series"]["scale"][3], Value::list(4, "-inf"));
  EXPECT_EQ(run["texts"].to_string(),
            "{\"config\":[[],[\"lr\",\"0.1\"],[\"model.layers\",\"6\"]],\"log\":\"third\","
            "\"table\":[[\"layer\",\"dtype\"],[\"fc\",\"bf16\"],[\"\",\"1\"]]}");
}

TEST_F(Report, NoTextOfARunGetsOutOfItsData) {
  const std::vector<std::string> hostile{"</script><script>alert(1)</script>",
                                         "<!--<script>",
                                         "\"'&\\",
                                         "]]>",
                                         "<img src=x onerror=y>",
                                         "\xFF\x01\x1B\n\xE2\x80\xA8",
                                         "__proto__",
                                         "id=\"mezzo-run\">{}<",
                                         ""};
  const std::string plain = Page(HTMLReport(path("plain.html")).html()).rest;
  for (const std::string& text : hostile) {
    HTMLReport report(path("report.html"), {.title = text, .log_scale = {text}});
    const std::vector<LogScalar> values{{text, 1}};
    report.write({1, 1, values});
    report.write_text({1, 1, text, Value(Value::Map{{text, text}})});
    const Page page(report.html());
    EXPECT_EQ(page.rest, plain) << "all of a run is in its data";
    EXPECT_EQ(page.data.find('<'), std::string::npos);
    // What is no UTF-8 is not kept.
    const std::string kept = text[0] == '\xFF' ? "\uFFFD" + text.substr(1) : text;
    EXPECT_EQ(page.run["title"], Value(kept));
    EXPECT_EQ(page.run["log_scale"][0], Value(kept));
    EXPECT_EQ(page.series(kept).to_string(), buckets({{1, 1}}));
    EXPECT_EQ(page.run["texts"][kept], Value::list(Value::List{}, Value::list(kept, kept)));
    HTMLReport again(path("report.html"));
    again.resume(1);
    EXPECT_EQ(Page(again.html()).series(kept), page.series(kept)) << "and read back";
  }
}

TEST_F(Report, LoadsNothingAndSaysWhenItsScriptDoesNotRun) {
  const std::string page = HTMLReport(path("report.html")).html();
  EXPECT_EQ(count(page, "<script"), 2U) << "data and what shows it";
  EXPECT_EQ(count(page, "<noscript>"), 1U);
  EXPECT_EQ(count(page, "Content-Security-Policy\" content=\"default-src 'unsafe-inline'; img-src data:\""),
            1U);
  EXPECT_EQ(count(page, "http"), 2U) << "http-equiv, and the name of SVG";
  EXPECT_EQ(count(page, "http://www.w3.org/2000/svg"), 1U);
  EXPECT_EQ(count(page, "url(") + count(page, "import") + count(page, "fetch") + count(page, "src="), 0U);
  EXPECT_EQ(count(page, "innerHTML") + count(page, "eval(") + count(page, "document.write"), 0U)
      << "texts become text";
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

TEST_F(Report, AnEmptyRunHasAPageButNoFile) {
  {
    Logger logger({HTMLReport(path("report.html"), options())});
    logger.close();
  }
  EXPECT_FALSE(std::filesystem::exists(path("report.html")));
  const Page page(HTMLReport(path("report.html"), options()).html());
  EXPECT_EQ(page.run["series"], Value(Value::Map{}));
  EXPECT_EQ(page.run["texts"], Value(Value::Map{}));
  EXPECT_EQ(page.run["started"], Value(0.0));
  EXPECT_EQ(page.run["ended"], Value(false));
}

TEST_F(Report, IsRewrittenNowAndThenAndAtTheEnd) {
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(5));
    logger.log(1, {{"a", 1}});
    const std::string first = content(path("report.html"));
    EXPECT_EQ(page().run["step"], Value(1));
    EXPECT_EQ(page().run["started"], Value(5.0));
    EXPECT_EQ(page().run["refresh"], Value(10.0)) << "the browser loads it again";
    now_ = 9;
    logger.log(2, {{"a", 1}});
    EXPECT_EQ(content(path("report.html")), first);
    now_ = 10;
    logger.log(3, {{"a", 1}});
    EXPECT_EQ(page().run["step"], Value(3));
    EXPECT_EQ(page().run["ended"], Value(false));
    logger.log(4, {{"a", 1}});
  }
  EXPECT_EQ(page().run["step"], Value(4));
  EXPECT_EQ(page().run["ended"], Value(true));
  EXPECT_EQ(page().run["refresh"], Value(0.0)) << "nothing more will come";
  for (const auto& [seconds, wanted] : {std::pair(0.0, 10.0), {60.0, 60.0}, {1e9, 86400.0}}) {
    EXPECT_EQ(Page(HTMLReport(path("a.html"), {.seconds = seconds}).html()).run["refresh"], Value(wanted));
  }
  EXPECT_EQ(Page(HTMLReport(path("a.html"), {.refresh = false}).html()).run["refresh"], Value(0.0));
}

std::string from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0, count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6U | static_cast<std::uint32_t>(kDigits.find(c));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFFU);
  }
  return bytes;
}

TEST_F(Report, HoldsTheNewestImageOfEachName) {
  if (!data::have_png()) GTEST_SKIP() << "a build without libpng";
  Tensor newest;
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(5));
    for (std::int64_t width = 1; width <= 9; ++width) {  // files of all lengths modulo 3
      newest = (arange(3 * width) * 5).reshape({3, 1, width}).to(DType::u8);
      logger.image(width, "odd", newest);
      logger.image(width, "w" + std::to_string(width), newest);
    }
  }
  const Value run = page().run;
  EXPECT_EQ(run["pictures"]["odd"][0], Value(9));
  for (std::int64_t width = 1; width <= 9; ++width) {
    const std::string png = from_base64(run["pictures"]["w" + std::to_string(width)][1].as_string());
    const Tensor wanted = (arange(3 * width) * 5).reshape({3, 1, width}).to(DType::u8);
    EXPECT_TRUE(equal(data::decode_image(std::as_bytes(std::span(png))), wanted)) << width;
  }
  Logger logger({HTMLReport(path("report.html"), options())}, at_time(6));
  logger.resume(4);
  logger.histogram(5, "h", ones({2}));
  logger.close();
  std::string names;
  for (const auto& [name, picture] : page().run["pictures"].as_map()) names += name + " ";
  EXPECT_EQ(names, "w1 w2 w3 w4 h ") << "none of later steps";
}

TEST_F(Report, HoldsTheNewestHistogramOfEachName) {
  const double inf = std::numeric_limits<double>::infinity();
  HTMLReport report(path("report.html"), options());
  const auto add = [&](std::string_view name, const std::vector<double>& values) {
    report.write_histogram({4, 1, name, values});
  };
  add("a", {9, 9});
  add("a", {0, 0.5, 1, 29.5, 30, inf, 15, std::nan("")});
  add("same", {2, 2, 2});
  add("wide", {-1.5e308, 1.5e308});
  add("none", {inf});
  add("empty", {});
  const auto counts = [](const std::map<int, int>& some) {
    std::vector<int> all(30);
    for (const auto& [place, count] : some) all.at(static_cast<std::size_t>(place)) = count;
    return Value(all);
  };
  const Value pictures = Page(report.html()).run["pictures"];
  // Parts of length 1: 0 and 0.5 in the first, the largest element in the last.
  EXPECT_EQ(pictures["a"].to_string(),
            Value::list(4, 2, 0.0, 30.0, counts({{0, 2}, {1, 1}, {15, 1}, {29, 2}})).to_string());
  EXPECT_EQ(pictures["same"].to_string(), Value::list(4, 0, 2.0, 2.0, counts({{0, 3}})).to_string());
  EXPECT_EQ(pictures["wide"][4], counts({{0, 1}, {29, 1}}));
  EXPECT_EQ(pictures["none"].to_string(), "[4,1,0.0,0.0,[]]");
  EXPECT_EQ(pictures["empty"].to_string(), "[4,0,0.0,0.0,[]]");
}

TEST_F(Report, ImagesBeyondEightMegabytesAreLeftOut) {
  mezzo::test::CaughtWarnings warnings;
  HTMLReport report(path("report.html"), {.seconds = 1e9});
  const std::string png(2'999'997, 'x');  // 3,999,996 characters of base64
  for (const char* name : {"a", "b", "c", "d"}) report.write_image({1, 1, name, 1, 1, 1, png});
  report.write_image({2, 1, "a", 1, 1, 1, png});  // in the place of its first one
  const Value pictures = Page(report.html()).run["pictures"];
  EXPECT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures["a"][0], Value(2));
  EXPECT_EQ(warnings.texts(),
            std::vector<std::string>{
                "HTMLReport: expected images of at most 8 MB together, got more, so \"c\" is left "
                "out; log fewer names or smaller images"});
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
  EXPECT_EQ(page().series("a").to_string(), buckets({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 50}}));
  EXPECT_EQ(page().run["texts"].to_string(), "{\"config\":[[],[\"lr\",\"0.1\"]]}");
  EXPECT_EQ(page().run["started"], Value(5.0));
  EXPECT_EQ(page().run["time"], Value(6.0));
  EXPECT_FALSE(std::filesystem::exists(path("report.html.bak")));
  const std::string old = content(path("report.html"));
  {
    Logger logger({HTMLReport(path("report.html"), options())}, at_time(6));
    logger.log(1, {{"a", 1}});
  }
  EXPECT_EQ(content(path("report.html.bak")), old) << "a run that does not resume keeps the old page beside";
}

TEST_F(Report, AMillionPointsStayBelowAMegabyte) {
  HTMLReport report(path("report.html"), {.seconds = 1e9});
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("series_" + std::to_string(i));
  std::vector<LogScalar> values;
  for (const std::string& name : names) values.push_back({name, 0});
  std::uint32_t state = 1;
  const auto random = [&] { return static_cast<double>(state = state * 1664525U + 1013904223U) / 7e13; };
  for (std::int64_t step = 0; step < 1'000'000; ++step) {
    values[0].value = random();
    report.write({step, 1, std::span(values).first(step % 500 == 0 ? 0 : 1)});
    if (step % 500 != 0) continue;
    for (LogScalar& value : values) value.value = -random();
    report.write({step, 1, values});
  }
  const std::string text = report.html();
  EXPECT_LT(text.size(), 1'000'000U);
  const Page page(text);
  std::int64_t points = 0;
  for (const Value& bucket : page.series("series_0").as_list()) points += bucket[3].as_int();
  EXPECT_EQ(points, 1'000'000) << "each is in a bucket";
}

/// A run that was killed at any time leaves a page that can be read, whole.
TEST_F(Report, AKilledRunLeavesAWholePage) {
  for (int i = 0; i < 12; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    const auto run_until_killed = [&]() noexcept {
      HTMLReport report(path("report.html"), {.seconds = 0});
      const std::vector<LogScalar> values{{"a", 1}};
      if (i > 0) report.resume(1'000'000'000);
      for (std::int64_t step = 1'000'000 * i;; ++step) report.write({step, 1, values});
    };
    if (child == 0) run_until_killed();
    const auto is_there = [&] { return std::filesystem::exists(path("report.html")); };
    for (int wait = 0; !is_there() && wait < 10'000; ++wait) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(3000 + 997 * i));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ASSERT_TRUE(is_there());
    EXPECT_TRUE(content(path("report.html")).ends_with("</html>\n"));
    EXPECT_GT(page().series("a").size(), 0U);
  }
}

TEST_F(Report, PathsThatCannotBeWrittenAreRefusedAtOnce) {
  EXPECT_EQ(mezzo::test::message_of<IoError>([&] { return HTMLReport(path("no/report.html")), 0; }),
            "write '" + path("no/report.html") +
                "': expected a folder that can be written, got No such file or directory; create it or check "
                "permissions");
  const HTMLReport report(path("report.html"));
  EXPECT_FALSE(std::filesystem::exists(path("report.html")))
      << "nothing is written before there is something";
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
  EXPECT_EQ(page("folder/report.html").run["ended"], Value(true));
}

TEST_F(Report, AnotherFileIsKeptAndNotResumed) {
  put(path("page.html"), "<p>my page</p>");
  HTMLReport report(path("page.html"));
  EXPECT_EQ(
      mezzo::test::message_of<IoError>([&] { return report.resume(1), 0; }),
      "read '" + path("page.html") +
          "': expected a report that this class wrote, got a file without a saved run; give the path of "
          "such a file, or move this one away");
  EXPECT_EQ(content(path("page.html")), "<p>my page</p>");
  std::filesystem::create_directories(path("page.html.bak/x"));
  const std::vector<LogScalar> values{{"a", 1}};
  EXPECT_THROW(report.write({1, 1, values}), IoError) << "where it cannot be renamed it is not written over";
  EXPECT_EQ(content(path("page.html")), "<p>my page</p>");
}

}  // namespace
}  // namespace mezzo::train
