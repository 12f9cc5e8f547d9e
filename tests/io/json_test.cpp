// JSON text: what is accepted and refused follows RFC 8259 and the limits; errors are checked down to the
// position; values survive writing and reading.
#include "mezzo/io/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/tests/core/value_printer.h"
#include "mezzo/tests/support/host_floats.h"

namespace mezzo::io {
namespace {

std::string parse_error(std::string_view text, const JsonLimits& limits = {}) {
  try {
    const Value value = parse_json(text, limits);
    ADD_FAILURE() << "accepted as " << value.to_string();
  } catch (const IoError& error) {
    return error.what();
  }
  return {};
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string temporary_path(const std::string& name) {
  return ::testing::TempDir() + "mezzo_json_" + std::to_string(::getpid()) + "_" + name;
}

TEST(Json, ReadsEveryKind) {
  const Value expected = Value::Map{{"n", nullptr},
                                    {"t", true},
                                    {"f", false},
                                    {"i", -12},
                                    {"d", 1.5},
                                    {"e", 1e3},
                                    {"s", "a\n\xE2\x82\xAC"},
                                    {"l", Value::List{1, Value::List{}, Value::Map{}}}};
  EXPECT_EQ(
      parse_json(R"( {"n":null,"t":true,"f":false,"i":-12,"d":1.5,"e":1E3,"s":"a\n\u20ac","l":[1,[],{}]} )"),
      expected);
  EXPECT_EQ(parse_json("3"), Value(3));
  EXPECT_EQ(parse_json(R"("\ud83d\ude00")"), Value("\xF0\x9F\x98\x80"));
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"z":1,"a":2,"m":3})").to_string(), R"({"z":1,"a":2,"m":3})");
}

TEST(Json, IntegersBeyond64BitsBecomeDoubles) {
  EXPECT_EQ(parse_json("9223372036854775807"), Value(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(parse_json("-9223372036854775808"), Value(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(parse_json("9223372036854775808"), Value(0x1p63));
  EXPECT_EQ(parse_json("18446744073709551615"), Value(0x1p64));
  EXPECT_EQ(parse_json("18446744073709551616"), Value(0x1p64));
  EXPECT_EQ(parse_json("-9223372036854775809"), Value(-0x1p63));
  EXPECT_EQ(parse_json("100000000000000000000000000000"), Value(1e29));
  EXPECT_EQ(parse_json("1.0"), Value(1.0));  // a double stays one
}

TEST(Json, RefusesNumbersBeyondTheRangeOfDouble) {
  EXPECT_NE(parse_error("[1e999]").find("number overflow"), std::string::npos);
  EXPECT_NE(parse_error("[1" + std::string(400, '0') + "]").find("number overflow"), std::string::npos);
  EXPECT_EQ(parse_json("1e-999"), Value(0.0));
}

TEST(Json, NumbersAreTheSameInEveryFloatingPointEnvironment) {
  const std::pair<const char*, std::uint64_t> numbers[] = {
      {"0.1", 0x3fb999999999999a},       {"0.3", 0x3fd3333333333333},
      {"-0.7", 0xbfe6666666666666},      {"1e+23", 0x44b52d02c7e14af6},
      {"12345.678", 0x40c81cd6c8b43958}, {"2.2250738585072014e-308", 0x0010000000000000},
      {"1e-310", 0x000012688b70e62b},    {"5e-324", 0x0000000000000001}};
  for (const test::FloatSetting& setting : test::float_settings()) {
    for (const auto& [text, bits] : numbers) {
      std::uint64_t read = 0;
      std::string written;
      {
        const test::HostFloats host(setting);
        read = std::bit_cast<std::uint64_t>(parse_json(text).as_double());
        written = dump_json(Value(std::bit_cast<double>(bits)));
      }
      EXPECT_EQ(read, bits) << text << ", rounding " << setting.rounding << ", flush " << setting.flush;
      EXPECT_EQ(written, text) << "rounding " << setting.rounding << ", flush " << setting.flush;
    }
  }
}

TEST(Json, RefusesMalformedText) {
  for (const char* text :
       {"",           " ",           "{",        "}",        "[1,]",         "[1 2]",
        "{\"a\":1,}", "{\"a\"}",     "{a:1}",    "[1]x",     "{} {}",        "nul",
        "True",       "NaN",         "Infinity", "-",        "+1",           "01",
        "1.",         ".5",          "1e",       "'a'",      "\"a",          "\"\\x\"",
        "\"\\u12\"",  "\"\\ud800\"", "\"a\nb\"", "\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
        "// c\n1",    "/* c */ 1",   "[1]]",     "\xEF\xBB"}) {
    EXPECT_THROW(static_cast<void>(parse_json(text)), IoError) << text;
  }
}

TEST(Json, ErrorsTellLineColumnAndByte) {
  const std::string message = parse_error("{\n  \"a\": 1,\n  \"b\": x\n}");
  EXPECT_EQ(message.find("parse_json: expected JSON, got syntax error"), 0U) << message;
  EXPECT_NE(message.find("at line 3, column 8 (byte 20); correct the text there"), std::string::npos)
      << message;
  EXPECT_NE(parse_error("[1,").find("unexpected end of input"), std::string::npos);
  EXPECT_NE(parse_error("[1,").find("at line 1, column 4 (byte 4)"), std::string::npos);
}

TEST(Json, ErrorsStayShortAndPrintable) {
  const std::string message = parse_error("[\"" + std::string(100000, 'x') + "\n\"]");
  EXPECT_LT(message.size(), 500U);
  for (const char c : parse_error("[\"" + std::string(3000, '\xFE') + "\x1b[31m")) {
    ASSERT_GE(static_cast<unsigned char>(c), 0x20);
  }
}

TEST(Json, RefusesZeroBytesWhereverTheyAre) {
  using namespace std::string_view_literals;
  EXPECT_NE(parse_error("{}\0"sv).find("a zero byte at line 1, column 3 (byte 3)"), std::string::npos);
  EXPECT_NE(parse_error("{}\0{\"hidden\":1}"sv).find("a zero byte"), std::string::npos);
}

TEST(Json, RefusesDuplicateKeysAtAnyLevel) {
  EXPECT_NE(parse_error(R"({"a":1,"b":2,"a":3})")
                .find("the key \"a\" twice in the map ending at line 1, column 19"),
            std::string::npos);
  EXPECT_THROW(static_cast<void>(parse_json(R"([{"x":{"a":1,"\u0061":2}}])")), IoError);
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2}])").size(), 2U);
}

TEST(Json, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_TRUE(parse_json(nested(128)).is_list());
  EXPECT_NE(parse_error(nested(129))
                .find("expected at most 128 levels of lists and maps, got another at line 1, column 129"),
            std::string::npos);
  EXPECT_THROW(static_cast<void>(parse_json(repeated("{\"a\":", 1'000'000))), IoError);
  EXPECT_THROW(static_cast<void>(parse_json(repeated("[", 1'000'000))), IoError);
  EXPECT_EQ(parse_json("1", {.max_depth = 0}), Value(1));
  EXPECT_NE(parse_error("[]", {.max_depth = 0}).find("at most 0 levels"), std::string::npos);
}

TEST(Json, BoundsTheNumberOfValues) {
  EXPECT_EQ(parse_json("[1,2,3]", {.max_values = 4}).size(), 3U);
  EXPECT_NE(parse_error("[1,2,3]", {.max_values = 3}).find("at most 3 values"), std::string::npos);
  EXPECT_NE(parse_error("[[],{}]", {.max_values = 2}).find("at most 2 values"), std::string::npos);
}

/// A value of any kind; lists and maps nest at most `depth` times.
Value random_value(std::mt19937_64& random, int depth) {
  const std::uint64_t kind = random() % (depth > 0 ? 7 : 5);
  const std::size_t count = random() % 5;
  if (kind == 0) return nullptr;
  if (kind == 1) return random() % 2 == 0;
  if (kind == 2) return static_cast<std::int64_t>(random() >> (random() % 64));
  if (kind == 3) return static_cast<double>(static_cast<std::int64_t>(random())) * 1e-9;
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += random() % 4 == 0 ? "\xC3\xA9" : std::string(1, static_cast<char>(random() % 128));
  if (kind == 4) return text;
  Value value = kind == 5 ? Value(Value::List{}) : Value(Value::Map{});
  for (std::size_t i = 0; i < count; ++i) {
    if (kind == 5) value.push_back(random_value(random, depth - 1));
    if (kind == 6) value.set(text + std::to_string(i), random_value(random, depth - 1));
  }
  return value;
}

TEST(Json, WhatIsWrittenReadsBackEqual) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Value value = random_value(random, 5);
    ASSERT_EQ(parse_json(dump_json(value)), value);
    ASSERT_EQ(parse_json(dump_json(value, 2)), value);
  }
}

TEST(Json, RandomDamageIsReadOrRefusedButNeverCrashes) {
  std::mt19937_64 random(3);
  const std::string valid =
      R"({"a":[1,-2.5e3,true,null,"\u00e9\n"],"b":{"c":{},"d":"x"},"e":12345678901234567890})";
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = valid;
    for (std::uint64_t edits = random() % 3 + 1; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char byte = random() % 2 == 0 ? static_cast<char>(random()) : "{}[]\",:\\0e-"[random() % 11];
      if (random() % 3 == 0)
        text.erase(at, 1);
      else if (random() % 2 == 0)
        text.insert(at, 1, byte);
      else
        text[at] = byte;
    }
    try {
      const Value value = parse_json(text);
      ASSERT_EQ(parse_json(value.to_string()), value) << text;
      ++accepted;
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 4900);
}

TEST(JsonFile, RoundTripsAndEndsWithALineBreak) {
  const std::string path = temporary_path("round.json");
  const Value value = Value::Map{{"a", 1}, {"b", Value::List{0.5, "x"}}};
  write_json_file(path, value);
  EXPECT_EQ(read_json_file(path), value);
  const std::vector<std::byte> bytes = read_file(path);
  EXPECT_EQ(static_cast<char>(bytes.back()), '\n');
  std::filesystem::remove(path);
}

TEST(JsonFile, ErrorsNameTheFile) {
  const std::string path = temporary_path("bad.json");
  std::ofstream(path) << "{\n!}";
  try {
    static_cast<void>(read_json_file(path));
    ADD_FAILURE();
  } catch (const IoError& error) {
    EXPECT_EQ(error.op(), "read_json_file '" + path + "'");
    EXPECT_NE(error.got().find("line 2, column 1 (byte 3)"), std::string::npos) << error.got();
  }
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(read_json_file(path)), IoError);
}

}  // namespace
}  // namespace mezzo::io
