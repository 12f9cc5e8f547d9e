// Unpacking gzip and bare DEFLATE, packing, and the checksum: files of Python's gzip, damaged ones, limits.
#include "mezzo/io/detail/deflate.h"

#include "mezzo/core/error.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io::detail {
namespace {

/// All that `source` gives, in pieces of `step` bytes.
std::string drained(ByteSource& source, std::size_t step = 7) {
  std::string text;
  std::string piece(step, '\0');
  while (const std::size_t count = source.read_some(std::as_writable_bytes(std::span(piece))))
    text.append(piece, 0, count);
  return text;
}

std::string unpacked(const std::string& path, std::uint64_t limit = 1 << 20, std::size_t step = 7) {
  UnpackedFile file(path, "unpack", limit);
  return drained(file, step);
}

class Deflate : public WithFolder {
 protected:
  void SetUp() override {
    if (!has_deflate()) GTEST_SKIP() << "a build without zlib";
  }
  [[nodiscard]] std::string refusal(const std::string& bytes, std::uint64_t limit = 1 << 20) const {
    const std::string file = written("a", bytes);
    return test::message_of<IoError>([&] { return unpacked(file, limit); });
  }
};

TEST(Crc32, OfKnownTexts) {
  const auto crc = [](std::string_view text, std::uint32_t before = 0) {
    return crc32(std::as_bytes(std::span(text)), before);
  };
  EXPECT_EQ(crc(""), 0U);
  EXPECT_EQ(crc("123456789"), 0xCBF43926U) << "the check value of every list of checksums";
  EXPECT_EQ(crc("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
  EXPECT_EQ(crc("89", crc("1234567")), 0xCBF43926U) << "in pieces";
  EXPECT_EQ(crc(std::string(32, '\0')), 0x190A55ADU);
}

TEST_F(Deflate, FilesOfPython) {
  EXPECT_EQ(unpacked(made_by_python("members.gz")), "hello world");
  EXPECT_EQ(unpacked(made_by_python("named.gz")), "named");
  for (const std::size_t step : {1UL, 13UL, 200'000UL})
    EXPECT_EQ(unpacked(made_by_python("zeros.gz"), 100'000, step), std::string(100'000, '\0'));
  EXPECT_EQ(unpacked(written("a", "plain text")), "plain text");
  EXPECT_EQ(unpacked(written("a", "")), "");
  EXPECT_EQ(unpacked(written("a", "\x1F")), "\x1F");
}

TEST_F(Deflate, ZerosBehindAMemberArePassedOver) {
  const std::string hello = content_of(made_by_python("named.gz"));
  for (const std::size_t zeros : {1UL, 511UL, 65536UL, 200'000UL}) {
    const std::string padded = hello + std::string(zeros, '\0');
    EXPECT_EQ(unpacked(written("a", padded)), "named");
    EXPECT_EQ(unpacked(written("a", padded + hello)), "namednamed") << "as Python's gzip reads it";
  }
}

TEST_F(Deflate, NoByteComesBeyondTheLimit) {
  EXPECT_EQ(unpacked(made_by_python("members.gz"), 11), "hello world");
  for (const std::uint64_t limit : {0U, 1U, 6U, 10U}) {
    EXPECT_EQ(test::message_of<IoError>([&] { return unpacked(made_by_python("members.gz"), limit); }),
              "unpack '" + made_by_python("members.gz") + "': expected at most " + std::to_string(limit) +
                  " bytes of unpacked data, got more; fetch or write the file again");
  }
  UnpackedFile zeros(made_by_python("zeros.gz"), "unpack", 50'000);
  std::vector<std::byte> most(50'000);
  zeros.read(most);
  EXPECT_THROW(zeros.expect_end(50'000), IoError);
  EXPECT_GE(zeros.max_size(), 100'000U) << "what the format allows is at least what there is";
  EXPECT_EQ(zeros.max_size(), std::filesystem::file_size(made_by_python("zeros.gz")) * 1032);
}

TEST_F(Deflate, DamagedFilesAreRefused) {
  const std::string good = content_of(made_by_python("members.gz"));
  const std::string first = good.substr(0, good.size() - 28);  // the second member takes 28 bytes
  ASSERT_EQ(unpacked(written("a", first)), "hello ");
  for (std::size_t length = 2; length < first.size(); ++length)
    EXPECT_NE(
        refusal(first.substr(0, length)).find("got its end too early at byte " + std::to_string(length)),
        std::string::npos);
  std::string bad_sum = first, bad_size = first;
  bad_sum[first.size() - 8] ^= 1;
  bad_size[first.size() - 1] ^= 1;
  EXPECT_EQ(refusal(bad_sum),
            "unpack '" + path("a") +
                "': expected compressed data that can be unpacked, got incorrect data check at "
                "byte " +
                std::to_string(first.size() - 4) + " of the compressed data; fetch or write the file again");
  EXPECT_NE(refusal(bad_size).find("got incorrect length check at byte"), std::string::npos);
  EXPECT_NE(refusal(first + "rest").find("got behind a member of it incorrect header check"),
            std::string::npos);
  EXPECT_NE(refusal(first + std::string(1, '\0') + "rest").find("got behind a member of it incorrect header"),
            std::string::npos);
  EXPECT_NE(refusal(first.substr(0, 10) + "\x07" + first.substr(11)).find("got invalid block type"),
            std::string::npos);
}

TEST_F(Deflate, WhatIsPackedComesBack) {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i * 7919 % 10'007) + " ";
  for (const DeflateFrame frame : {DeflateFrame::raw, DeflateFrame::gzip}) {
    for (const std::size_t step : {999UL, 1UL << 20}) {
      const auto bytes = std::as_bytes(std::span(text));
      std::vector<std::span<const std::byte>> parts;
      for (std::size_t at = 0; at < bytes.size(); at += step)
        parts.push_back(bytes.subspan(at, std::min(step, bytes.size() - at)));
      const std::vector<std::byte> packed = deflated("pack", frame, parts);
      EXPECT_LT(packed.size(), text.size() / 2);
      const auto* const begin = reinterpret_cast<const char*>(packed.data());
      InputFile file(written("a", {begin, packed.size()}), "unpack");
      InflateSource source(std::make_unique<FileRange>(file, 0, file.size()), frame, text.size());
      EXPECT_EQ(drained(source, 4096), text);
    }
  }
  EXPECT_EQ(deflated("pack", DeflateFrame::raw, {}).size(), 2U) << "an empty last block";
}

TEST_F(Deflate, BareDataMustEndWhereTheFileDoes) {
  const auto bytes = std::as_bytes(std::span("text", 4));
  std::vector<std::byte> packed = deflated("pack", DeflateFrame::raw, {&bytes, 1});
  packed.push_back(std::byte{0});
  InputFile file(written("a", {reinterpret_cast<const char*>(packed.data()), packed.size()}), "unpack");
  InflateSource source(std::make_unique<FileRange>(file, 0, file.size()), DeflateFrame::raw, 100);
  EXPECT_NE(
      test::message_of<IoError>([&] { return drained(source); }).find("got more bytes behind their end"),
      std::string::npos);
}

TEST(WithoutZlib, PackedFilesAreRefusedWithTheCure) {
  if (has_deflate()) GTEST_SKIP() << "a build with zlib";
  EXPECT_EQ(
      test::message_of<IoError>([] { return unpacked(made_by_python("members.gz")); }),
      "unpack '" + made_by_python("members.gz") +
          "': expected a build with zlib, got compressed data and a build without it; install zlib1g-dev "
          "and build mezzo again, or uncompress the file (gunzip, unzip)");
  EXPECT_THROW(static_cast<void>(deflated("pack", DeflateFrame::raw, {})), IoError);
}

}  // namespace
}  // namespace mezzo::io::detail
