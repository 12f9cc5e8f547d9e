// CSV: what RFC 4180 and pandas.read_csv say a text means, and what is refused.
#include "mezzo/data/csv.h"

#include <cmath>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;
using Texts = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Csv : public TemporaryFolder {
 protected:
  Table read(const std::string& text, const CsvOptions& options = {}) {
    return read_csv(write("t.csv", text), options);
  }
  /// The one column of values given one to a line.
  Column column(const std::string& lines, const CsvOptions& options = {}) {
    return read("x\n" + lines, options).column("x");
  }
  template <class E>
  std::string refused(const std::string& text, const CsvOptions& options = {}) {
    std::string message = message_of<E>([&] { return read(text, options); });
    const std::string start = "read_csv '" + path("t.csv") + "': ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(start.size());
  }
};

void expect_reals(const Column& column, const std::vector<double>& wanted) {
  ASSERT_EQ(column.type, ColumnType::f64);
  ASSERT_EQ(column.reals.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(column.reals[i])) << i;
      continue;
    }
    EXPECT_EQ(column.reals[i], wanted[i]) << i;
    EXPECT_EQ(std::signbit(column.reals[i]), std::signbit(wanted[i])) << i;
  }
}

TEST_F(Csv, TypesFollowFromTheValues) {
  const Table table = read("id,length,species\n1,2.5,cat\n2,-3,dog\n3,1e2,cat\n");
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.names(), (Texts{"id", "length", "species"}));
  EXPECT_EQ(table.column("id").type, ColumnType::i64);
  EXPECT_EQ(table.column("id").integers, (Integers{1, 2, 3}));
  expect_reals(table.column("length"), {2.5, -3, 100});
  EXPECT_EQ(table.column("species").type, ColumnType::text);
  EXPECT_EQ(table.text("species"), (Texts{"cat", "dog", "cat"}));
}

TEST_F(Csv, QuotesHoldDelimitersLineBreaksAndQuotes) {
  const Table table =
      read("a,b\n\"x,y\",\"he said \"\"no\"\"\"\n\"two\r\nlines\",\"\"\n\"\"\"\",\"5\"\nq\"q,7");
  EXPECT_EQ(table.text("a"), (Texts{"x,y", "two\r\nlines", "\"", "q\"q"}));
  EXPECT_EQ(table.text("b"), (Texts{"he said \"no\"", "", "5", "7"}));
}

TEST_F(Csv, EveryKindOfLineEnd) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string line = end;
    for (const std::string& last : {line, std::string(), line + line}) {
      const Table table = read("a,b" + line + "1,x" + line + line + "2,y" + last);
      EXPECT_EQ(table.column("a").integers, (Integers{1, 2}));
      EXPECT_EQ(table.text("b"), (Texts{"x", "y"}));
    }
  }
}

TEST_F(Csv, AByteOrderMarkIsNoText) {
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a\n1\n")
                .names(),
            (Texts{"a"}));
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "\"a,b\"\n1\n")
                .names(),
            (Texts{"a,b"}));
}

TEST_F(Csv, OtherDelimitersAndQuotes) {
  const Table table = read("a;b\n'1;5';2,5\n", {.delimiter = ';', .quote = '\''});
  EXPECT_EQ(table.text("a"), (Texts{"1;5"}));
  EXPECT_EQ(table.text("b"), (Texts{"2,5"}));
  EXPECT_EQ(read("a\tb\n1\t2\n", {.delimiter = '\t'}).column("b").integers, (Integers{2}));
}

TEST_F(Csv, DecimalCommas) {
  const CsvOptions options{.delimiter = ';', .decimal = ','};
  const Table table = read("x;y;z\n1,5;2;1.5\n-,25e1;+3;2\n\"7,0\";4;3", options);
  expect_reals(table.column("x"), {1.5, -2.5, 7.0});
  EXPECT_EQ(table.column("y").integers, (Integers{2, 3, 4}));
  EXPECT_EQ(table.column("z").type, ColumnType::text) << "a point is none then, as in pandas";
  EXPECT_EQ(read("x;y\n1,2,3;1", options).column("x").type, ColumnType::text);
  EXPECT_EQ(
      message_of<ValueError>([&] { return read("x\n1", {.decimal = ','}); }),
      "read_csv: expected a .decimal and a .comment that differ from .delimiter and .quote, got \",\" and "
      "\"\\u0000\"; give another .delimiter");
}

TEST_F(Csv, Comments) {
  const CsvOptions options{.comment = '#'};
  const std::string text = "# made by hand\n\n#\nx,y # names\n1,2\n# 3,4\r\n5,#6\n\"#7\",8#\n9,10\n# end";
  const Table table = read(text, options);
  EXPECT_EQ(table.names(), (Texts{"x", "y "}));
  EXPECT_EQ(table.column("x").type, ColumnType::text) << "a sign in quotes is text";
  EXPECT_EQ(table.column("x").text(2), "#7");
  expect_reals(table.column("y "), {2, kNaN, 8, 10});
  EXPECT_EQ(read("x\n1#2", {}).column("x").type, ColumnType::text) << "without the option";
  EXPECT_EQ(refused<IoError>("a,b\n1,2\n#\n3#,4\n", options).substr(0, 37),
            "expected 2 fields in line 4, got 1; w");
}

TEST_F(Csv, TrueAndFalse) {
  EXPECT_EQ(column("True\nFalse\nTRUE\nfalse\ntrue\nFALSE").integers, (Integers{1, 0, 1, 0, 1, 0}));
  expect_reals(column("True\n\nNA\n0.5"), {1, kNaN, 0.5});
  const Column texts = column("True\ntRUE\nFalse");
  ASSERT_EQ(texts.type, ColumnType::text);
  EXPECT_EQ(texts.text(0), "True") << "as it was written";
  EXPECT_EQ(column("-True").type, ColumnType::text);
}

TEST_F(Csv, WithoutAHeader) {
  const Table table = read("1,x\n2,y\n", {.header = false});
  EXPECT_EQ(table.names(), (Texts{"0", "1"}));
  EXPECT_EQ(table.column("0").integers, (Integers{1, 2}));
  EXPECT_EQ(read("1,x\n2,y\n", {.header = false, .names = {"a", "b"}}).text("b"), (Texts{"x", "y"}));
  EXPECT_EQ(read("p,q\n2,y\n", {.names = {"a", "b"}}).text("b"), (Texts{"y"}));
}

TEST_F(Csv, ColumnsAreTakenInTheOrderAskedFor) {
  const std::string text = "a,b,c,d\n1,2,3,4\n5,6,7,8\n";
  const Table table = read(text, {.columns = {"d", "a"}});
  EXPECT_EQ(table.names(), (Texts{"d", "a"}));
  EXPECT_EQ(table.tensor({}, {.dtype = DType::i64}).to_vector<int>(), (std::vector<int>{4, 1, 8, 5}));
  EXPECT_EQ(read(text, {.columns = {2, "b"}}).names(), (Texts{"c", "b"}));
  // Those that are not taken may hold anything.
  EXPECT_EQ(read("a,a,b\n1,x,2\n", {.columns = {0, 2}}).names(), (Texts{"a", "b"}));
}

TEST_F(Csv, Integers) {
  const Column found = column("0\n-0\n+7\n007\n 12 \n\"3\"\n9223372036854775807\n-9223372036854775808\n");
  ASSERT_EQ(found.type, ColumnType::i64);
  EXPECT_EQ(found.integers, (Integers{0, 0, 7, 7, 12, 3, std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min()}));
  // One more than 64 bits hold makes the column f64.
  expect_reals(column("1\n9223372036854775808\n"), {1, 9223372036854775808.0});
  expect_reals(column("-9223372036854775809\n9007199254740993\n"),
               {-9223372036854775808.0, 9007199254740992});
  expect_reals(column("1000000000000000000000000000000\n"), {1e30});
}

TEST_F(Csv, Reals) {
  const double inf = std::numeric_limits<double>::infinity();
  expect_reals(column("0.1\n1e5\n1E-5\n.5\n5.\n+1.5\n-0.0\ninf\n-Infinity\nINF\n"),
               {0.1, 1e5, 1e-5, 0.5, 5, 1.5, -0.0, inf, -inf, inf});
  // Beyond the range, as strtod says it.
  expect_reals(column("1e400\n-1e400\n1e-400\n-1e-400\n0.0\n"), {inf, -inf, 0.0, -0.0, 0.0});
  const std::string zeros(400, '0');
  expect_reals(column("1" + zeros + ".0\n0." + zeros + "1\n0." + zeros + "1e800\n1" + zeros + "e-800\n"),
               {inf, 0, inf, 0});
  expect_reals(column("1e99999999999999999999\n1e-99999999999999999999\n"), {inf, 0});
  // Shortest and longest forms read to the same bits as C++ literals.
  expect_reals(column("2.2250738585072014e-308\n4.9406564584124654e-324\n1.7976931348623157e308\n"
                      "0.1000000000000000055511151231257827021181583404541015625\n"),
               {2.2250738585072014e-308, 4.9406564584124654e-324, 1.7976931348623157e308, 0.1});
}

TEST_F(Csv, WhatIsNoNumberIsText) {
  for (const char* word : {"x", "1x", "0x10", "1,5", "1e", "e5", ".", "-", "+", "--1", "+-1", "1 2", "1_000",
                           "nan(5)", "infinit", "tRue", "1.2.3", "-.", "inf1"}) {
    const std::string line = "\"" + std::string(word) + "\"\n";
    EXPECT_EQ(column(line).text(0), word) << word;
    EXPECT_EQ(column("5\n" + line).type, ColumnType::text) << word;
  }
}

TEST_F(Csv, NumbersBeforeATextAreTextAsTheyWereWritten) {
  const Column found = column("007\n1.50\n\n \" 2\"\nNA\nx\n-0\n");
  ASSERT_EQ(found.type, ColumnType::text);
  ASSERT_EQ(found.size(), 6);
  const Texts wanted{"007", "1.50", " \" 2\"", "", "x", "-0"};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found.text(i), wanted[i]);
}

TEST_F(Csv, IntegersBeforeARealAreTheSameAsReals) {
  expect_reals(column("-0\n9007199254740993\n0.5\n"), {-0.0, 9007199254740992, 0.5});
  expect_reals(column("0.5\n-0\n"), {0.5, -0.0});
}

TEST_F(Csv, MissingValuesAmongNumbers) {
  expect_reals(column("1\nNA\n3\n"), {1, kNaN, 3});
  expect_reals(column("NaN\n\"\"\n3\n"), {kNaN, kNaN, 3});
  expect_reals(column("1.5\nnull\n  NA\n"), {1.5, kNaN, kNaN});
  expect_reals(column("NA\nNA\n"), {kNaN, kNaN});
  expect_reals(column(""), {});
  expect_reals(column("1\n-999\n", {.missing = {"-999"}}), {1, kNaN});
  // No longer missing, but NaN all the same; and a word that is none.
  expect_reals(column("1\nnan\n", {.missing = {"?"}}), {1, kNaN});
  EXPECT_EQ(column("1\nNA\n", {.missing = {"?"}}).type, ColumnType::text);
  const std::string longer(70, 'm');
  expect_reals(column("1\n" + longer + "\n", {.missing = {longer}}), {1, kNaN});
}

TEST_F(Csv, AFillValueKeepsIntegers) {
  const CsvOptions options{.fill_value = -1};
  EXPECT_EQ(column("1\nNA\n3\n", options).integers, (Integers{1, -1, 3}));
  EXPECT_EQ(column("NA\n\"\"\n3\n", options).integers, (Integers{-1, -1, 3}));
  // It is for integers: what turns out to be f64 has NaN in these places.
  expect_reals(column("1\nNA\n3.5\n", options), {1, kNaN, 3.5});
  expect_reals(column("NA\n1\n3.5\n", options), {kNaN, 1, 3.5});
}

TEST_F(Csv, MissingTextIsEmpty) {
  const Table table = read("a,b\nx,1\nNA,2\n,3\n");
  EXPECT_EQ(table.text("a"), (Texts{"x", "", ""}));
}

TEST_F(Csv, TypesAskedFor) {
  const Table table =
      read("a,b,c\n1,2,3\n4,5,6\n", {.dtypes = {{"a", ColumnType::f64}, {1, ColumnType::text}}});
  expect_reals(table.column("a"), {1, 4});
  EXPECT_EQ(table.text("b"), (Texts{"2", "5"}));
  EXPECT_EQ(table.column("c").type, ColumnType::i64);
}

TEST_F(Csv, Tensors) {
  const Table table = read("a,b,c\n1,2.5,x\n3,NA,y\n");
  const Tensor pair = table.tensor({"b", "a"});
  EXPECT_EQ(pair.shape(), (Shape{2, 2}));
  EXPECT_EQ(pair.dtype(), DType::f32);
  const std::vector<double> values = pair.to_vector<double>();
  EXPECT_EQ(values[0], 2.5);
  EXPECT_EQ(values[1], 1);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], 3);
  EXPECT_EQ(table.tensor({"a"}, {.dtype = DType::f64}).dtype(), DType::f64);
  EXPECT_EQ(table.tensor({"a"}, {.dtype = DType::u8}).to_vector<int>(), (std::vector<int>{1, 3}));
  // Integers stay exact where doubles would not.
  EXPECT_EQ(read("a\n9007199254740993\n").tensor({}, {.dtype = DType::i64}).item<std::int64_t>(),
            9007199254740993);
  EXPECT_EQ(read("a,b\n").tensor().shape(), (Shape{0, 2}));
  EXPECT_TRUE(table.tensor({"a"}, {.requires_grad = true}).requires_grad());
}

TEST_F(Csv, TensorsThatCannotBe) {
  const Table table = read("a,b,c,d\n1,2.5,x,1.5\n300,NA,y,2\n");
  EXPECT_EQ(message_of<DTypeError>([&] {
              return table.tensor({"a", "c"});
            }),
            "Table::tensor: expected columns of numbers, got \"c\", which is text; use categories(name), or "
            "leave it out");
  EXPECT_EQ(message_of<ValueError>([&] { return table.tensor({"b"}, {.dtype = DType::i64}); }),
            "Table::tensor: expected an integer for i64 in row 0 of column \"b\", got 2.5; take f32 or f64");
  EXPECT_EQ(
      message_of<ValueError>([&] { return read("b\n1\nNA\n").tensor({}, {.dtype = DType::i64}); }),
      "Table::tensor: expected a value for i64 in row 1 of column \"b\", got a missing one; read it with a "
      ".fill_value, or take f32");
  EXPECT_EQ(
      message_of<ValueError>([&] { return table.tensor({"a"}, {.dtype = DType::u8}); }),
      "Table::tensor: expected an integer from 0 to 255 in row 1 of column \"a\", got 300; take a larger "
      "dtype than u8");
  EXPECT_THROW(static_cast<void>(read("a\n-129\n").tensor({}, {.dtype = DType::i8})), ValueError);
  EXPECT_EQ(read("a\n-128\n").tensor({}, {.dtype = DType::i8}).item<int>(), -128);
  EXPECT_THROW(static_cast<void>(read("a\n2\n").tensor({}, {.dtype = DType::boolean})), ValueError);
  EXPECT_THROW(static_cast<void>(read("a\n1e30\n").tensor({}, {.dtype = DType::i64})), ValueError);
  EXPECT_EQ(message_of<ValueError>([&] { return table.tensor({"e"}); }),
            "Table::column: expected the name of a column: \"a\", \"b\", \"c\", \"d\", got \"e\"; check the "
            "spelling");
  EXPECT_EQ(
      message_of<DTypeError>([&] { return table.text("a"); }),
      "Table::text: expected a column of text, got \"a\", which is i64; read it with .dtypes = {{\"a\", "
      "ColumnType::text}}");
}

TEST_F(Csv, CategoriesOfText) {
  const Categories found = read("a,s\n1,dog\n2,cat\n3,NA\n4,dog\n5,eel\n").categories("s");
  EXPECT_EQ(found.names, (Texts{"cat", "dog", "eel"}));
  EXPECT_EQ(found.codes.dtype(), DType::i64);
  EXPECT_EQ(found.codes.to_vector<int>(), (std::vector<int>{1, 0, -1, 1, 2}));
}

TEST_F(Csv, CategoriesOfNumbers) {
  const Table table = read("i,r\n10,1.5\n9,NA\n10,-2\n-3,1.5\n");
  EXPECT_EQ(table.categories("i").names, (Texts{"-3", "9", "10"}));
  EXPECT_EQ(table.categories("i").codes.to_vector<int>(), (std::vector<int>{2, 1, 2, 0}));
  EXPECT_EQ(table.categories("r").names, (Texts{"-2", "1.5"}));
  EXPECT_EQ(table.categories("r").codes.to_vector<int>(), (std::vector<int>{1, -1, 0, 1}));
}

TEST_F(Csv, RowsOfOtherLengthsAreRefused) {
  EXPECT_EQ(
      refused<IoError>("a,b\n1,2\n\"x\ny\",3\n\n4\n"),
      "expected 2 fields in line 6, got 1; write all fields, also empty ones, and quote those that hold a "
      "delimiter");
  EXPECT_EQ(refused<IoError>("a,b\r\n1,2\r\n1,2,3\r\n"),
            "expected 2 fields in line 3, got more; write all fields, also empty ones, and quote those that "
            "hold a delimiter");
}

TEST_F(Csv, QuotesThatDoNotCloseAreRefused) {
  EXPECT_EQ(
      refused<IoError>("a,b\n1,\"2\n3,4\n"),
      "expected a closing quote for the field that begins in line 2, got the end of the file; close the "
      "quote, or double a quote that belongs to the text");
  EXPECT_EQ(refused<IoError>("a,b\n1,\"2\"3\n"),
            "expected a delimiter or the end of the line behind the closing quote in line 2, got other text; "
            "double a quote that belongs to the text");
  EXPECT_NE(refused<IoError>("\"").find("the end of the file"), std::string::npos);
}

TEST_F(Csv, ValuesOfAnotherTypeThanAskedForAreRefused) {
  EXPECT_EQ(
      refused<IoError>("a,age\n1,30\n2,old\n", {.dtypes = {{"age", ColumnType::f64}}}),
      "expected a number in line 3, column 2 (\"age\"), got \"old\"; ask for text, or say in .missing what "
      "it is");
  EXPECT_EQ(refused<IoError>("a,age\n1,30.5\n", {.dtypes = {{"age", ColumnType::i64}}}),
            "expected an integer of 64 bits in line 2, column 2 (\"age\"), got \"30.5\"; ask for f64");
  EXPECT_EQ(refused<IoError>("a,age\n1,NA\n", {.dtypes = {{"age", ColumnType::i64}}}),
            "expected an integer of 64 bits in line 2, column 2 (\"age\"), got a missing value; give a "
            ".fill_value, or ask for f64");
}

TEST_F(Csv, ColumnsThatAreNotThereAreRefused) {
  EXPECT_EQ(refused<ValueError>("a,b\n1,2\n", {.columns = {"c"}}),
            "expected the name of a column: \"a\", \"b\", got \"c\"; check the spelling, .delimiter and "
            ".header");
  EXPECT_EQ(refused<ValueError>("a,b\n1,2\n", {.columns = {2}}), "expected a column from 0 to 1, got 2");
  EXPECT_EQ(refused<ValueError>("a,b\n1,2\n", {.columns = {"a", 0}}),
            "expected distinct columns, got \"a\" twice in .columns; take it once");
  EXPECT_THROW(static_cast<void>(read("a,b\n1,2\n", {.dtypes = {{"c", ColumnType::text}}})), ValueError);
}

TEST_F(Csv, HeadersThatCannotBe) {
  EXPECT_EQ(
      refused<IoError>("a,b,a\n1,2,3\n"),
      "expected distinct names of columns, got \"a\" for column 1 and column 3; give .names, or take one "
      "of them by its number in .columns");
  EXPECT_EQ(refused<IoError>("a,b\n1,2\n", {.names = {"x"}}),
            "expected as many columns as .names, which are 1, got 2; name all columns of the file");
  EXPECT_EQ(refused<IoError>(""), "expected a row, got none; check the path; a table has a row at least");
  EXPECT_EQ(refused<IoError>(std::string(kMaxCsvColumns, ',')),
            "expected at most 131072 columns, got more; check .delimiter");
  EXPECT_EQ(refused<IoError>("\xFF\xFE"
                             "a"),
            "expected text in UTF-8, got text in UTF-16; convert it with iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(message_of<ValueError>([&] { return read("a\n", {.delimiter = '"'}); }),
            "read_csv: expected a .delimiter and a .quote that differ and end no line, got \"\\\"\" and "
            "\"\\\"\"");
}

TEST_F(Csv, TablesCheckTheirColumns) {
  EXPECT_EQ(message_of<ValueError>([] {
              return Table({{.name = "a", .type = ColumnType::i64, .integers = {1}}, {.name = "b"}});
            }),
            "Table: expected columns of 1 rows, got 0 in \"b\"");
  EXPECT_EQ(message_of<ValueError>([] {
              return Table({{.name = "a"}, {.name = "a"}});
            }),
            "Table: expected columns of distinct names, got \"a\" twice; name one differently");
}

}  // namespace
}  // namespace mezzo::data
