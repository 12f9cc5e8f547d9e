// A header of a safetensors file takes at most four times its length in memory, whatever is in it, also when
// it is refused at its end. Allocations are counted, so no machine and no other program changes the result.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/tests/allocation/counted_new.h"

namespace mezzo::io {
namespace {

/// Just above a power of two, where what grows by doubling has the most room to spare.
constexpr std::size_t kLength = (std::size_t{1} << 20U) + 4096;
/// For buffers, messages and the open file.
constexpr std::uint64_t kSmall = 150'000;

/// A name that no other number has.
std::string name_of(std::size_t number) {
  std::string name;
  for (; number > 0; number /= 64) name += static_cast<char>('0' + number % 64);
  for (char& letter : name) letter = letter == '\\' ? '!' : letter;
  return name;
}

std::string tensor(const std::string& shape) {
  return R"({"dtype":"","shape":[)" + shape + R"(],"data_offsets":[0,0]})";
}

std::string dims(std::size_t count) {
  std::string text = "0";
  for (std::size_t i = 1; i < count; ++i) text += ",0";
  return count == 0 ? "" : text;
}

/// A map of some kLength bytes: `entry` with rising numbers, then `last`.
std::string header_of(const std::function<std::string(std::size_t)>& entry, const std::string& last) {
  std::string header = "{";
  for (std::size_t i = 0; header.size() < kLength; ++i) header += entry(i) + ",";
  return header + last + "}";
}

struct Attack {
  std::string name;
  std::string header;
  bool is_read;
  std::uint64_t more = 0;  ///< what the documentation allows besides
};

std::string tiny(std::size_t dim_count, const std::string& last) {
  const std::string of_tensor = tensor(dims(dim_count));
  return header_of([&](std::size_t i) { return "\"" + name_of(i) + "\":" + of_tensor; }, last);
}

std::vector<Attack> attacks() {
  const std::string last = "\"~\":" + tensor("");
  const std::string text(kLength, 'x');
  std::vector<Attack> all;
  for (const std::size_t count : {0, 1, 4, 8, 16, 64})
    all.push_back({"tensors of " + std::to_string(count) + " dims", tiny(count, last), true});
  all.push_back({"refused at the end", tiny(1, "\"~\":1"), false});
  all.push_back({"cut off", tiny(1, "\"~"), false});
  all.push_back({"names of 16 letters",
                 header_of(
                     [&](std::size_t i) {
                       return "\"" + std::to_string(i + 1'000'000'000'000'000) + "\":" + tensor("");
                     },
                     last),
                 true});
  all.push_back({"one long name", "{\"" + text + "\":" + tensor("") + "}", true});
  all.push_back(
      {"one long dtype", R"({"a":{"dtype":")" + text + R"(","shape":[],"data_offsets":[0,0]}})", true});
  all.push_back({"one long string", R"({"__metadata__":{"a":")" + text + "\"}}", true});
  all.push_back({"a string that never ends", "{\"" + text, false});
  all.push_back(
      {"a long number", R"({"a":{"dtype":"U8","shape":[)" + std::string(kLength, '1') + "]}}", false});
  all.push_back({"more dims than there may be", "{\"a\":" + tensor(dims(kLength / 2)) + "}", false});
  all.push_back(
      {"more fields than there may be",
       "{\"a\":" + header_of([](std::size_t i) { return "\"" + name_of(i) + "\":0"; }, "\"~\":0") + "}",
       false});
  all.push_back({"lists for sizes", R"({"a":{"shape":)" + std::string(kLength, '[') + "}}", false});
  all.push_back({"maps in maps",
                 header_of([](std::size_t i) { return "\"" + name_of(i) + "\":{\"a\":{}}"; }, last), false});
  all.push_back({"more metadata than there may be",
                 R"({"__metadata__":)" +
                     header_of([](std::size_t i) { return "\"" + name_of(i) + "\":\"\""; }, "\"~\":\"\"") +
                     "}",
                 false, 4'000'000});
  all.push_back({"only space behind it", "{}" + std::string(kLength, ' '), true});
  all.push_back({"no JSON", "{" + std::string(kLength, '\xFE'), false});
  return all;
}

/// The most memory that `read` held besides what there was before, and whether it threw IoError.
std::uint64_t peak_of(const std::function<void()>& read, bool& was_read) {
  const std::uint64_t before = test::bytes_held();
  test::start_peak();
  try {
    read();
    was_read = true;
  } catch (const IoError&) {
    was_read = false;
  }
  return test::peak_bytes() - before;
}

std::string file_of(const std::string& header) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header;
}

TEST(HeaderMemory, AFileTakesAtMostFourTimesItsHeader) {
  const std::string path = testing::TempDir() + "mezzo_header_" + std::to_string(::getpid()) + ".safetensors";
  for (const Attack& attack : attacks()) {
    std::ofstream(path, std::ios::binary) << file_of(attack.header);
    bool was_read = false;
    const std::uint64_t peak = peak_of([&] { static_cast<void>(SafeTensors::open(path)); }, was_read);
    EXPECT_EQ(was_read, attack.is_read) << attack.name;
    EXPECT_LE(peak, 4 * attack.header.size() + attack.more + kSmall) << attack.name;
  }
  std::filesystem::remove(path);
}

TEST(HeaderMemory, BytesTakeAtMostFourTimesTheHeaderInThem) {
  for (const Attack& attack : attacks()) {
    const std::string file = file_of(attack.header);
    std::vector<std::byte> bytes(file.size());
    std::memcpy(bytes.data(), file.data(), file.size());
    bool was_read = false;
    const std::uint64_t peak =
        peak_of([&] { static_cast<void>(SafeTensors::from_bytes(std::move(bytes))); }, was_read);
    EXPECT_EQ(was_read, attack.is_read) << attack.name;
    EXPECT_LE(peak, 4 * attack.header.size() + attack.more + kSmall) << attack.name;
  }
}

TEST(HeaderMemory, WritingTakesAFewTimesTheHeader) {
  std::vector<SafeTensors::Entry> entries;
  for (std::size_t i = 0; i < 20'000; ++i)
    entries.push_back({.name = name_of(i), .dtype = "F32", .shape = {0}, .bytes = {}});
  std::vector<std::byte> bytes;
  bool written = false;
  const std::uint64_t peak = peak_of([&] { bytes = serialize_safetensors(entries); }, written);
  EXPECT_TRUE(written);
  EXPECT_LE(peak, 5 * bytes.size() + kSmall);
}

}  // namespace
}  // namespace mezzo::io
