// Characters and bytes as tokens.
#include "mezzo/data/text/char_tokenizer.h"

#include <gtest/gtest.h>

#include <array>

#include "mezzo/core/error.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

TEST(CharTokenizer, CharactersAreSortedByCodePoint) {
  const CharTokenizer tokenizer("hello W\xC3\xBCrld \xE4\xBA\xBA\xF0\x9F\x98\x80!");
  EXPECT_EQ(tokenizer.vocabulary(), " !Wdehlor\xC3\xBC\xE4\xBA\xBA\xF0\x9F\x98\x80");
  EXPECT_EQ(tokenizer.vocab_size(), 12);
  const Tensor tokens = tokenizer.encode("led \xF0\x9F\x98\x80\xC3\xBC");
  EXPECT_EQ(tokens.dtype(), DType::i64);
  EXPECT_EQ(tokens.to_vector<int>(), (std::vector<int>{6, 4, 3, 0, 11, 9}));
  EXPECT_EQ(tokenizer.decode(tokens), "led \xF0\x9F\x98\x80\xC3\xBC");
  EXPECT_EQ(tokenizer.decode(tokens.to(DType::i32)), "led \xF0\x9F\x98\x80\xC3\xBC");
  EXPECT_EQ(CharTokenizer(tokenizer.vocabulary()).encode("led").to_vector<int>(),
            (std::vector<int>{6, 4, 3}));
}

TEST(CharTokenizer, EveryCharacterComesBack) {
  std::string all;
  for (const char* text : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    all += text;
  all.push_back('\0');
  const CharTokenizer tokenizer(all);
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  EXPECT_EQ(tokenizer.encode("").shape(), (Shape{0}));
  EXPECT_EQ(CharTokenizer("").vocab_size(), 0);
}

TEST(CharTokenizer, WhatItRefuses) {
  const CharTokenizer tokenizer("abc");
  EXPECT_EQ(
      message_of<ValueError>([&] { return tokenizer.encode("ab\xC3\xBC"); }),
      "CharTokenizer::encode: expected characters of the vocabulary, got \"\xC3\xBC\" at byte 2; make the "
      "tokenizer of all text it is to encode");
  EXPECT_EQ(message_of<ValueError>([&] { return tokenizer.encode("a\xFF"); }),
            "CharTokenizer::encode: expected text in UTF-8, got other bytes at byte 1; convert it, or use "
            "ByteTokenizer");
  // Not UTF-8: overlong, a surrogate, beyond U+10FFFF, cut off, a byte that only continues.
  for (const char* text :
       {"\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xE4\xBA", "\xF0\x9F\x98", "\x80", "\xC3(", "\xE4\xBA("})
    EXPECT_THROW(static_cast<void>(CharTokenizer(text)), ValueError) << testing::PrintToString(text);
  const std::array<std::int64_t, 2> tokens{2, 3};
  EXPECT_EQ(
      message_of<IndexError>([&] { return tokenizer.decode(tokens); }),
      "CharTokenizer::decode: expected tokens from 0 to 2, got 3 at position 1; decode with the tokenizer "
      "that encoded");
  EXPECT_THROW(static_cast<void>(tokenizer.decode(zeros({2}))), DTypeError);
  EXPECT_THROW(static_cast<void>(tokenizer.decode(zeros({1, 2}, {.dtype = DType::i64}))), ShapeError);
}

TEST(ByteTokenizer, EveryByteIsAToken) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const ByteTokenizer tokenizer;
  const Tensor tokens = tokenizer.encode(all);
  EXPECT_EQ(tokens.dtype(), DType::i64);
  for (std::size_t i = 0; i < 256; ++i)
    EXPECT_EQ(tokens.data<std::int64_t>()[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(tokenizer.decode(tokens), all);
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  const std::array<std::int64_t, 1> none{256};
  EXPECT_THROW(static_cast<void>(tokenizer.decode(none)), IndexError);
}

}  // namespace
}  // namespace mezzo::data
