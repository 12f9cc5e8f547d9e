// The progress bar: its line in every width, when it is drawn, and what goes into pipes.
#include "mezzo/train/progress_bar.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <limits>

#include "mezzo/core/backend.h"
#include "mezzo/core/text/text_table.h"
#include "mezzo/ops/factory.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train/logging/progress_line.h"

namespace mezzo::train {
namespace {

using detail::progress_line;

std::size_t columns_of(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

TEST(ProgressLine, HasWhatThereIsRoomFor) {
  const detail::Progress progress{420, 1000, 12.3, 34, "steps", {{"loss", 0.12345678}, {"lr", 1e-3}}};
  EXPECT_EQ(progress_line(progress, {.columns = 90}),
            " 42% ━━━━━━━━━━━╸──────────────── 420/1000  12.3 steps/s  0:34<0:47  loss 0.1235  lr 0.001");
  EXPECT_EQ(progress_line(progress, {.columns = 90, .unicode = false}),
            " 42% [==========>               ] 420/1000  12.3 steps/s  0:34<0:47  loss 0.1235  lr 0.001");
  EXPECT_EQ(progress_line(progress, {.columns = 60}),
            " 42% ━━━───── 420/1000  12.3 steps/s  0:34<0:47  loss 0.1235");
  EXPECT_EQ(progress_line(progress, {.columns = 40}), " 42%  420/1000  12.3 steps/s  0:34<0:47");
  EXPECT_EQ(progress_line(progress, {.columns = 15}), " 42%  420/1000");
  EXPECT_EQ(progress_line(progress, {.columns = 1000, .bar = false}),
            " 42%  420/1000  12.3 steps/s  0:34<0:47  loss 0.1235  lr 0.001");
  for (int columns = 14; columns < 200; ++columns) {
    EXPECT_LE(columns_of(progress_line(progress, {.columns = columns})), static_cast<std::size_t>(columns));
    EXPECT_LE(columns_of(progress_line(progress, {.columns = columns, .unicode = false})),
              static_cast<std::size_t>(columns));
  }
}

TEST(ProgressLine, WithoutATotalThereIsNoBar) {
  EXPECT_EQ(progress_line({7, 0, std::nan(""), 3700, "batches", {{"loss", std::nan("")}}}, {}),
            "7 batches  1:01:40  loss nan");
  EXPECT_EQ(progress_line({7, 0, 0.25, 28, "steps", {}}, {}), "7 steps  4 s/steps  0:28");
}

TEST(ProgressLine, EndsAndOddNumbers) {
  const double inf = std::numeric_limits<double>::infinity();
  const detail::ProgressStyle plain{.bar = false};
  EXPECT_EQ(progress_line({0, 10, std::nan(""), 0, "steps", {}}, plain), "  0%  0/10  0:00<?");
  EXPECT_EQ(progress_line({10, 10, 5, 2, "steps", {{"scale", 65536}, {"a", -inf}}}, plain),
            "100%  10/10  5 steps/s  0:02<0:00  scale 65536  a -inf");
  EXPECT_EQ(progress_line({12, 10, 5, 2, "steps", {}}, plain), "100%  12/10  5 steps/s  0:02<0:00");
  EXPECT_EQ(progress_line({1, 10, 1e-12, 2, "steps", {}}, plain),
            " 10%  1/10  1T s/steps  0:02<277777:46:40");
  EXPECT_NE(progress_line({1, 2, 1, 1, "steps", {{"loss", std::nan("")}}}, {.colour = true})
                .find("\x1b[31mnan\x1b[0m"),
            std::string::npos);
  EXPECT_EQ(detail::short_number(65536), "65536");
  EXPECT_EQ(detail::short_number(19'006'464), "19.01M");
  EXPECT_EQ(detail::short_number(1.5e-7), "1.5e-07");
  EXPECT_EQ(detail::short_number(12345.678), "12.35k");
}

TEST(TickText, IsShort) {
  const std::pair<double, const char*> texts[] = {
      {0, "0"},       {0.25, "0.25"},    {-0.1, "-0.1"},   {1e-5, "1e-5"},   {2.5e-7, "2.5e-7"},
      {9999, "9999"}, {65536, "65.54k"}, {1.5e6, "1.5M"},  {-2e9, "-2G"},    {3e12, "3T"},
      {1e20, "1e20"}, {1e300, "1e300"},  {1e-10, "1e-10"}, {9.9e14, "990T"}, {-1e-300, "-1e-300"}};
  for (const auto& [value, text] : texts) EXPECT_EQ(tick_text(value), text);
}

/// A pipe that the bar writes to.
class Bar : public ::testing::Test {
 protected:
  Bar() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    out_ = ends[0];
    in_ = ends[1];
    ::fcntl(out_, F_SETFL, O_NONBLOCK);
  }
  ~Bar() override {
    ::close(in_);
    ::close(out_);
  }
  /// What was written since the last call.
  std::string written() const {
    std::array<char, 65536> text{};
    const ssize_t size = ::read(out_, text.data(), text.size());
    return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }
  ProgressBarOptions options(std::int64_t total) {
    return {
        .total = total, .descriptor = in_, .unicode = false, .columns = 41, .clock = [this] { return now_; }};
  }
  double now_ = 0;

 private:
  int out_ = -1, in_ = -1;
};

TEST_F(Bar, IsDrawnTenTimesASecondAndReadsNothingBetween) {
  ProgressBarOptions terminal = options(1000);
  terminal.terminal = true;
  terminal.seconds = 0;  // less than there may be
  Logger logger({ProgressBar(terminal)});
  const std::uint64_t reads = host_reads();
  int lines = 0;
  for (int step = 1; step <= 500; ++step) {
    now_ += 0.01;
    logger.log(step, {{"loss", tensor(0.5)}});
    lines += written().empty() ? 0 : 1;
  }
  EXPECT_GE(lines, 45);
  EXPECT_LE(lines, 51);
  EXPECT_EQ(host_reads() - reads, static_cast<std::uint64_t>(lines));
  now_ += 0.01;
  logger.log(1000, {{"loss", tensor(0.5)}});
  EXPECT_NE(written().find("100%  1000/1000"), std::string::npos) << "the end is always drawn";
  logger.log(1000, {{"val", 1}});
  EXPECT_EQ(written(), "") << "once";
}

TEST_F(Bar, TheLineIsRedrawnInPlace) {
  ProgressBarOptions terminal = options(10);
  terminal.terminal = true;
  {
    Logger logger({ProgressBar(terminal)});
    logger.log(1, {{"loss", 0.5}});
    EXPECT_EQ(written(), "\r 10%  1/10  0:00<?  loss 0.5\x1b[K");
    now_ = 2;
    logger.log(3, {{"loss", 0.25}});
    EXPECT_EQ(written(), "\r 30%  3/10  1 steps/s  0:02<0:07\x1b[K");
  }
  EXPECT_EQ(written(), "\n");
}

TEST_F(Bar, APipeGetsALineNowAndThen) {
  {
    Logger logger({ProgressBar(options(100))});
    for (int step = 1; step <= 70; ++step) {
      logger.log(step, {{"loss", 0.5}});
      now_ += 1;
    }
  }
  EXPECT_EQ(written(),
            "  1%  1/100  0:00<?  loss 0.5\n"
            " 31%  31/100  1 steps/s  0:30<1:09  loss 0.5\n"
            " 61%  61/100  1 steps/s  1:00<0:39  loss 0.5\n"
            " 70%  70/100  1.014 s/steps  1:10<0:30  loss 0.5\n")
      << "the last state too";
}

TEST_F(Bar, TheLastStateHasTheLastValuesAndReadsThemOnce) {
  ProgressBarOptions stream = options(0);  // nobody knows how long it is
  Logger logger({ProgressBar(stream)});
  const std::uint64_t reads = host_reads();
  for (int step = 1; step <= 5; ++step) logger.log(step, {{"loss", tensor(1.0 / step)}, {"lr", 0.5}});
  logger.log(5, {{"val", tensor(3.0)}});
  EXPECT_EQ(host_reads() - reads, 1U) << "of the first step";
  static_cast<void>(written());
  now_ = 4;
  logger.close();
  EXPECT_EQ(written(), "5 steps  1 steps/s  0:04  loss 0.2  lr 0.5  val 3\n");
  EXPECT_EQ(host_reads() - reads, 2U);
  logger.close();
  EXPECT_EQ(written(), "") << "once";
}

TEST_F(Bar, GoesOnToAnotherEnd) {
  ProgressBar bar(options(2));
  const std::vector<LogScalar> values{{"loss", 0.5, DType::f64}};
  const auto log = [&](std::int64_t step) {
    if (bar.is_due(step)) bar.write({step, 0, values});
  };
  log(1);
  now_ = 1;
  log(2);
  bar.close();
  EXPECT_EQ(written(), " 50%  1/2  0:00<?  loss 0.5\n100%  2/2  1 steps/s  0:01<0:00  loss 0.5\n");
  now_ = 100;
  bar.extend(4);
  log(3);
  now_ = 102;
  log(4);
  bar.close();
  EXPECT_EQ(written(), " 75%  3/4  0:00<?  loss 0.5\n100%  4/4  2 s/steps  0:02<0:00  loss 0.5\n");
}

TEST_F(Bar, ShowsChosenValuesAndGoesOnFromACheckpoint) {
  ProgressBarOptions chosen = options(100);
  chosen.show = {"b", "a"};
  chosen.plain_seconds = 0;
  Logger logger({ProgressBar(chosen)});
  logger.resume(50);
  logger.log(51, {{"a", 1}, {"c", 2}, {"b", 3}});
  EXPECT_EQ(written(), " 51%  51/100  0:00<?  b 3  a 1\n");
  now_ = 10;
  logger.log(61, {{"a", 4}});
  EXPECT_EQ(written(), " 61%  61/100  1 steps/s  0:10<0:39  b 3  a 4\n");
  logger.log(61, {{"a", 5}});
  EXPECT_EQ(written(), " 61%  61/100  1 steps/s  0:10<0:39  b 3  a 5\n");
  EXPECT_EQ(mezzo::test::message_of<ValueError>([] { return ProgressBar({.total = -1}), 0; }),
            "ProgressBar: expected a total of at least 0 steps, got -1; leave it out where it is not known");
}

}  // namespace
}  // namespace mezzo::train
