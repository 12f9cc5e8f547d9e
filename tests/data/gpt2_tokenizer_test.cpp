// GPT-2's tokenizer on a small vocabulary (files/bpe, which make.py wrote): golden encodings of hard strings,
// bytes that are not UTF-8, words of a million letters, and files that are refused.
#include "mezzo/data/text/gpt2_tokenizer.h"

#include <array>
#include <cstdio>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/json.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;
using Tokens = std::vector<std::int32_t>;

std::string bpe_file(const std::string& name) { return test::data_folder() + "/data/files/bpe/" + name; }

const GPT2Tokenizer& small() {
  static const GPT2Tokenizer tokenizer = GPT2Tokenizer::load(bpe_file("vocab.json"), bpe_file("merges.txt"));
  return tokenizer;
}

/// The tokens' bytes, each in brackets: what a golden encoding looks like to people.
std::string pieces(std::string_view text) {
  std::string shown;
  for (const std::int32_t token : small().encode(text)) shown += "[" + small().decode(Tokens{token}) + "]";
  return shown;
}

TEST(GPT2Tokenizer, GoldenEncodings) {
  const Value golden = io::read_json_file(bpe_file("golden.json"));
  ASSERT_GE(golden.size(), 60U);
  for (const Value& entry : golden.as_list()) {
    const std::string& text = entry.at("text").as_string();
    Tokens wanted;
    for (const Value& id : entry.at("ids").as_list())
      wanted.push_back(static_cast<std::int32_t>(id.as_int()));
    // The second time from the cache.
    for (int i = 0; i < 2; ++i) EXPECT_EQ(small().encode(text), wanted) << quote(text);
    EXPECT_EQ(small().decode(wanted), text);
  }
}

TEST(GPT2Tokenizer, Sizes) {
  EXPECT_EQ(small().vocab_size(), 757);
  EXPECT_EQ(small().end_of_text(), 756);
}

TEST(GPT2Tokenizer, TheSpecialTokenIsTextUnlessAllowed) {
  const Tokens tokens = small().encode("a<|endoftext|><|endoftext|> b", {.allow_special = true});
  ASSERT_EQ(tokens.size(), 4U);
  EXPECT_EQ(tokens[1], 756);
  EXPECT_EQ(tokens[2], 756);
  EXPECT_EQ(small().decode(tokens), "a<|endoftext|><|endoftext|> b");
  for (const std::int32_t token : small().encode("a<|endoftext|>b")) EXPECT_NE(token, 756);
  EXPECT_EQ(small().encode("<|endoftext|>", {.allow_special = true}), Tokens{756});
}

TEST(GPT2Tokenizer, BytesThatAreNoUtf8ComeBack) {
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(small().decode(small().encode(all)), all);
  // They are characters of their own, neither letters nor space: a word ends before them.
  EXPECT_EQ(pieces("the\xFF the"), "[the][\xFF][ the]");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = random() % 3 == 0 ? static_cast<char>(random()) : " aeth's\n"[random() % 8];
    ASSERT_EQ(small().decode(small().encode(text)), text);
  }
}

TEST(GPT2Tokenizer, LongWordsTakeNoSquareOfTheirLength) {
  // A million letters: a second or two where it is n log n without optimisation, hours where it is n squared.
  std::string word;
  std::mt19937_64 random(2);
  for (int i = 0; i < 1'000'000; ++i) word.push_back("aeiousthnr"[random() % 10]);
  EXPECT_EQ(small().decode(small().encode(word)), word);
  const std::string same(1'000'000, 'a');
  EXPECT_EQ(small().decode(small().encode(same)), same);
}

TEST(GPT2Tokenizer, DecodesTensors) {
  const Tokens tokens = small().encode("The ship");
  Tensor tensor = zeros({static_cast<std::int64_t>(tokens.size())}, {.dtype = DType::i64});
  for (std::size_t i = 0; i < tokens.size(); ++i) tensor.mutable_data<std::int64_t>()[i] = tokens[i];
  EXPECT_EQ(small().decode(tensor), "The ship");
  EXPECT_EQ(message_of<IndexError>([] {
              return small().decode(Tokens{0, 757});
            }),
            "GPT2Tokenizer::decode: expected tokens from 0 to 756, got 757 at position 1; decode with the "
            "tokenizer that encoded");
  EXPECT_THROW(static_cast<void>(small().decode(Tokens{-1})), IndexError);
  tensor.fill_(std::int64_t{1} << 32U);
  EXPECT_THROW(static_cast<void>(small().decode(tensor)), IndexError);
  EXPECT_THROW(static_cast<void>(small().decode(zeros({1}))), DTypeError);
}

class GPT2Files : public TemporaryFolder {
 protected:
  /// The byte symbols by the rule of encoder.py, as JSON strings, then `more` tokens.
  static std::string vocabulary(const std::string& more = "") {
    std::string json = "{";
    int shifted = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printed = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x",
                    static_cast<unsigned>(printed ? byte : 256 + shifted++));
      json += (byte == 0 ? "\"" : ",\"") + std::string(code.data()) + "\":" + std::to_string(byte);
    }
    return json + more + "}";
  }
  GPT2Tokenizer load(const std::string& vocab, const std::string& merges) {
    return GPT2Tokenizer::load(write("vocab.json", vocab), write("merges.txt", merges));
  }
  std::string refused(const std::string& vocab, const std::string& merges) {
    return message_of<IoError>([&] { return load(vocab, merges); });
  }
};

TEST_F(GPT2Files, MergesInOrdersThatTrainingNeverGives) {
  // (ab, a) has a lower rank than (a, b), of which it comes. encoder.py merges "ab" everywhere first, and
  // then there is no "a" left; a queue that went on with the lowest rank at once would give "aba", "b".
  const GPT2Tokenizer tokenizer = load(vocabulary(",\"ab\":256,\"aba\":257"), "#version: 0.2\nab a\na b\n");
  EXPECT_EQ(tokenizer.encode("abab"), (Tokens{256, 256}));
  EXPECT_EQ(tokenizer.encode("aba"), (Tokens{257}));
  EXPECT_EQ(tokenizer.encode("abaab"), (Tokens{257, 256}));
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
  EXPECT_EQ(message_of<ValueError>([&] { return tokenizer.encode("a", {.allow_special = true}); }),
            "GPT2Tokenizer::encode: expected a vocabulary with <|endoftext|>, got one without; leave out "
            ".allow_special");
}

TEST_F(GPT2Files, OverlappingPairsAreMergedFromTheLeft) {
  const GPT2Tokenizer tokenizer = load(vocabulary(",\"aa\":256"), "a a\n");
  EXPECT_EQ(tokenizer.encode("aaa"), (Tokens{256, 'a'}));
  EXPECT_EQ(tokenizer.encode("aaaa"), (Tokens{256, 256}));
}

TEST_F(GPT2Files, VocabulariesThatAreRefused) {
  const std::string start = "GPT2Tokenizer '" + path("vocab.json") + "': ";
  EXPECT_EQ(refused("{\"a\":0}", ""),
            start +
                "expected a token for each byte, got none for byte 0; give vocab.json of a byte-level "
                "tokenizer");
  EXPECT_EQ(refused("[]", ""),
            start + "expected a map of tokens to numbers, got another value; give vocab.json");
  EXPECT_EQ(refused(vocabulary(",\"ab\":300"), ""),
            start + "expected the numbers 0 to 256, each for one token, got 300 for \"ab\"; give vocab.json");
  EXPECT_EQ(refused(vocabulary(",\"ab\":7"), ""),
            start + "expected the numbers 0 to 256, each for one token, got 7 for \"ab\"; give vocab.json");
  EXPECT_EQ(
      refused(vocabulary(",\"a b\":256"), ""),
      start + "expected tokens in GPT-2's byte symbols, got \"a b\"; give vocab.json of a GPT-2 tokenizer");
  EXPECT_NE(refused("{\"a\":[0]}", "").find("read_json_file"), std::string::npos);
  EXPECT_NE(refused("{\"a\":\"0\"}", "").find("got \"0\" for \"a\""), std::string::npos);
}

TEST_F(GPT2Files, MergesThatAreRefused) {
  const std::string start = "GPT2Tokenizer '" + path("merges.txt") + "': ";
  const std::string vocab = vocabulary(",\"ab\":256");
  for (const char* line : {"a", "a b c", " b", "a ", "a  b"}) {
    EXPECT_EQ(refused(vocab, "a b\n" + std::string(line) + "\n"),
              start + "expected two tokens with a space between them in line 2, got " + quote(line) +
                  "; give merges.txt");
  }
  EXPECT_EQ(
      refused(vocab, "#version: 0.2\na c\n"),
      start +
          "expected tokens of the vocabulary in line 2, got \"ac\"; give the merges.txt that belongs to "
          "the vocabulary");
  EXPECT_EQ(
      refused(vocab, "a abc"),
      start +
          "expected tokens of the vocabulary in line 1, got \"abc\"; give the merges.txt that belongs to "
          "the vocabulary");
  // CRLF, and no end of the last line.
  EXPECT_EQ(load(vocab, "a b\r\n").encode("ab"), (Tokens{256}));
  EXPECT_EQ(load(vocab, "a b").encode("ab"), (Tokens{256}));
}

}  // namespace
}  // namespace mezzo::data
