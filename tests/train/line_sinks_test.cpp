// CSV and JSON Lines: what stands in the files, how they grow columns, go on after a kill, and take full
// disks.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/io/json.h"
#include "mezzo/ops/factory.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train/csv_sink.h"
#include "mezzo/train/json_lines_sink.h"

namespace mezzo::train {
namespace {

using mezzo::test::message_of;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class LineSinks : public log_test::LogFiles {};

TEST_F(LineSinks, CSVHasAColumnPerNameAndTheShortestNumbers) {
  Logger logger({CSVSink(path("log.csv"))}, at_time(1764063092.1234));
  logger.log(0, {{"loss", tensor(0.1)}, {"lr", 0.1}, {"scale", 65536}});
  logger.log(1, {{"scale", kNan}, {"loss", tensor(1e-30)}});
  logger.log(2, {{"loss", kInf}, {"lr", -kInf}});
  logger.log(3, {});
  EXPECT_EQ(content(path("log.csv")),
            "step,time,loss,lr,scale\n"
            "0,1764063092.123,0.1,0.1,65536\n"
            "1,1764063092.123,1e-30,,nan\n"
            "2,1764063092.123,inf,-inf,\n"
            "3,1764063092.123,,,\n");
}

TEST_F(LineSinks, CSVRewritesItselfForNewColumns) {
  Logger logger({CSVSink(path("log.csv"))}, at_time(7));
  logger.log(0, {});
  EXPECT_EQ(content(path("log.csv")), "step,time\n0,7\n");
  logger.log(1, {{"a", 1}});
  logger.log(2, {{"b,c", 2}, {"say \"x\"", 3}, {"a", 4}});
  logger.log(3, {{"a", 5}});
  EXPECT_EQ(content(path("log.csv")),
            "step,time,a,\"b,c\",\"say \"\"x\"\"\"\n0,7,,,\n1,7,1,,\n2,7,4,2,3\n3,7,5,,\n");
}

TEST_F(LineSinks, CSVGoesOnBehindTheCheckpoint) {
  {
    Logger logger({CSVSink(path("log.csv"))}, at_time(7));
    for (int step = 1; step <= 4; ++step) logger.log(step, {{"a,\"", step}});
  }
  // Killed in the middle of a line.
  put(path("log.csv"), content(path("log.csv")) + "5,7");
  Logger logger({CSVSink(path("log.csv"))}, at_time(8));
  logger.resume(2);
  logger.log(3, {{"a,\"", 30}});
  logger.log(4, {{"b", 1}});
  EXPECT_EQ(content(path("log.csv")), "step,time,\"a,\"\"\",b\n1,7,1,\n2,7,2,\n3,8,30,\n4,8,,1\n");
  logger.resume(3);  // back to an earlier checkpoint within the run
  logger.log(4, {{"b", 2}});
  EXPECT_EQ(content(path("log.csv")), "step,time,\"a,\"\"\",b\n1,7,1,\n2,7,2,\n3,8,30,\n4,8,,2\n");
}

TEST_F(LineSinks, AKilledRunHasAllLinesThatWereLogged) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Logger logger({CSVSink(path("log.csv")), JSONLinesSink(path("log.jsonl"))}, at_time(7));
    for (int step = 1; step <= 100; ++step) logger.log(step, {{"a", step}});
    ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string csv = content(path("log.csv")), json = content(path("log.jsonl"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 101);
  EXPECT_EQ(csv.substr(csv.rfind('\n', csv.size() - 2) + 1), "100,7,100\n");
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 100);
}

TEST_F(LineSinks, AnOldFileIsKeptBeside) {
  put(path("log.csv"), "what I did yesterday");
  {
    Logger logger({CSVSink(path("log.csv"))}, at_time(7));
    EXPECT_EQ(content(path("log.csv")), "what I did yesterday");
    logger.log(1, {{"a", 1}});
  }
  EXPECT_EQ(content(path("log.csv")), "step,time,a\n1,7,1\n");
  EXPECT_EQ(content(path("log.csv.bak")), "what I did yesterday");
}

TEST_F(LineSinks, ResumingWithoutAFileBeginsOne) {
  Logger logger({CSVSink(path("a.csv")), JSONLinesSink(path("a.jsonl"))}, at_time(7));
  logger.resume(10);
  logger.log(11, {{"a", 1}});
  EXPECT_EQ(content(path("a.csv")), "step,time,a\n11,7,1\n");
  EXPECT_EQ(content(path("a.jsonl")), "{\"step\":11,\"time\":7,\"a\":1}\n");
}

TEST_F(LineSinks, JSONLinesAreObjects) {
  {
    Logger logger({JSONLinesSink(path("log.jsonl"), {.every = 2})}, at_time(1764063092.5));
    logger.text("config", Value::Map{{"lr", 0.5}, {"name", "a\nb"}});
    logger.log(0, {{"loss", tensor(0.1)}, {"x \"y\"", kNan}, {"n", 3}});
    logger.log(1, {{"loss", 1}});
    logger.log(2, {{"loss", -kInf}});
  }
  const std::string text = content(path("log.jsonl"));
  EXPECT_EQ(text,
            "{\"step\":0,\"time\":1764063092.5,\"text\":{\"config\":{\"lr\":0.5,\"name\":\"a\\nb\"}}}\n"
            "{\"step\":0,\"time\":1764063092.5,\"loss\":0.1,\"x \\\"y\\\"\":\"nan\",\"n\":3}\n"
            "{\"step\":2,\"time\":1764063092.5,\"loss\":\"-inf\"}\n");
  const std::size_t last = text.rfind('{');
  EXPECT_EQ(io::parse_json(text.substr(last))["loss"].as_double(), -kInf);
}

TEST_F(LineSinks, JSONLinesGoOnBehindTheCheckpoint) {
  put(path("log.jsonl"), "{\"step\":1,\"a\":[1]}\n{\"step\":5}\n{\"step\":2}\n{\"ste");
  Logger logger({JSONLinesSink(path("log.jsonl"))}, at_time(8));
  logger.resume(2);
  logger.log(3, {{"a", 1}});
  EXPECT_EQ(content(path("log.jsonl")),
            "{\"step\":1,\"a\":[1]}\n{\"step\":2}\n{\"step\":3,\"time\":8,\"a\":1}\n");
}

TEST_F(LineSinks, FilesOfOthersAreRefusedAndStayAsTheyAre) {
  const auto refused = [&](const char* name, const std::string& text) {
    put(path(name), text);
    const bool csv = std::string_view(name).find(".csv") != std::string_view::npos;
    std::string message = message_of<IoError>([&] {
      if (csv) {
        CSVSink(path(name)).resume(1);
      } else {
        JSONLinesSink(path(name)).resume(1);
      }
      return 0;
    });
    EXPECT_EQ(content(path(name)), text);
    const std::string start = "read '" + path(name) + "': expected ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(start.size());
  };
  EXPECT_EQ(refused("a.csv", "epoch,loss\n1,2\n"),
            "\"step,time\" and names of values in line 1, got \"epoch,loss\"; give the path of a CSVSink's "
            "file, or "
            "move this one away");
  EXPECT_EQ(refused("b.csv", "step,time,a\n1,2,3\nx,2,3\n"),
            "a step and 2 values in line 3, got \"x,2,3\"; give the path of a CSVSink's file, or move this "
            "one away");
  for (const char* const text :
       {"step,time,a\n1,2\n", "step,time,a\n1,2,3,4\n", "step,time,a\n1\n", "step,time,a,a\n", "step,time,\n",
        "step,time,\"a\n", "step,time,\"a\"b\n", "step,timea\n", "step,time,a\n-1,2,3\n", "step,time,a\n\n",
        "step,time,a\n1,\"2\",3\n"})
    static_cast<void>(refused("c.csv", text));
  std::string many = "step,time";
  for (int i = 0; i <= 100'000; ++i) many += "," + std::to_string(i);
  static_cast<void>(refused("d.csv", many + "\n"));
  EXPECT_EQ(refused("a.jsonl", "{\"step\":1}\n{\"epoch\":1}\n"),
            "an object with a step in line 2, got \"{\\\"epoch\\\":1}\"; give the path of a JSONLinesSink's "
            "file, or "
            "move this one away");
  for (const char* const text : {"[1]\n", "{\"step\":1.5}\n", "{\"step\":-1}\n", "\n", "{\"step\":1}}\n"})
    static_cast<void>(refused("b.jsonl", text));
}

TEST_F(LineSinks, PathsThatCannotBeWrittenAreRefusedAtOnce) {
  EXPECT_EQ(
      message_of<IoError>([&] { return CSVSink(path("no/such/folder.csv")), 0; }),
      "write '" + path("no/such/folder.csv") +
          "': expected a file that can be written, got No such file or directory; create the folder or check "
          "permissions");
  EXPECT_THROW(JSONLinesSink(path("")), IoError) << "a folder";
  EXPECT_THROW(CSVSink("/dev/null"), IoError);
  EXPECT_THROW(CSVSink(std::string("a\0b", 3)), IoError);
}

/// While it lives, files end at this size, as a full disk ends them.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(std::signal(SIGXFSZ, handler_));
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(LineSinks, AFullDiskIsOneWarningAndLeavesWholeLines) {
  mezzo::test::CaughtWarnings warnings;
  Logger logger({JSONLinesSink(path("log.jsonl"))}, at_time(7));
  logger.log(1, {{"a", 1}});
  const std::string json = content(path("log.jsonl"));
  {
    const SmallFiles full(json.size() + 3);  // a piece of the next line would fit
    logger.log(2, {{"a", 2}});
    logger.log(3, {{"a", 123456789012345}});
  }
  EXPECT_EQ(content(path("log.jsonl")), json);
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_EQ(warnings.texts()[0], "write '" + path("log.jsonl") +
                                     "': expected a disk that takes it, got File too large; free some space");
  logger.log(4, {{"a", 4}});
  EXPECT_EQ(content(path("log.jsonl")), json + "{\"step\":4,\"time\":7,\"a\":4}\n") << "there is room again";
}

TEST_F(LineSinks, AFullDiskLeavesTheOldColumns) {
  Logger logger({CSVSink(path("log.csv"))}, {.errors = SinkErrors::raise, .wall_clock = [] { return 7.0; }});
  logger.log(1, {{"a", 1}});
  const std::string before = content(path("log.csv"));
  {
    const SmallFiles full(before.size());
    EXPECT_THROW(logger.log(2, {{"b", 2}}), IoError);
    EXPECT_EQ(content(path("log.csv")), before);
  }
  logger.log(3, {{"b", 3}});
  EXPECT_EQ(content(path("log.csv")), "step,time,a,b\n1,7,1,\n3,7,,3\n");
}

}  // namespace
}  // namespace mezzo::train
