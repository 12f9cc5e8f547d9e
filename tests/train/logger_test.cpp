// The logger: who gets what, what is read, and what is refused.
#include "mezzo/train/logger.h"

#include <cmath>
#include <limits>

#include "mezzo/amp/summary.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"

namespace mezzo::train {
namespace {

using log_test::Memory;
using mezzo::test::message_of;
using Records = std::vector<std::string>;

TEST(Logger, EachSinkGetsTheStepsItWants) {
  const auto all = std::make_shared<Memory>(), some = std::make_shared<Memory>(3);
  Logger logger({all, some});
  logger.text("config", Value::Map{{"lr", 0.5}});
  for (int step = 0; step < 5; ++step) logger.log(step, {{"loss", 1.0 / (step + 1)}});
  logger.log(5, {{"val", tensor(2.5)}, {"f", 0.5F}}, {.all_sinks = true});
  EXPECT_EQ(all->records,
            (Records{"config: {\"lr\":0.5}", "0 loss=1", "1 loss=0.5", "2 loss=0.3333333333333333",
                     "3 loss=0.25", "4 loss=0.2", "5 val=2.5 f=0.5"}));
  EXPECT_EQ(some->records, (Records{"config: {\"lr\":0.5}", "0 loss=1", "3 loss=0.25", "5 val=2.5 f=0.5"}));
}

TEST(Logger, TensorsOfEveryKindAreReadOnceAndOnlyWhereTheyAreWanted) {
  const auto sink = std::make_shared<Memory>(2);
  const auto second = std::make_shared<Memory>(2);
  Logger logger({sink, second});
  const Tensor loss = tensor(0.5).requires_grad_() * 3;
  const Tensor half = tensor({0.25}, {.dtype = DType::f16}), count = tensor(7), flag = tensor(true);
  const Tensor element = tensor({{1.0, 2.0}, {3.0, 4.0}}).select(0, 1).select(0, 0);
  const auto log = [&](int step) {
    logger.log(step, {{"loss", loss}, {"h", half}, {"n", count}, {"b", flag}, {"e", element}, {"x", 1}});
  };
  const std::uint64_t before = host_reads();
  log(1);
  EXPECT_EQ(host_reads() - before, 0U);
  log(2);
  EXPECT_EQ(host_reads() - before, 1U);
  EXPECT_EQ(sink->records, (Records{"2 loss=1.5 h=0.25 n=7 b=1 e=3 x=1"}));
  EXPECT_EQ(second->records, sink->records);
  logger.histogram(3, "w", tensor({1.0, 2.0}));
  EXPECT_EQ(host_reads() - before, 1U) << "no sink takes histograms";
}

TEST(Logger, RefusesBadNamesStepsAndTensorsAndWritesNothing) {
  const auto sink = std::make_shared<Memory>();
  Logger logger({sink});
  logger.log(4, {{"loss", 1}});
  const auto refused = [&](std::int64_t step, std::initializer_list<LogEntry> entries) {
    return message_of<Error>([&] { return logger.log(step, entries), 0; });
  };
  EXPECT_EQ(refused(5, {{"a", 1}, {"b", 2}, {"a", 3}}),
            "Logger.log: expected each name once, got \"a\" twice; rename one of the values");
  EXPECT_EQ(refused(5, {{"", 1}}), "Logger.log: expected a name, got \"\"; say what is logged");
  EXPECT_EQ(refused(5, {{"a\nb", 1}}),
            "Logger.log: expected a name without control characters, got \"a\\nb\"; use letters, digits, '_' "
            "and '/'");
  EXPECT_EQ(refused(5, {{"\xFF", 1}}),
            "Logger.log: expected a name in UTF-8, got \"\xEF\xBF\xBD\"; use letters, digits, '_' and '/'");
  EXPECT_EQ(
      refused(5, {{"step", 1}}),
      "Logger.log: expected a name other than \"step\", \"time\" and \"text\", got \"step\"; each record has "
      "these anyway");
  EXPECT_EQ(
      refused(5, {{"loss", zeros({2})}}),
      "Logger.log: expected a number or a tensor of one element as \"loss\", got one of shape [2]; reduce it "
      "by mean() or norm(), or log a histogram");
  EXPECT_EQ(
      refused(5, {{"loss", Tensor()}}),
      "Logger.log: expected a number or a tensor of one element as \"loss\", got an undefined tensor; log it "
      "where it exists");
  EXPECT_EQ(refused(3, {{"loss", 1}}),
            "Logger.log: expected a step of at least 4, the last one, got 3; after loading a checkpoint call "
            "resume(step)");
  EXPECT_EQ(message_of<ValueError>([&] { return logger.resume(-1), 0; }),
            "Logger.resume: expected a step of at least 0, got -1; give the step of the checkpoint");
  EXPECT_EQ(message_of<ValueError>([&] { return Memory(0), 0; }),
            "Sink: expected an interval `every` of at least 1 step, got 0; 1 takes every record");
  EXPECT_EQ(message_of<ValueError>([&] { return Logger({std::shared_ptr<Memory>()}), 0; }),
            "Logger: expected sinks, got a null pointer; leave it out");
  EXPECT_THROW(logger.histogram(5, "w", Tensor()), ValueError);
  EXPECT_EQ(sink->records, Records{"4 loss=1"});
  logger.resume(2);
  logger.log(3, {{"loss", 1}});
  logger.log(3, {{"val", 1}});  // a step may come twice
  EXPECT_EQ(sink->records.size(), 3U);
}

/// Takes histograms and images, and fails as it is told.
class Pictures final : public Sink {
 public:
  void write(const LogRecord& /*record*/) override {}
  [[nodiscard]] bool wants_pictures() const override { return true; }
  void write_histogram(const LogHistogram& histogram) override {
    add(std::string(histogram.name) + " " + std::to_string(histogram.values.size()));
  }
  void write_image(const LogImage& image) override {
    add(std::string(image.name) + " " + to_string(Shape{image.channels, image.height, image.width}));
  }
  Records records;
  bool works = true;

 private:
  void add(const std::string& text) {
    if (!works) throw IoError("write 'x'", "a disk that takes it", "none", "free some space");
    records.push_back(text);
  }
};

TEST(Logger, RefusesWhatIsNoImageAndWritesNothing) {
  const auto sink = std::make_shared<Pictures>();
  const auto none = std::make_shared<Memory>();
  Logger logger({sink, none});
  const auto refused = [&](const Tensor& image, const char* name = "a", std::int64_t step = 5) {
    return message_of<Error>([&] { return logger.image(step, name, image), 0; });
  };
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 4, 4}, Shape{5, 4, 4}, Shape{4, 4, 3, 2, 2},
                             Shape{0, 4}, Shape{3, 0, 4}, Shape{0, 3, 4, 4}, Shape{2, 5, 4, 3}}) {
    EXPECT_EQ(
        refused(zeros(shape)),
        "Logger.image: expected an image [H, W] or [C, H, W], or a batch [N, C, H, W], of 1, 3 or 4 channels "
        "as \"a\", got " +
            to_string(shape) + "; permute({2, 0, 1}) brings channels to the front")
        << to_string(shape);
  }
  for (const DType dtype : {DType::i64, DType::boolean, DType::f8_e4m3}) {
    EXPECT_EQ(refused(zeros({4, 4}).to(dtype)),
              "Logger.image: expected u8 from 0 to 255 or reals from 0 to 1 as \"a\", got " +
                  std::string(to_string(dtype)) + "; convert it with to(DType::f32)");
  }
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(refused(full({4, 4}, bad)),
              "Logger.image: expected finite numbers as \"a\", got NaN or an infinity; nan_to_num() takes "
              "them out");
  }
  EXPECT_EQ(refused(Tensor()),
            "Logger.image: expected a tensor as \"a\", got an undefined one; log it where it exists");
  EXPECT_EQ(refused(zeros({4, 4}), ""), "Logger.image: expected a name, got \"\"; say what is logged");
  EXPECT_NE(refused(zeros({4, 4}), "a", -1), "");
  EXPECT_THROW(logger.histograms(5, {{"fits", zeros({4})}, {"", zeros({4})}}), ValueError);
  EXPECT_EQ(sink->records, Records{});
  logger.log(0, {{"loss", 1}});  // no step has gone by
  EXPECT_EQ(none->records, Records{"0 loss=1"});
}

TEST(Logger, PicturesGoWhereTheyAreWantedAndAreNotReadElsewhere) {
  const auto none = std::make_shared<Memory>();
  const std::uint64_t before = host_reads();
  Logger logger({none});
  logger.image(1, "i", zeros({4, 4}));
  logger.image(1, "i", full({4, 4}, std::nan("")));  // nobody looks
  logger.histograms(2, {{"h", zeros({4})}});
  EXPECT_EQ(host_reads(), before);
  EXPECT_EQ(none->records, Records{});
  EXPECT_THROW(logger.image(1, "i", zeros({4, 4})), ValueError) << "step 2 was logged";
}

TEST(Logger, WithoutLibpngImagesAreOneWarning) {
  if (data::have_png()) GTEST_SKIP() << "a build with libpng";
  mezzo::test::CaughtWarnings warnings;
  const auto sink = std::make_shared<Pictures>();
  Logger logger({sink});
  for (int step = 0; step < 3; ++step) logger.image(step, "i", zeros({4, 4}));
  logger.histogram(3, "h", zeros({4}));
  EXPECT_EQ(warnings.texts(),
            Records{"encode_png: expected a build with libpng, got one without; install libpng-dev "
                    "and build mezzo again"});
  EXPECT_EQ(sink->records, Records{"h 4"});
}

TEST(Logger, APictureThatCannotBeWrittenIsAWarningOrAnError) {
  if (!data::have_png()) GTEST_SKIP() << "a build without libpng";
  mezzo::test::CaughtWarnings warnings;
  const auto failing = std::make_shared<Pictures>(), sink = std::make_shared<Pictures>();
  failing->works = false;
  const auto log = [&](Logger& logger) {
    logger.image(1, "i", zeros({3, 4, 5}));
    logger.histograms(1, {{"a", zeros({4})}, {"b", zeros({2})}});
  };
  Logger logger({failing, sink});
  log(logger);
  EXPECT_EQ(warnings.texts(), Records{"write 'x': expected a disk that takes it, got none; free some space"});
  EXPECT_EQ(sink->records, (Records{"i [3, 4, 5]", "a 4", "b 2"}));
  Logger strict({failing, sink}, {.errors = SinkErrors::raise});
  EXPECT_THROW(strict.image(1, "j", zeros({3, 4, 5})), IoError);
  EXPECT_THROW(strict.histograms(1, {{"c", zeros({4})}, {"d", zeros({2})}}), IoError);
  EXPECT_EQ(sink->records, (Records{"i [3, 4, 5]", "a 4", "b 2", "j [3, 4, 5]", "c 4", "d 2"}));
}

TEST(Logger, AFailingSinkIsOneWarningAndTheOthersGoOn) {
  mezzo::test::CaughtWarnings warnings;
  const auto failing = std::make_shared<log_test::Failing>();
  const auto sink = std::make_shared<Memory>();
  Logger logger({failing, sink});
  for (int step = 0; step < 3; ++step) logger.log(step, {{"loss", step}});
  EXPECT_EQ(warnings.texts(), Records{"write 'x': expected a disk that takes it, got none; free some space"});
  EXPECT_EQ(failing->tries, 3) << "it is tried again";
  EXPECT_EQ(sink->records.size(), 3U);
}

TEST(Logger, AFailingSinkIsAnErrorWhereThatIsAskedFor) {
  const auto failing = std::make_shared<log_test::Failing>();
  const auto sink = std::make_shared<Memory>();
  Logger logger({failing, sink}, {.errors = SinkErrors::raise});
  EXPECT_EQ(message_of<IoError>([&] {
              return logger.log(0, {{"loss", 1}}), 0;
            }),
            "write 'x': expected a disk that takes it, got none; free some space");
  EXPECT_EQ(sink->records.size(), 1U) << "the others have the record";
  failing->works = true;
  logger.log(1, {{"loss", 1}});
}

/// Takes the first record alone, and at the end the last values.
struct Seldom final : Sink {
  explicit Seldom(std::vector<double>& list) : Sink(1000), values(list) {}
  [[nodiscard]] bool wants_last() const override { return true; }
  void write(const LogRecord& record) override {
    for (const LogScalar& value : record.values) values.push_back(value.value);
  }
  std::vector<double>& values;
};

TEST(Logger, TheLastValuesAreKeptWithoutTheirGraph) {
  std::vector<double> values;
  Logger logger({std::make_shared<Seldom>(values)});
  const Tensor x = zeros({100000}).requires_grad_(true);
  const std::int64_t before = memory_stats(Device::cpu()).current;
  logger.log(1, {{"loss", sum(exp(x))}});  // exp keeps its result for a backward
  EXPECT_LT(memory_stats(Device::cpu()).current - before, 1000);
  EXPECT_TRUE(values.empty());
  logger.close();
  EXPECT_EQ(values, (std::vector<double>{100000}));
}

TEST(Logger, WithoutSinksNothingHappens) {
  // The other ranks of a training, say.
  Logger logger(std::vector<AnySink>{});
  const std::uint64_t before = host_reads();
  logger.text("config", "x");
  logger.log(1, {{"loss", tensor(1.0)}});
  logger.histogram(1, "w", tensor({1.0, 2.0}));
  logger.close();
  EXPECT_EQ(host_reads(), before);
}

TEST(Logger, ASummaryIsATable) {
  const auto sink = std::make_shared<Memory>();
  Logger logger({sink});
  nn::Linear linear(4, 2);
  logger.text("model", amp::summary(linear, Shape{3, 4}, {.dtype = DType::bf16}));
  EXPECT_EQ(sink->records, Records{"model: [{\"Module\":\"Linear\",\"Type\":\"Linear\",\"Output\":\"[3, 2]\","
                                   "\"Parameters\":\"10\",\"Runs in\":\"bf16\",\"Norm\":\"--\"}]"});
}

}  // namespace
}  // namespace mezzo::train
