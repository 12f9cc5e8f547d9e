// Value: what it accepts, refuses, equals and prints. Numbers are checked against strtod and printf, UTF-8
// against the definition of the encoding.
#include "mezzo/core/value.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/tests/core/value_printer.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMinInt = std::numeric_limits<std::int64_t>::min();

using test::message_of;

TEST(Value, TakesEachTypeAsItsKind) {
  EXPECT_TRUE(Value().is_null());
  EXPECT_TRUE(Value(nullptr).is_null());
  EXPECT_EQ(Value(true).kind(), Value::Kind::boolean);
  EXPECT_EQ(Value(std::int8_t{-3}).as_int(), -3);
  EXPECT_EQ(Value(7U).as_int(), 7);
  EXPECT_EQ(Value(std::size_t{9}).as_int(), 9);
  EXPECT_EQ(Value(kMinInt).as_int(), kMinInt);
  EXPECT_EQ(Value(0.1F).as_double(), static_cast<double>(0.1F));
  EXPECT_EQ(Value("text").as_string(), "text");  // and not a bool made from a pointer
  EXPECT_EQ(Value(std::string_view("view")).as_string(), "view");
  EXPECT_EQ(Value(Value::List{1, "b"}).size(), 2U);
  EXPECT_EQ(Value(Value::Map{{"a", 1}}).size(), 1U);
  static_assert(!std::is_constructible_v<Value, int*> && !std::is_constructible_v<Value, char>);
  static_assert(!std::is_constructible_v<Value, std::vector<int*>>);
  static_assert(std::is_nothrow_move_constructible_v<Value>);
}

TEST(Value, TakesVectorsSpansAndOptionals) {
  const std::vector<std::int64_t> shape{2, 3};
  EXPECT_EQ(Value(shape), Value(Value::List{2, 3}));
  EXPECT_EQ(Value(std::span<const std::int64_t>(shape)), Value(Value::List{2, 3}));
  EXPECT_EQ(Value(std::vector<bool>{true, false}), Value(Value::List{true, false}));
  EXPECT_EQ(Value(std::vector<std::vector<double>>{{1.5}, {}}),
            Value(Value::List{Value::List{1.5}, Value::List{}}));
  EXPECT_EQ(Value(std::optional<double>(0.5)), Value(0.5));
  EXPECT_TRUE(Value(std::optional<double>()).is_null());
}

TEST(Value, ListNestsASingleList) {
  const Value nested = Value::list(Value::list(1));
  EXPECT_EQ(nested.size(), 1U);
  EXPECT_EQ(nested.at(0), Value(Value::List{1}));
  EXPECT_EQ(Value::list(), Value(Value::List{}));
  EXPECT_EQ(Value::list(1, "a", nullptr, true), Value(Value::List{1, "a", nullptr, true}));
}

TEST(Value, RefusesUnsignedIntegersThatDoNotFit) {
  EXPECT_EQ(Value(static_cast<std::uint64_t>(kMaxInt)).as_int(), kMaxInt);
  EXPECT_NE(message_of<ValueError>([] {
              static_cast<void>(Value(std::uint64_t{1} << 63U));
            }).find("9223372036854775808"),
            std::string::npos);
}

TEST(Value, AccessAsAnotherKindNamesBoth) {
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(Value("abc").as_int()); }),
            "Value::as_int: expected an int, got string \"abc\"; check where the value was made");
  EXPECT_EQ(message_of<ValueError>([] {
              static_cast<void>(Value(Value::List{1, 2}).as_map());
            }),
            "Value::as_map: expected a map, got list of 2; check where the value was made");
  EXPECT_THROW(static_cast<void>(Value(3.0).as_int()), ValueError);
  EXPECT_THROW(static_cast<void>(Value(1).as_bool()), ValueError);
  EXPECT_THROW(static_cast<void>(Value(true).as_double()), ValueError);
  EXPECT_THROW(static_cast<void>(Value(1).as_string()), ValueError);
  EXPECT_THROW(static_cast<void>(Value().as_list()), ValueError);
  EXPECT_THROW(static_cast<void>(Value("ab").size()), ValueError);
  EXPECT_THROW(static_cast<void>(Value(Value::List{}).find("a")), ValueError);
}

TEST(Value, AsDoubleTakesIntegersAndTheNamesOfNonFiniteNumbers) {
  EXPECT_EQ(Value(3).as_double(), 3.0);
  EXPECT_EQ(Value("inf").as_double(), kInf);
  EXPECT_EQ(Value("-inf").as_double(), -kInf);
  EXPECT_TRUE(std::isnan(Value("nan").as_double()));
  EXPECT_THROW(static_cast<void>(Value("Inf").as_double()), ValueError);
  EXPECT_THROW(static_cast<void>(Value("1.0").as_double()), ValueError);
}

TEST(Value, MapsFindByKeyAndKeepTheirOrder) {
  const Value map = Value::Map{{"b", 1}, {"a", 2}};
  EXPECT_EQ(map.at("a").as_int(), 2);
  EXPECT_EQ(map.find("c"), nullptr);
  EXPECT_TRUE(map.contains("b"));
  EXPECT_EQ(map.as_map()[0].first, "b");
  EXPECT_EQ(message_of<ValueError>([&] { static_cast<void>(map.at("c")); }),
            "Value::at: expected the key \"c\", got a map with the keys \"b\", \"a\"; check the spelling");
}

TEST(Value, ListsAreIndexedWithinBounds) {
  const Value list = Value::List{"x", "y"};
  EXPECT_EQ(list.at(0).as_string(), "x");
  EXPECT_EQ(list.at(1), Value("y"));
  EXPECT_THROW(static_cast<void>(list.at(2)), IndexError);
}

TEST(Value, SetAndPushBackBuildFromNull) {
  Value map;
  map.set("a", 1).set("b", 2).set("a", 3);
  EXPECT_EQ(map, Value(Value::Map{{"a", 3}, {"b", 2}}));
  EXPECT_EQ(map.as_map()[0].first, "a");
  map.set("self", map);  // the argument is a copy, not a view of the map that grows
  EXPECT_EQ(map.at("self").size(), 2U);
  Value list;
  list.push_back(1).push_back("b");
  EXPECT_EQ(list, Value(Value::List{1, "b"}));
  EXPECT_THROW(list.set("a", 1), ValueError);
  EXPECT_THROW(map.push_back(1), ValueError);
}

TEST(Value, CopiesAreDeepAndMovesLeaveTheirKind) {
  const Value all = Value::list(Value(), true, 3, 0.5, "text", Value::list(1, 2), Value::Map{{"a", 1}});
  Value copy = all;
  EXPECT_EQ(copy, all);
  copy.push_back("more");
  EXPECT_EQ(all.size(), 7U);
  Value moved = std::move(copy);
  EXPECT_EQ(moved.size(), 8U);
  EXPECT_TRUE(copy.is_list());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(copy.size(), 0U);
}

TEST(Value, TakesTheAssignmentOfAPartOfItselfAndOfItself) {
  Value value = Value::list(Value::Map{{"a", "a text that is too long to lie inside of a string"}}, 1);
  const Value first = value.at(0);
  value = value.at(0);
  EXPECT_EQ(value, first);
  Value& same = value;
  value = same;
  EXPECT_EQ(value, first);
  value = std::move(const_cast<Value&>(value.at("a")));
  EXPECT_EQ(value.as_string(), "a text that is too long to lie inside of a string");
  value = 1.5;
  EXPECT_EQ(value.as_double(), 1.5);
}

TEST(Value, RefusesMapsWithAKeyTwiceSmallAndLarge) {
  EXPECT_THROW(Value(Value::Map{{"a", 1}, {"b", 2}, {"a", 1}}), ValueError);
  Value::Map large;
  for (int i = 0; i < 1000; ++i) large.emplace_back("key" + std::to_string(i), i);
  EXPECT_EQ(Value::duplicate_key(large), nullptr);
  EXPECT_EQ(Value(large).size(), 1000U);
  large.emplace_back("key500", 0);
  EXPECT_EQ(*Value::duplicate_key(large), "key500");
  EXPECT_THROW(Value{large}, ValueError);
}

TEST(Value, EqualityIsByKindAndContent) {
  EXPECT_EQ(Value(1), Value(1));
  EXPECT_FALSE(Value(1) == Value(1.0));
  EXPECT_FALSE(Value(1) == Value(true));
  EXPECT_FALSE(Value() == Value(false));
  EXPECT_EQ(Value(kNan), Value(-kNan));
  EXPECT_EQ(Value(0.0), Value(-0.0));
  EXPECT_EQ(Value(Value::Map{{"a", 1}, {"b", 2}}), Value(Value::Map{{"b", 2}, {"a", 1}}));
  EXPECT_FALSE(Value(Value::Map{{"a", 1}, {"b", 2}}) == Value(Value::Map{{"a", 1}, {"c", 2}}));
  EXPECT_FALSE(Value(Value::Map{{"a", 1}}) == Value(Value::Map{{"a", 1}, {"b", 2}}));
  EXPECT_FALSE(Value(Value::Map{{"a", Value::List{1, 2}}}) == Value(Value::Map{{"a", Value::List{2, 1}}}));
}

TEST(Value, PrintsCompactAndIndentedJson) {
  const Value value = Value::Map{{"n", nullptr},
                                 {"t", true},
                                 {"i", kMinInt},
                                 {"l", Value::List{1, "x"}},
                                 {"m", Value::Map{{"e", Value::List{}}}},
                                 {"ll", Value::list(Value::list(1))}};
  EXPECT_EQ(value.to_string(),
            R"({"n":null,"t":true,"i":-9223372036854775808,"l":[1,"x"],"m":{"e":[]},"ll":[[1]]})");
  EXPECT_EQ(value.to_string(2),
            "{\n  \"n\": null,\n  \"t\": true,\n  \"i\": -9223372036854775808,\n  \"l\": [1, \"x\"],\n"
            "  \"m\": {\n    \"e\": []\n  },\n  \"ll\": [\n    [1]\n  ]\n}");
  EXPECT_EQ(Value(Value::Map{}).to_string(2), "{}");
}

TEST(Value, PrintsNonFiniteNumbersAsStrings) {
  EXPECT_EQ(Value(Value::List{kInf, -kInf, kNan}).to_string(), R"(["inf","-inf","nan"])");
}

TEST(Value, PrintsDoublesAsTheShortestTextThatReadsBackToTheSameBits) {
  std::mt19937_64 random(1);
  std::vector<double> values{
      0.0,     -0.0,   1.0, 0.1, 1e22, 1e300, 5e-324, 0x1p-1022, std::numeric_limits<double>::max(),
      1.0 / 3, 65536.0};
  while (values.size() < 3000) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const double value : values) {
    const std::string text = Value(value).to_string();
    EXPECT_EQ(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)),
              std::bit_cast<std::uint64_t>(value));
    EXPECT_NE(text.find_first_of(".e"), std::string::npos) << text << " would read back as an int";
    int digits = 1;  // the fewest with which printf's correctly rounded text reads back
    std::array<char, 64> buffer{};
    for (; digits <= 17; ++digits) {
      std::snprintf(buffer.data(), buffer.size(), "%.*e", digits - 1, value);
      if (std::strtod(buffer.data(), nullptr) == value) break;
    }
    const std::size_t added = text.ends_with(".0") ? 2 : 0;  // what tells a double from an int
    EXPECT_LE(text.size() - added, std::strlen(buffer.data())) << text;
  }
}

TEST(Value, EscapesStrings) {
  EXPECT_EQ(Value("a\"b\\c\n\t\r\b\f\x01\x1f\x7f/\xC3\xA9").to_string(),
            "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\\u007f/\xC3\xA9\"");
  EXPECT_EQ(Value(std::string("a\0b", 3)).to_string(), "\"a\\u0000b\"");
  EXPECT_EQ(Value("a\xFF\xC3").to_string(), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(Utf8, AcceptsExactlyTheShortestEncodingsOfScalarValues) {
  // Every bit pattern of 2, 3 and 4 byte form; by definition it is well-formed when the code point needs that
  // length, is no surrogate and is at most U+10FFFF.
  constexpr std::array<std::uint32_t, 5> kFirstOfLength{0, 0, 0x80, 0x800, 0x10000};
  constexpr std::array<std::uint32_t, 5> kEndOfForm{0, 0x80, 0x800, 0x10000, 0x200000};
  constexpr std::array<std::uint32_t, 5> kLead{0, 0, 0xC0, 0xE0, 0xF0};
  for (std::size_t length = 2; length <= 4; ++length) {
    for (std::uint32_t code = 0; code < kEndOfForm[length]; ++code) {
      std::string text(length, '\0');
      std::uint32_t rest = code;
      for (std::size_t i = length - 1; i > 0; --i, rest >>= 6U)
        text[i] = static_cast<char>(0x80U | (rest & 0x3FU));
      text[0] = static_cast<char>(kLead[length] | rest);
      const bool expected =
          code >= kFirstOfLength[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
      ASSERT_EQ(is_valid_utf8(text), expected) << std::hex << code << " in " << length << " bytes";
      if (code % 64 == 0) {
        ASSERT_FALSE(is_valid_utf8(std::string_view(text).substr(0, length - 1)));
      }
    }
  }
  EXPECT_TRUE(is_valid_utf8(""));
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(is_valid_utf8(std::string(1, static_cast<char>(byte))), byte < 0x80) << byte;
  }
  EXPECT_FALSE(is_valid_utf8("\xC3\x28"));
  EXPECT_FALSE(is_valid_utf8("ok\xF8\x88\x80\x80\x80"));
}

TEST(Quote, CutsBetweenCharacters) {
  EXPECT_EQ(quote("abc"), "\"abc\"");
  EXPECT_EQ(quote("abc", 3), "\"abc\"");
  EXPECT_EQ(quote("abcd", 3), "\"abc\"...");
  EXPECT_EQ(quote("ab\xE2\x82\xAC", 3), "\"ab\"...");
  EXPECT_EQ(quote("ab\xE2\x82\xAC", 5), "\"ab\xE2\x82\xAC\"");
}

}  // namespace
}  // namespace mezzo
