// Files of tokens written here byte by byte, in the formats of nanoGPT and llm.c.
#include "mezzo/data/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>

#include "mezzo/core/error.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;
using Tokens = std::vector<std::int64_t>;

class TokenFiles : public TemporaryFolder {
 protected:
  /// Little-endian numbers of `width` bytes.
  static std::string numbers(const Tokens& values, int width) {
    std::string bytes;
    for (const std::int64_t value : values) {
      for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
    }
    return bytes;
  }
  static std::string header(std::int64_t magic, std::int64_t version, std::int64_t count) {
    Tokens values(256, 0);
    values[0] = magic;
    values[1] = version;
    values[2] = count;
    return numbers(values, 4);
  }
  static Tokens counting(std::int64_t count) {
    Tokens values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return values;
  }
  std::string start(const std::string& name = "t.bin") const { return "TokenFile '" + path(name) + "': "; }
};

Tokens values(const Tensor& tensor) { return tensor.to_vector<std::int64_t>(); }

TEST_F(TokenFiles, BlocksAndTheirNextTokens) {
  const TokenFile file(write("t.bin", numbers({10, 11, 12, 13, 14, 15, 16, 65535}, 2)), {.block_size = 3});
  ASSERT_EQ(file.size(), 2);
  const Example first = file.get(0), second = file.get(1);
  EXPECT_EQ(first.data.dtype(), DType::i64);
  EXPECT_EQ(first.data.shape(), (Shape{3}));
  EXPECT_EQ(values(first.data), (Tokens{10, 11, 12}));
  EXPECT_EQ(values(first.target), (Tokens{11, 12, 13}));
  EXPECT_EQ(values(second.data), (Tokens{13, 14, 15}));
  EXPECT_EQ(values(second.target), (Tokens{14, 15, 16}));
  const std::array<std::int64_t, 3> indices{1, 0, 1};
  const Example batch = file.get_batch(indices);
  EXPECT_EQ(batch.data.shape(), (Shape{3, 3}));
  EXPECT_EQ(values(batch.data), (Tokens{13, 14, 15, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(values(batch.target), (Tokens{14, 15, 16, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(file.get_batch({}).data.shape(), (Shape{0, 3}));
}

TEST_F(TokenFiles, SizesForEveryLengthAndStride) {
  for (std::int64_t length = 4; length < 12; ++length) {
    const std::string file = write("t.bin", numbers(counting(length), 2));
    for (std::int64_t stride = 1; stride < 6; ++stride) {
      const TokenFile set(file, {.block_size = 3, .stride = stride});
      // The last sample is the last one whose target lies in the file.
      EXPECT_LT((set.size() - 1) * stride + 3, length);
      EXPECT_GE(set.size() * stride + 3, length);
      EXPECT_EQ(values(set.get(set.size() - 1).target).back(), (set.size() - 1) * stride + 3);
    }
  }
}

TEST_F(TokenFiles, FormatsAreToldApart) {
  const Tokens tokens{1, 2, 50256, 4};
  EXPECT_EQ(TokenStore(write("t.bin", numbers(tokens, 2))).format(), TokenFormat::raw_u16);
  const TokenStore gpt2(write("g.bin", header(20240520, 1, 4) + numbers(tokens, 2)));
  EXPECT_EQ(gpt2.format(), TokenFormat::llmc);
  const TokenStore llama(write("l.bin", header(20240801, 7, 4) + numbers({1, 2, 128255, 4294967295}, 4)));
  EXPECT_EQ(llama.format(), TokenFormat::llmc_u32);
  Tokens found(4);
  gpt2.read(0, found);
  EXPECT_EQ(found, tokens);
  llama.read(0, found);
  EXPECT_EQ(found, (Tokens{1, 2, 128255, 4294967295}));
  // Asked for as raw, a header is tokens like any other: 20240520 is 0x0134D888.
  const TokenStore raw(path("g.bin"), TokenFormat::raw_u16);
  EXPECT_EQ(raw.size(), 516);
  raw.read(0, found);
  EXPECT_EQ(found, (Tokens{0xD888, 0x0134, 1, 0}));
}

TEST_F(TokenFiles, WhatIsWrittenIsRead) {
  std::vector<std::int32_t> tokens(150'001);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 7919 % 65536);
  for (const TokenFormat format : {TokenFormat::raw_u16, TokenFormat::llmc, TokenFormat::llmc_u32}) {
    if (format == TokenFormat::llmc_u32) tokens[5] = 1 << 30;
    write_tokens(path("w.bin"), tokens, {.format = format});
    const TokenStore store(path("w.bin"));
    EXPECT_EQ(store.format(), format);
    ASSERT_EQ(store.size(), 150'001);
    Tokens found(tokens.size());
    store.read(0, found);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), tokens.begin()));
  }
  // Byte by byte what the programs write.
  write_tokens(path("w.bin"), std::array<std::int32_t, 2>{258, 3}, {.format = TokenFormat::llmc});
  std::ifstream in(path("w.bin"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            header(20240520, 1, 2) + numbers({258, 3}, 2));
}

TEST_F(TokenFiles, WhatCannotBeWritten) {
  const std::string op = "write_tokens '" + path("w.bin") + "': ";
  EXPECT_EQ(message_of<ValueError>([&] {
              write_tokens(path("w.bin"), std::array<std::int32_t, 2>{1, 65536});
              return 0;
            }),
            op + "expected tokens from 0 to 65535, got 65536 at position 1; choose another format");
  EXPECT_EQ(message_of<ValueError>([&] {
              write_tokens(path("w.bin"), std::array<std::int32_t, 1>{-1}, {.format = TokenFormat::llmc_u32});
              return 0;
            }),
            op + "expected tokens from 0 to 2147483647, got -1 at position 0; choose another format");
  EXPECT_EQ(message_of<ValueError>([&] {
              write_tokens(path("w.bin"), {}, {.format = TokenFormat::automatic});
              return 0;
            }),
            op + "expected a format to write, got automatic; choose raw_u16, llmc or llmc_u32");
  EXPECT_FALSE(std::filesystem::exists(path("w.bin")));
}

TEST_F(TokenFiles, TokensOutsideOfTheVocabularyAreRefused) {
  const std::string file = write("t.bin", numbers({1, 2, 50257, 3, 4, 5, 6}, 2));
  const TokenFile set(file, {.block_size = 2, .vocab_size = 50257});
  EXPECT_EQ(message_of<IoError>([&] { return set.get(0); }),
            start() +
                "expected tokens below the vocabulary's size 50257, got 50257 at position 2; check "
                ".vocab_size and the file's format");
  EXPECT_EQ(values(set.get(2).target), (Tokens{5, 6}));
  EXPECT_EQ(values(TokenFile(file, {.block_size = 2, .vocab_size = 50258}).get(1).data), (Tokens{50257, 3}));
}

TEST_F(TokenFiles, FilesThatAreRefused) {
  const auto refused = [&](const std::string& bytes, TokenFormat format = TokenFormat::automatic) {
    const std::string message =
        message_of<IoError>([&] { return TokenStore(write("t.bin", bytes), format); });
    EXPECT_EQ(message.substr(0, start().size()), start());
    return message.substr(start().size());
  };
  EXPECT_EQ(refused("abc"),
            "expected tokens of 2 bytes each, got 3 bytes; write the file again, or check its format");
  EXPECT_EQ(refused("ab", TokenFormat::llmc),
            "expected a header of 1024 bytes, got 2 bytes; write the file again, or check its format");
  EXPECT_EQ(
      refused(header(20240520, 1, 4) + numbers({1, 2, 3}, 2)),
      "expected the 4 tokens of the header, of 2 bytes each, got 6 bytes behind it; write the file again");
  EXPECT_EQ(
      refused(header(20240520, 1, -1)),
      "expected the -1 tokens of the header, of 2 bytes each, got 0 bytes behind it; write the file again");
  EXPECT_EQ(refused(header(20240520, 2, 0)),
            "expected the version 1, got 2; write the file again with llm.c, or check its format");
  EXPECT_EQ(
      refused(header(7, 1, 0), TokenFormat::llmc),
      "expected the magic number 20240520, got 7; write the file again with llm.c, or check its format");
  EXPECT_EQ(
      message_of<IoError>([&] {
        return TokenFile(write("t.bin", numbers({1, 2, 3}, 2)), {.block_size = 3});
      }),
      start() + "expected more tokens than a block has, which is 3, got 3; choose a smaller .block_size");
  EXPECT_THROW(static_cast<void>(TokenFile(path("none"))), IoError);
}

TEST_F(TokenFiles, OptionsThatAreRefused) {
  const std::string file = write("t.bin", numbers(counting(9), 2));
  EXPECT_THROW(static_cast<void>(TokenFile(file, {.block_size = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(TokenFile(file, {.block_size = 2, .stride = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(TokenFile(file, {.block_size = 2, .vocab_size = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(RandomTokenWindows(file, {.block_size = 2, .samples = -1})), ValueError);
  EXPECT_THROW(static_cast<void>(RandomTokenWindows(file, {.block_size = 9, .samples = 1})), IoError);
  const TokenFile set(file, {.block_size = 4});
  EXPECT_EQ(message_of<IndexError>([&] { return set.get(2); }).substr(start().size() - 2),
            ": expected an index from 0 to 1, got 2; size() is the number of samples");
  EXPECT_THROW(static_cast<void>(set.get(-1)), IndexError);
  EXPECT_THROW(static_cast<void>(set.get_batch(std::array<std::int64_t, 1>{2})), IndexError);
  Tokens out(3);
  EXPECT_EQ(message_of<IndexError>([&] {
              set.tokens().read(7, out);
              return 0;
            }),
            start() + "expected tokens within the 9 of the file, got 3 from 7 on");
  EXPECT_THROW(set.tokens().read(-1, out), IndexError);
}

TEST_F(TokenFiles, RandomWindowsFollowFromSeedAndIndex) {
  const std::string file = write("t.bin", numbers(counting(1000), 2));
  const RandomTokenWindows set(file, {.block_size = 8, .samples = 5000, .seed = 3});
  ASSERT_EQ(set.size(), 5000);
  EXPECT_EQ(RandomTokenWindows(file, {.block_size = 8}).size(), 124);
  const RandomTokenWindows again(file, {.block_size = 8, .samples = 7, .seed = 3});
  const RandomTokenWindows other(file, {.block_size = 8, .samples = 7, .seed = 4});
  int same = 0;
  for (std::int64_t i = 0; i < 7; ++i) {
    const Tokens data = values(set.get(i).data), target = values(set.get(i).target);
    EXPECT_EQ(data, values(again.get(i).data));
    same += data == values(other.get(i).data) ? 1 : 0;
    EXPECT_EQ(data.front(), set.begin_of(i));
    for (std::size_t j = 0; j < 8; ++j) EXPECT_EQ(target[j], data[0] + static_cast<std::int64_t>(j) + 1);
  }
  EXPECT_LT(same, 7);
  const std::array<std::int64_t, 2> indices{4999, 0};
  const Example batch = set.get_batch(indices);
  EXPECT_EQ(values(batch.data.select(0, 0).clone()), values(set.get(4999).data));
  EXPECT_EQ(values(batch.target.select(0, 1).clone()), values(set.get(0).target));
  EXPECT_THROW(static_cast<void>(set.get(5000)), IndexError);
}

TEST_F(TokenFiles, RandomWindowsBeginEverywhere) {
  // 10 places to begin, 20000 draws: chi squared with 9 degrees of freedom is below 27.9 but once in 1000
  // seeds, and this seed is one of the others.
  const RandomTokenWindows set(write("t.bin", numbers(counting(14), 2)),
                               {.block_size = 4, .samples = 20000, .seed = 1});
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const std::int64_t begin = set.begin_of(i);
    ASSERT_TRUE(begin >= 0 && begin < 10);
    ++counts[static_cast<std::size_t>(begin)];
  }
  double chi = 0;
  for (const int count : counts) chi += (count - 2000.0) * (count - 2000.0) / 2000.0;
  EXPECT_LT(chi, 27.9);
}

TEST_F(TokenFiles, AFileLargerThanMemory) {
  const std::string file = write("t.bin", "");
  const auto bytes = static_cast<off_t>(1) << 40U;
  // A file with a hole takes no room; not every file system has such files of a terabyte.
  if (::truncate(file.c_str(), bytes) != 0) GTEST_SKIP() << "no file of a terabyte here";
  std::unique_ptr<TokenFile> set;
  try {
    set = std::make_unique<TokenFile>(file, TokenFileOptions{.block_size = 1024, .vocab_size = 50257});
  } catch (const IoError& error) {
    GTEST_SKIP() << error.what();  // a limit on addresses
  }
  EXPECT_EQ(set->size(), (bytes / 2 - 1) / 1024);
  EXPECT_EQ(values(set->get(set->size() - 1).data), Tokens(1024, 0));
  const RandomTokenWindows windows(file, {.block_size = 16, .samples = 10});
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(values(windows.get(i).target), Tokens(16, 0));
}

}  // namespace
}  // namespace mezzo::data
