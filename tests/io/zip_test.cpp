// Zip archives: what is written comes back, in ZIP64's form too, and a damaged archive is refused whole.
#include "mezzo/io/detail/zip.h"

#include <array>
#include <cstring>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::io::detail {
namespace {

std::span<const std::byte> as_bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

struct Item {
  std::string name, content;
  ZipMethod method = ZipMethod::stored;
  std::size_t alignment = 1;
};

void write_archive(const std::string& path, const std::vector<Item>& items,
                   std::uint64_t zip64_from = 0xFFFFFFFFU) {
  AtomicFile file(path);
  ZipWriter archive(file, zip64_from);
  for (const Item& item : items) {
    const std::size_t half = item.content.size() / 2;
    const std::string first = item.content.substr(0, half), second = item.content.substr(half);
    const std::array<std::span<const std::byte>, 2> parts{as_bytes_of(first), as_bytes_of(second)};
    archive.add("test", item.name, parts, item.method, item.alignment);
  }
  archive.finish();
  file.commit();
}

std::string content_of_entry(ZipReader& archive, const ZipEntry& entry, bool check_sum = true) {
  std::string text(entry.size, '\0');
  const auto source = archive.open(entry, check_sum);
  source->read(std::as_writable_bytes(std::span(text)));
  source->expect_end(entry.size);
  return text;
}

class Zip : public WithFolder {
 protected:
  void expect_content(const std::vector<Item>& items) const {
    ZipReader archive(path("a.zip"), "test");
    ASSERT_EQ(archive.entries().size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const ZipEntry& entry = archive.entries()[i];
      EXPECT_EQ(entry.name, items[i].name);
      EXPECT_EQ(entry.method, items[i].method);
      EXPECT_EQ(entry.begin % items[i].alignment, 0U);
      EXPECT_EQ(content_of_entry(archive, entry), items[i].content);
      EXPECT_EQ(archive.find(items[i].name), &entry);
    }
    EXPECT_EQ(archive.find("absent"), nullptr);
  }
  /// Why an archive with these bytes is refused when all of it is read; "" when it is not.
  [[nodiscard]] std::string refusal(const std::string& bytes) const {
    try {
      ZipReader archive(written("a.zip", bytes), "test");
      for (const ZipEntry& entry : archive.entries()) static_cast<void>(content_of_entry(archive, entry));
      return {};
    } catch (const IoError& error) {
      EXPECT_EQ(error.op(), "test '" + path("a.zip") + "'");
      return "expected " + error.expected() + ", got " + error.got();
    }
  }
};

std::vector<Item> some_items() {
  std::vector<Item> items{{"a", "stored text"},
                          {"folder/b", "aligned text", ZipMethod::stored, 64},
                          {"\xC3\xA4.npy", ""},
                          {"c", "more", ZipMethod::stored, 8}};
  if (has_deflate()) items.push_back({"d", std::string(5000, 'x') + "y", ZipMethod::deflated});
  return items;
}

TEST_F(Zip, WhatIsWrittenComesBack) {
  write_archive(path("a.zip"), some_items());
  expect_content(some_items());
  write_archive(path("a.zip"), {});
  expect_content({});
}

TEST_F(Zip, InZip64sFormToo) {
  write_archive(path("a.zip"), some_items());
  const std::string plain = content_of(path("a.zip"));
  write_archive(path("a.zip"), some_items(), 10);
  EXPECT_GT(content_of(path("a.zip")).size(), plain.size() + 100);
  expect_content(some_items());
  for (const std::uint64_t from : {0U, 1U, 5U, 12U, 100U, 400U}) {
    write_archive(path("a.zip"), some_items(), from);
    expect_content(some_items());
  }
}

TEST_F(Zip, MoreThan65535Entries) {
  std::vector<Item> items(65'600);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].name = std::to_string(i);
  write_archive(path("a.zip"), items);
  ZipReader archive(path("a.zip"), "test");
  ASSERT_EQ(archive.entries().size(), items.size());
  EXPECT_EQ(archive.entries().back().name, "65599");
  EXPECT_NE(archive.find("40000"), nullptr);
}

TEST_F(Zip, NamesMustBeText) {
  AtomicFile file(path("a.zip"));
  ZipWriter archive(file);
  EXPECT_THROW(archive.add("test", "\xFF", {}), IoError);
  EXPECT_THROW(archive.add("test", std::string(60'001, 'n'), {}), IoError);
}

/// An archive of the entries "a" and "b", its parts by name.
struct Archive {
  static constexpr std::size_t kA = 0, kB = 30 + 1 + 3, kDirectory = 2 * kB, kSecond = kDirectory + 47,
                               kEnd = kDirectory + 2 * 47;
  std::string bytes;
  void put16(std::size_t at, unsigned number) {
    const auto narrow = static_cast<std::uint16_t>(number);
    std::memcpy(bytes.data() + at, &narrow, 2);
  }
  void put32(std::size_t at, std::uint32_t number) { std::memcpy(bytes.data() + at, &number, 4); }
};

std::uint32_t crc32_of(const std::string& text) { return crc32(as_bytes_of(text)); }

class DamagedZip : public Zip {
 protected:
  DamagedZip() {
    write_archive(path("good.zip"), {{"a", "AAA"}, {"b", "BBB"}});
    good_.bytes = content_of(path("good.zip"));
  }
  /// Why the archive is refused once `change` has been made to it.
  template <class F>
  [[nodiscard]] std::string refused(F change) const {
    Archive archive = good_;
    change(archive);
    return refusal(archive.bytes);
  }
  Archive good_;
};

TEST_F(DamagedZip, EndsAreChecked) {
  ASSERT_EQ(good_.bytes.size(), Archive::kEnd + 22);
  ASSERT_EQ(refusal(good_.bytes), "");
  EXPECT_EQ(refusal("PK"), "expected a zip archive, got a file of 2 bytes");
  EXPECT_EQ(refusal(std::string(100, 'x')), "expected a zip archive, got a file without an end record");
  EXPECT_EQ(refusal(good_.bytes + "x"), "expected a zip archive, got a file without an end record");
  Archive commented = good_;
  commented.put16(Archive::kEnd + 20, 3);
  EXPECT_EQ(refusal(commented.bytes + "PK\x05"), "") << "a comment may be there";
  EXPECT_EQ(refusal("x" + good_.bytes),
            "expected a directory up to its end record at byte 163, got 94 bytes from byte 68");
  EXPECT_EQ(refused([](Archive& a) { a.put16(Archive::kEnd + 4, 1); }),
            "expected an archive in one file, got a part of one in several");
  EXPECT_EQ(refused([](Archive& a) {
              a.put16(Archive::kEnd + 8, 3);
              a.put16(Archive::kEnd + 10, 3);
            }),
            "expected a directory of 3 entries, got 94 bytes");
  EXPECT_EQ(refused([](Archive& a) {
              a.put16(Archive::kEnd + 8, 1);
              a.put16(Archive::kEnd + 10, 1);
            }),
            "expected a directory of 1 entries, got more bytes behind them");
}

TEST_F(DamagedZip, DirectoriesAreChecked) {
  constexpr std::size_t first = Archive::kDirectory, second = Archive::kSecond;
  EXPECT_EQ(refused([](Archive& a) { a.bytes[first] = 'x'; }),
            "expected a directory of 2 entries, got other bytes in it");
  EXPECT_EQ(refused([](Archive& a) { a.put16(second + 32, 1); }),
            "expected entries within the directory, got one that reaches beyond its end");
  EXPECT_EQ(refused([](Archive& a) { a.bytes[second + 46] = '\xFF'; }),
            "expected names of entries in UTF-8, got \"\xEF\xBF\xBD\"");
  EXPECT_EQ(refused([](Archive& a) { a.put16(first + 8, 1); }),
            "expected no encryption in entry \"a\", got encrypted data");
  EXPECT_EQ(refused([](Archive& a) { a.put16(first + 10, 12); }),
            "expected data stored or deflated in entry \"a\", got compression method 12");
  EXPECT_EQ(refused([](Archive& a) { a.put32(first + 24, 4); }),
            "expected a possible size in entry \"a\", got 4 bytes from 3 in the file");
  EXPECT_EQ(refused([](Archive& a) {
              a.put16(first + 10, 8);
              a.put16(Archive::kA + 8, 8);
              a.put32(first + 24, 4 * 1032);
            }),
            "expected a possible size in entry \"a\", got 4128 bytes from 3 in the file");
  EXPECT_EQ(refused([](Archive& a) { a.put32(first + 42, 39); }),
            "expected a header before the directory in entry \"a\", got byte 39");
  EXPECT_EQ(refused([](Archive& a) { a.put32(first + 42, 34); }),
            "expected a local header as the directory says in entry \"a\", got another");
  EXPECT_EQ(refused([](Archive& a) {
              a.put32(second + 20, 4);
              a.put32(second + 24, 4);
            }),
            "expected data before the directory in entry \"b\", got 4 bytes from byte 65");
  EXPECT_EQ(refused([](Archive& a) {
              a.put32(first + 20, 4);
              a.put32(first + 24, 4);
            }),
            "expected entries that do not overlap, got \"a\" that reaches into \"b\"");
  EXPECT_EQ(refused([](Archive& a) {
              a.bytes[second + 46] = 'a';
              a.bytes[Archive::kB + 30] = 'a';
            }),
            "expected distinct names of entries, got \"a\" twice");
  EXPECT_EQ(refused([](Archive& a) {
              a.bytes[second + 46] = 'a';
              a.put32(second + 42, 0);
            }),
            "expected entries that do not overlap, got \"a\" that reaches into \"a\"");
}

TEST_F(DamagedZip, LocalHeadersAreChecked) {
  const std::string another = "expected a local header as the directory says in entry \"b\", got another";
  for (const std::size_t at : {0UL, 8UL, 26UL, 30UL})
    EXPECT_EQ(refused([&](Archive& a) { a.bytes[Archive::kB + at] ^= 2; }), another) << at;
  EXPECT_EQ(refused([](Archive& a) { a.put16(Archive::kB + 6, 1); }), another);
  EXPECT_EQ(refused([](Archive& a) { a.put16(Archive::kB + 28, 1); }),
            "expected data before the directory in entry \"b\", got 3 bytes from byte 66");
}

TEST_F(DamagedZip, SumsAreChecked) {
  const auto change = [](Archive& a) { a.bytes[Archive::kB + 31] ^= 1; };
  EXPECT_EQ(refused(change), "expected bytes with CRC-32 " + std::to_string(crc32_of("BBB")) +
                                 " in entry \"b\", got " + std::to_string(crc32_of("CBB")));
  Archive archive = good_;
  change(archive);
  ZipReader reader(written("a.zip", archive.bytes), "test");
  EXPECT_EQ(content_of_entry(reader, *reader.find("b"), false), "CBB") << "unless nobody asks";
}

TEST_F(Zip, WhatIsDeflatedHasItsSize) {
  if (!has_deflate()) GTEST_SKIP() << "a build without zlib";
  write_archive(path("good.zip"), {{"a", std::string(100, 'x'), ZipMethod::deflated}});
  const std::string good = content_of(path("good.zip"));
  const std::size_t directory = good.rfind("PK\x01\x02");
  ASSERT_EQ(refusal(good), "");
  std::string less = good, more = good;
  less[directory + 24] = 99;
  more[directory + 24] = 101;
  EXPECT_EQ(refusal(less), "expected at most 99 bytes of unpacked data, got more");
  EXPECT_EQ(refusal(more), "expected 101 bytes in entry \"a\", got 100");
}

TEST_F(DamagedZip, NoByteOfAnArchiveMayBeMissing) {
  for (std::size_t length = 0; length < good_.bytes.size(); ++length)
    EXPECT_NE(refusal(good_.bytes.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace mezzo::io::detail
