// Writing safetensors: exact bytes against the format's definition, round trips, refusals; and damage of
// valid files, which must be read safely or refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/tests/io/safetensors_files.h"

namespace mezzo::io {
namespace {

using Entry = SafeTensors::Entry;

std::string write_refusal(const std::vector<Entry>& entries, const Metadata& metadata = {}) {
  try {
    static_cast<void>(serialize_safetensors(entries, metadata));
  } catch (const IoError& error) {
    return error.what();
  }
  ADD_FAILURE() << "the content was accepted";
  return {};
}

/// Values of several dtypes and shapes, with what views of them need to live.
struct Sample {
  std::vector<float> f32{1.0F, -2.5F, std::numeric_limits<float>::infinity(), 0.0F, 5.0F, 6.0F};
  std::vector<double> f64{0.1};
  std::vector<std::uint16_t> bf16{0x3F80, 0x7FC0, 0x0001};
  std::vector<std::uint8_t> boolean{1, 0, 1};
  std::vector<std::int64_t> i64{-1, 1LL << 40};
  Metadata metadata{{"step", "12"}, {"note", "a \"quoted\" \n text, \xC3\xA9"}};

  [[nodiscard]] std::vector<Entry> entries() const {
    return {{"mask", "BOOL", {3}, raw(boolean)},
            {"w", "F32", {2, 3}, raw(f32)},
            {"layer.0.h", "BF16", {3, 1}, raw(bf16)},
            {"scalar", "F64", {}, raw(f64)},
            {"none", "F32", {0, 4}, {}},
            {"i", "I64", {2}, raw(i64)},
            {"\xC3\xA9\"\\\n", "U8", {1, 3}, raw(boolean)},
            {"odd", "FUTURE", {7}, raw(boolean)}};
  }
};

TEST(SafeTensorsWrite, GivesTheBytesThatTheFormatAsksFor) {
  const std::vector<std::uint8_t> byte{7};
  const std::vector<float> one{1.0F, 2.0F};
  const std::vector<Entry> entries{{"b", "U8", {1}, raw(byte)}, {"a", "F32", {2}, raw(one)}};
  std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  while (header.size() % 8 != 0) header += ' ';
  const std::string_view data("\x00\x00\x80\x3f\x00\x00\x00\x40\x07", 9);
  EXPECT_EQ(serialize_safetensors(entries, {{"k", "v"}}), file_bytes(header, data));
}

TEST(SafeTensorsWrite, WhatIsWrittenReadsBackEqual) {
  const Sample sample;
  const SafeTensors file = SafeTensors::from_bytes(serialize_safetensors(sample.entries(), sample.metadata));
  EXPECT_EQ(file.metadata(), sample.metadata);
  ASSERT_EQ(file.entries().size(), sample.entries().size());
  for (const Entry& want : sample.entries()) {
    const Entry& got = file.at(want.name);
    EXPECT_EQ(got.dtype, want.dtype);
    EXPECT_EQ(got.shape, want.shape);
    EXPECT_TRUE(std::equal(got.bytes.begin(), got.bytes.end(), want.bytes.begin(), want.bytes.end()))
        << want.name;
  }
}

TEST(SafeTensorsWrite, NothingWrittenReadsBackAsNothing) {
  const std::vector<std::byte> bytes = serialize_safetensors({});
  EXPECT_EQ(bytes, file_bytes("{}      ", ""));
  EXPECT_TRUE(SafeTensors::from_bytes(bytes).names().empty());
}

TEST(SafeTensorsWrite, BytesDoNotDependOnTheOrderGiven) {
  const Sample sample;
  std::vector<Entry> entries = sample.entries();
  const std::vector<std::byte> first = serialize_safetensors(entries, sample.metadata);
  std::mt19937_64 random(4);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(entries.begin(), entries.end(), random);
    EXPECT_EQ(serialize_safetensors(entries, sample.metadata), first);
  }
}

TEST(SafeTensorsWrite, EveryTensorOfAKnownDtypeIsNaturallyAligned) {
  const Sample sample;
  const std::vector<std::byte> bytes = serialize_safetensors(sample.entries(), sample.metadata);
  const std::byte* const begin = bytes.data();
  const SafeTensors file = SafeTensors::from_bytes(std::vector<std::byte>(begin, begin + bytes.size()));
  // All data together is the end of the file, so offsets from the file's begin follow from those of the
  // views.
  const std::byte* lowest = file.entries().front().bytes.data();
  std::size_t total = 0;
  for (const Entry& entry : file.entries()) {
    if (!entry.bytes.empty()) lowest = std::min(lowest, entry.bytes.data());
    total += entry.bytes.size();
  }
  for (const Entry& entry : file.entries()) {
    const std::size_t offset = bytes.size() - total + static_cast<std::size_t>(entry.bytes.data() - lowest);
    const int bits = safetensors_dtype_bits(entry.dtype).value_or(8);
    if (entry.bytes.empty()) continue;
    EXPECT_EQ(offset % static_cast<std::size_t>(bits / 8), 0U) << entry.name;
  }
}

TEST(SafeTensorsWrite, ToAFileGivesTheSameBytesAndLeavesNothingElse) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("mezzo_st_write_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "model.safetensors").string();
  const Sample sample;
  write_safetensors(path, sample.entries());
  write_safetensors(path, sample.entries(), sample.metadata);  // over an older one
  EXPECT_EQ(read_file(path), serialize_safetensors(sample.entries(), sample.metadata));
  const SafeTensors file = SafeTensors::open(path);
  EXPECT_EQ(copy_as<float>(file.at("w")), sample.f32);
  EXPECT_EQ(file.metadata(), sample.metadata);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  fs::remove_all(folder);
  EXPECT_THROW(write_safetensors(path, sample.entries()), IoError);
}

TEST(SafeTensorsWrite, RefusesWhatCouldNotBeReadBack) {
  const std::vector<float> two{1.0F, 2.0F};
  EXPECT_NE(write_refusal({{"a", "F32", {2}, raw(two)}, {"a", "I32", {2}, raw(two)}}).find("got \"a\" twice"),
            std::string::npos);
  EXPECT_NE(write_refusal({{"__metadata__", "F32", {2}, raw(two)}}).find("which is reserved"),
            std::string::npos);
  EXPECT_NE(write_refusal({{"a\xFF", "F32", {2}, raw(two)}}).find("a tensor's name in UTF-8"),
            std::string::npos);
  EXPECT_NE(write_refusal({{"a", "F\xFF", {2}, raw(two)}}).find("a dtype's name in UTF-8"),
            std::string::npos);
  EXPECT_NE(write_refusal({}, {{"k\xFF", "v"}}).find("a metadata key in UTF-8"), std::string::npos);
  EXPECT_NE(write_refusal({}, {{"k", "\xFF"}}).find("metadata in UTF-8"), std::string::npos);
  EXPECT_NE(write_refusal({{"a", "F32", {3}, raw(two)}}).find("8 bytes for shape [3] of F32, which has 12"),
            std::string::npos);
  EXPECT_NE(write_refusal({{"a", "F32", {-2}, raw(two)}}).find("a negative size"), std::string::npos);
  EXPECT_NE(write_refusal({{"a", "X", std::vector<std::int64_t>(std::size_t{1} << 22U, 1), {}}})
                .find("at most 4194304 values"),
            std::string::npos);
  EXPECT_NE(
      write_refusal({}, {{"k", std::string(100'000'000, 'x')}}).find("a header of at most 100000000 bytes"),
      std::string::npos);
}

/// Reads `bytes` and, where that succeeds, everything in it; says whether it did.
bool read_everything(const std::vector<std::byte>& bytes) {
  try {
    const SafeTensors file = SafeTensors::from_bytes(bytes);
    std::size_t total = 0;
    for (const Entry& entry : file.entries()) {
      EXPECT_EQ(&file.at(entry.name), &entry);
      const std::vector<std::byte> copy(entry.bytes.begin(), entry.bytes.end());
      total += copy.size();
    }
    EXPECT_LE(total, bytes.size());
    return true;
  } catch (const IoError&) {
    return false;
  }
}

TEST(SafeTensorsDamage, EveryTruncationIsRefused) {
  const Sample sample;
  const std::vector<std::byte> valid = serialize_safetensors(sample.entries(), sample.metadata);
  for (std::size_t size = 0; size < valid.size(); ++size) {
    ASSERT_FALSE(read_everything(
        std::vector<std::byte>(valid.begin(), valid.begin() + static_cast<std::ptrdiff_t>(size))))
        << size;
  }
  EXPECT_TRUE(read_everything(valid));
}

TEST(SafeTensorsDamage, RandomByteChangesAreReadSafelyOrRefused) {
  const Sample sample;
  const std::vector<std::byte> valid = serialize_safetensors(sample.entries(), sample.metadata);
  std::mt19937_64 random(5);
  int accepted = 0;
  constexpr int kRounds = 12'000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::byte> bytes = valid;
    for (std::uint64_t edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = static_cast<std::ptrdiff_t>(random() % bytes.size());
      const std::uint64_t kind = random() % 8;
      // Mostly characters that mean something in a header: random bytes alone hardly ever get past the JSON
      // parser.
      const char meaningful = "0123456789-[]{}\",:eE. \\"[random() % 23];
      const auto byte =
          random() % 3 == 0 ? static_cast<std::byte>(random()) : static_cast<std::byte>(meaningful);
      if (kind == 0)
        bytes.insert(bytes.begin() + at, byte);
      else if (kind == 1)
        bytes.erase(bytes.begin() + at);
      else
        bytes[static_cast<std::size_t>(at)] = byte;
    }
    accepted += read_everything(bytes) ? 1 : 0;
  }
  EXPECT_GT(accepted, kRounds / 100);
  EXPECT_LT(accepted, kRounds / 2);
}

TEST(SafeTensorsDamage, NumbersReplacedByExtremesAreReadSafelyOrRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}})";
  const std::vector<std::string> extremes{"0",
                                          "1",
                                          "4",
                                          "24",
                                          "-1",
                                          "1e3",
                                          "4294967295",
                                          "4294967296",
                                          "2305843009213693952",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "18446744073709551616"};
  std::mt19937_64 random(6);
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (std::size_t i = 0; i < header.size();) {
      const bool number =
          header[i] >= '0' && header[i] <= '9' && (header[i - 1] == '[' || header[i - 1] == ',');
      std::size_t end = i + 1;
      while (number && header[end] >= '0' && header[end] <= '9') ++end;
      text += number && random() % 4 == 0 ? extremes[random() % extremes.size()] : header.substr(i, end - i);
      i = end;
    }
    accepted += read_everything(file_bytes(text, std::string(28, 'x'))) ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 3000);
}

TEST(SafeTensorsDamage, AHeaderOfManySmallValuesIsRefusedBeforeItTakesMuchMemory) {
  std::string header = "{\"a\":[0";
  while (header.size() < 20'000'000) header += ",0";
  header += "]}";
  EXPECT_NE(refusal(file_bytes(header, "")).find("at most 4194304 values in the header"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::io
