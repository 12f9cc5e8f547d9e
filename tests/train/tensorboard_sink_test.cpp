// Event files, taken apart by a decoder of the test's own: frames, checksums, messages.
#include "mezzo/train/tensorboard_sink.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/data/image/image.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/io/json.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/log_files.h"
#include "mezzo/train/logging/histogram.h"

namespace mezzo::train {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// CRC-32C by division of polynomials, bit by bit from the front, with bits mirrored as the definition says.
std::uint32_t crc_by_division(std::string_view bytes) {
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const char byte : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = static_cast<unsigned char>(byte) >> bit & 1U;
      const bool carry = (remainder >> 31U ^ in) != 0;
      remainder = remainder << 1U ^ (carry ? 0x1EDC6F41U : 0U);
    }
  }
  std::uint32_t mirrored = 0;
  for (unsigned bit = 0; bit < 32; ++bit) mirrored |= (remainder >> bit & 1U) << (31 - bit);
  return ~mirrored;
}

bool crc_fits(std::string_view bytes, std::uint64_t masked) {
  const std::uint32_t rotated = static_cast<std::uint32_t>(masked) - 0xA282EAD8U;
  return (rotated << 15U | rotated >> 17U) == crc_by_division(bytes);
}

/// The records of a file, checksums compared.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::string_view rest = file; !rest.empty();) {
    const auto size = static_cast<std::size_t>(little_endian(rest.substr(0, 8)));
    EXPECT_TRUE(crc_fits(rest.substr(0, 8), little_endian(rest.substr(8, 4))));
    if (rest.size() < size + 16) return ADD_FAILURE() << "a cut record", records;
    EXPECT_TRUE(crc_fits(rest.substr(12, size), little_endian(rest.substr(12 + size, 4))));
    records.emplace_back(rest.substr(12, size));
    rest.remove_prefix(size + 16);
  }
  return records;
}

/// A message: field number -> its values, as bytes (fixed ones, strings, messages) or as a varint's number.
struct Message {
  std::multimap<std::uint64_t, std::string> bytes;
  std::map<std::uint64_t, std::int64_t> integers;

  explicit Message(std::string_view text) {
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (unsigned shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(text.at(0));
        text.remove_prefix(1);
        value |= std::uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (!text.empty()) {
      const std::uint64_t tag = varint();
      const std::uint64_t type = tag & 7U;
      if (type == 0) {
        integers[tag >> 3U] = static_cast<std::int64_t>(varint());
        continue;
      }
      const std::size_t size = type == 1 ? 8 : type == 5 ? 4 : varint();
      bytes.emplace(tag >> 3U, text.substr(0, size));
      text.remove_prefix(size);
    }
  }
  [[nodiscard]] std::string text(std::uint64_t field) const {
    const auto found = bytes.find(field);
    return found == bytes.end() ? "(none)" : found->second;
  }
  [[nodiscard]] Message message(std::uint64_t field) const { return Message(text(field)); }
  [[nodiscard]] double real(std::uint64_t field) const {
    return std::bit_cast<double>(little_endian(text(field)));
  }
  [[nodiscard]] float real32(std::uint64_t field) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(text(field))));
  }
  [[nodiscard]] std::int64_t integer(std::uint64_t field) const {
    return integers.count(field) != 0 ? integers.at(field) : 0;
  }
  [[nodiscard]] std::vector<double> reals(std::uint64_t field) const {
    const std::string packed = text(field);
    std::vector<double> values(packed.size() / 8);
    std::memcpy(values.data(), packed.data(), values.size() * 8);
    return values;
  }
};

std::vector<double> numbers(const Value& list) {
  std::vector<double> result;
  for (const Value& entry : list.as_list()) result.push_back(entry.as_double());
  return result;
}

class TensorBoard : public log_test::LogFiles {
 protected:
  static std::vector<Message> events(const std::string& file) {
    std::vector<Message> result;
    for (const std::string& record : records_of(content(file))) result.emplace_back(record);
    return result;
  }
  std::string only_file() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path("tb/run")))
      files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1U);
    return files.at(0);
  }
};

TEST(Crc32c, IsThatOfRfc3720) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(io::detail::crc32c(bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(io::detail::crc32c(bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(io::detail::crc32c(bytes(std::string(32, '\xFF'))), 0x62A8AB43U);
  EXPECT_EQ(io::detail::crc32c(bytes("")), 0U);
  EXPECT_TRUE(crc_fits("mezzo", io::detail::masked_crc32c(bytes("mezzo"))));
}

TEST_F(TensorBoard, ScalarsAreEvents) {
  {
    Logger logger({TensorBoardSink(path("tb/run"), {.every = 2})}, at_time(1764063092.5));
    logger.log(0, {{"loss", tensor(0.1)}, {"lr", 0.3}});
    logger.log(1, {{"loss", 1}});
    logger.log(300, {{"loss", std::numeric_limits<double>::quiet_NaN()}});
    logger.log(302, {});
  }
  const std::string file = only_file();
  EXPECT_NE(file.find("/tb/run/events.out.tfevents."), std::string::npos);
  EXPECT_NE(file.find("." + std::to_string(::getpid()) + ".0"), std::string::npos);
  const std::vector<Message> found = events(file);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].text(3), "brain.Event:2");
  EXPECT_GT(found[0].real(1), 1.7e9);
  EXPECT_EQ(found[1].real(1), 1764063092.5);
  EXPECT_EQ(found[1].integer(2), 0);
  const Message summary = found[1].message(5);
  ASSERT_EQ(summary.bytes.count(1), 2U);
  auto value = summary.bytes.find(1);
  EXPECT_EQ(Message(value->second).text(1), "loss");
  EXPECT_EQ(Message(value->second).real32(2), 0.1F);
  ++value;
  EXPECT_EQ(Message(value->second).text(1), "lr");
  EXPECT_EQ(Message(value->second).real32(2), 0.3F);
  EXPECT_EQ(found[2].integer(2), 300);
  EXPECT_TRUE(std::isnan(found[2].message(5).message(1).real32(2)));
}

TEST_F(TensorBoard, TextsAndTablesAreMarkdown) {
  {
    Logger logger({TensorBoardSink(path("tb/run"))}, at_time(5));
    logger.text("note", "Grüße");
    logger.text("config", Value::Map{{"lr", 0.5},
                                     {"net", Value::Map{{"name", "a|b\nc"}, {"sizes", Value::list(1, 2)}}}});
    logger.text("table", Value::list(Value::Map{{"a", 1}}, Value::Map{{"b", "x"}}));
    logger.text("list", Value::list(1, 2));
  }
  const std::vector<Message> found = events(only_file());
  ASSERT_EQ(found.size(), 5U);
  const auto value = [&](std::size_t i) { return found[i].message(5).message(1); };
  EXPECT_EQ(value(1).text(1), "note/text_summary");
  EXPECT_EQ(value(1).message(9).message(1).text(1), "text");
  EXPECT_EQ(value(1).message(8).integer(1), 7) << "DT_STRING";
  EXPECT_EQ(value(1).message(8).message(2).message(2).integer(1), 1) << "shape [1]";
  EXPECT_EQ(value(1).message(8).text(8), "Grüße");
  EXPECT_EQ(value(2).message(8).text(8),
            "| name | value |\n| --- | --- |\n| lr | 0.5 |\n| net.name | a\\|b c |\n| net.sizes | [1,2] |\n");
  EXPECT_EQ(value(3).message(8).text(8), "| a | b |\n| --- | --- |\n| 1 |  |\n|  | x |\n");
  EXPECT_EQ(value(4).message(8).text(8), "```\n[1, 2]\n```");
}

TEST_F(TensorBoard, HistogramsAreTorchs) {
  const Value cases = io::read_json_file(mezzo::test::data_folder() + "/train/files/histogram.json");
  {
    Logger logger({TensorBoardSink(path("tb/run"))}, at_time(5));
    std::int64_t step = 0;
    for (const Value& entry : cases.as_list())
      logger.histogram(step++, "w", tensor(numbers(entry["values"]), {.dtype = DType::f64}));
    logger.histogram(step++, "w", full({2, 2}, std::numeric_limits<double>::infinity()));
  }
  const std::vector<Message> found = events(only_file());
  ASSERT_EQ(found.size(), cases.size() + 2);
  const Message none = found.back().message(5).message(1);
  EXPECT_EQ(none.text(1), "w/nonfinite") << "no histogram of no finite elements";
  EXPECT_EQ(none.real32(2), 4);
  EXPECT_EQ(none.text(5), "(none)");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Value& expected = cases[i];
    const Message histogram = found[i + 1].message(5).message(1).message(5);
    EXPECT_EQ(histogram.real(1), expected["min"].as_double());
    EXPECT_EQ(histogram.real(2), expected["max"].as_double());
    EXPECT_EQ(histogram.real(3), expected["num"].as_double());
    // numpy adds in another order.
    EXPECT_NEAR(histogram.real(4), expected["sum"].as_double(),
                1e-12 * std::abs(expected["sum"].as_double()) + 1e-12);
    EXPECT_NEAR(histogram.real(5), expected["sum_squares"].as_double(),
                1e-12 * expected["sum_squares"].as_double());
    const std::vector<double> limits = histogram.reals(6), counts = histogram.reals(7);
    const std::vector<double> ends = numbers(expected["limits"]);
    EXPECT_EQ((std::vector<double>{limits.front(), limits.back(), static_cast<double>(limits.size())}), ends)
        << i;
    ASSERT_EQ(counts.size(), limits.size());
    std::vector<double> wanted(counts.size());
    for (const Value& entry : expected["counts"].as_list())
      wanted.at(static_cast<std::size_t>(entry[0].as_int())) = entry[1].as_double();
    EXPECT_EQ(counts, wanted) << i;
  }
}

TEST(Histogram, LeavesOutWhatIsNotFiniteAndKeepsWhatIsHuge) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{1, inf, std::nan(""), -inf, 1e300, -1e300};
  const detail::Histogram histogram = detail::histogram_of(values);
  EXPECT_EQ(histogram.count, 3);
  EXPECT_EQ(histogram.max, 1e300);
  EXPECT_EQ(histogram.counts.size(), histogram.limits.size());
  EXPECT_EQ(histogram.counts[1], 1);
  EXPECT_EQ(histogram.counts.back(), 1);
  EXPECT_TRUE(detail::histogram_of({}).limits.empty());
}

TEST_F(TensorBoard, ElementsThatAreNotFiniteAreCounted) {
  const double inf = std::numeric_limits<double>::infinity();
  {
    Logger logger({TensorBoardSink(path("tb/run"))}, at_time(5));
    logger.histograms(3, {{"a", tensor({1.0, inf, std::nan(""), 2.0})}, {"b", tensor({1.0})}});
  }
  const std::vector<Message> found = events(only_file());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[1].message(5).message(1).text(1), "a/nonfinite");
  EXPECT_EQ(found[1].message(5).message(1).real32(2), 2);
  EXPECT_EQ(found[2].message(5).message(1).text(1), "a");
  EXPECT_EQ(found[2].message(5).message(1).message(5).real(3), 2) << "of the finite ones";
  EXPECT_EQ(found[3].message(5).message(1).text(1), "b") << "which has none to count";
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(found[i].integer(2), 3);
}

/// Histograms that are read together are those that are read one by one.
TEST_F(TensorBoard, SeveralHistogramsAreOneRead) {
  const std::vector<std::pair<std::string, Tensor>> named{{"a", arange(6).to(DType::f32).reshape({2, 3})},
                                                          {"b", full({}, -3.5)},
                                                          {"c", zeros({0})},
                                                          {"d", full({5}, 7.0)},
                                                          {"e", arange(4)}};
  const auto file_of = [&](const std::string& folder, const auto& log) {
    const auto sink = std::make_shared<TensorBoardSink>(path(folder));
    const std::size_t begin = content(sink->path()).size();  // behind the event with the time
    Logger logger({sink}, at_time(5));
    log(logger);
    return content(sink->path()).substr(begin);
  };
  std::uint64_t reads = 0;
  const std::string together = file_of("together", [&](Logger& logger) {
    reads = host_reads();
    logger.histograms(1, named);
    reads = host_reads() - reads;
  });
  EXPECT_EQ(reads, 2U) << "f32 and i64";
  EXPECT_EQ(together, file_of("alone", [&](Logger& logger) {
              for (const auto& [name, values] : named) logger.histogram(1, name, values);
            }));
}

/// The image in an event, by libpng's decoder, and what the event says of its size.
std::pair<Tensor, Shape> image_in(const Message& event, const std::string& name) {
  EXPECT_EQ(event.message(5).message(1).text(1), name);
  const Message image = event.message(5).message(1).message(4);
  const std::string png = image.text(4);
  return {data::decode_image(std::as_bytes(std::span(png))),
          {image.integer(3), image.integer(1), image.integer(2)}};
}

TEST_F(TensorBoard, ImagesArePngs) {
  if (!data::have_png()) GTEST_SKIP() << "a build without libpng";
  const Tensor rgb = (arange(2 * 3 * 5) * 7).reshape({3, 2, 5}).to(DType::u8);
  const Tensor rgba = (255 - arange(4 * 6)).reshape({4, 3, 2}).to(DType::u8);
  const Tensor reals = tensor({-1.0, 0.0, 0.25, 0.999, 1.0, 3.0}).reshape({2, 3});
  {
    Logger logger({TensorBoardSink(path("tb/run"))}, at_time(5));
    logger.image(7, "rgb", rgb);
    logger.image(7, "rgba", rgba.permute({0, 2, 1}));
    for (const DType dtype : {DType::f64, DType::f32, DType::f16}) logger.image(8, "gray", reals.to(dtype));
  }
  const std::vector<Message> found = events(only_file());
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[1].integer(2), 7);
  EXPECT_EQ(found[1].real(1), 5);
  const auto [first, first_shape] = image_in(found[1], "rgb");
  EXPECT_TRUE(equal(first, rgb));
  EXPECT_EQ(first_shape, (Shape{3, 2, 5}));
  const auto [second, second_shape] = image_in(found[2], "rgba");
  EXPECT_TRUE(equal(second, rgba.permute({0, 2, 1})));
  EXPECT_EQ(second_shape, (Shape{4, 2, 3}));
  // numpy: (x * 255).clip(0, 255).astype(uint8); in f16 0.999 is 0.99902, whose 254.75 is rounded down, too.
  for (std::size_t i = 3; i < 6; ++i) {
    const auto [gray, shape] = image_in(found[i], "gray");
    EXPECT_EQ(gray.to_vector<int>(), (std::vector<int>{0, 0, 63, 254, 255, 255}));
    EXPECT_EQ(shape, (Shape{1, 2, 3}));
  }
}

/// Rows of 8 with lines of 2: image i begins at row 2 + (i / 8) * (H + 2), column 2 + (i % 8) * (W + 2).
TEST_F(TensorBoard, ABatchIsAGrid) {
  if (!data::have_png()) GTEST_SKIP() << "a build without libpng";
  const Tensor batch = (arange(10 * 3 * 2 * 4) % 255 + 1).reshape({10, 3, 2, 4}).to(DType::u8);
  {
    Logger logger({TensorBoardSink(path("tb/run"))}, at_time(5));
    logger.image(1, "ten", batch);
    logger.image(1, "three", batch.narrow(0, 0, 3));
    logger.image(1, "one", batch.narrow(0, 4, 1));
  }
  const std::vector<Message> found = events(only_file());
  const auto [grid, shape] = image_in(found.at(1), "ten");
  ASSERT_EQ(shape, (Shape{3, 2 * 4 + 2, 8 * 6 + 2}));
  std::vector<int> wanted(3 * 10 * 50);
  const std::vector<int> pixels = batch.to_vector<int>();
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t image = i / 24, channel = i / 8 % 3, row = i / 4 % 2, column = i % 4;
    const std::size_t y = 2 + image / 8 * 4 + row, x = 2 + image % 8 * 6 + column;
    wanted[(channel * 10 + y) * 50 + x] = pixels[i];
  }
  EXPECT_EQ(grid.to_vector<int>(), wanted);
  EXPECT_EQ(image_in(found.at(2), "three").second, (Shape{3, 6, 20}));
  EXPECT_TRUE(equal(image_in(found.at(3), "one").first, batch[4])) << "as it is, without lines";
}

TEST_F(TensorBoard, AResumedRunHasAFileOfItsOwnAndDropsLaterSteps) {
  TensorBoardSink first(path("tb/run")), second(path("tb/run"));
  EXPECT_NE(first.path(), second.path());
  second.resume(41);
  second.resume(std::numeric_limits<std::int64_t>::max());
  const std::vector<Message> found = events(second.path());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].integer(2), 42);
  EXPECT_EQ(found[1].message(7).integer(1), 1) << "SessionLog START";
}

TEST_F(TensorBoard, AFolderThatCannotBeMadeIsRefused) {
  put(path("file"), "x");
  EXPECT_EQ(mezzo::test::message_of<IoError>([&] { return TensorBoardSink(path("file/run")), 0; }),
            "write '" + path("file/run") +
                "': expected a folder that can be made, got Not a directory; choose "
                "another path, or check permissions");
  EXPECT_THROW(TensorBoardSink(path("file")), IoError);
}

}  // namespace
}  // namespace mezzo::train
