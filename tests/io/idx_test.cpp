// IDX files, written here byte by byte: what is read, and what is refused.
#include "mezzo/io/idx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/tests/support/data_folder.h"

namespace mezzo::io {
namespace {

class Idx : public ::testing::Test {
 protected:
  ~Idx() override { std::filesystem::remove(path_); }
  Tensor read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_idx(path_);
  }
  void expect_refused(const std::string& bytes, const std::string& part) {
    try {
      static_cast<void>(read(bytes));
      ADD_FAILURE() << "accepted";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
    }
  }
  const std::string path_ = ::testing::TempDir() + "mezzo_idx_" + std::to_string(::getpid());
};

/// Bytes given as numbers.
std::string bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

TEST_F(Idx, Images) {
  const Tensor images =
      read(bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3}) + bytes({0, 1, 255, 7, 128, 9}));
  EXPECT_EQ(images.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(images.dtype(), DType::u8);
  EXPECT_EQ(images.to_vector<int>(), (std::vector<int>{0, 1, 255, 7, 128, 9}));
}

TEST_F(Idx, WideElementsAreBigEndian) {
  const Tensor integers = read(bytes({0, 0, 0x0C, 1, 0, 0, 0, 2}) + bytes({0, 1, 2, 3, 255, 255, 255, 254}));
  EXPECT_EQ(integers.to_vector<std::int32_t>(), (std::vector<std::int32_t>{66051, -2}));
  EXPECT_EQ(read(bytes({0, 0, 0x0D, 1, 0, 0, 0, 1}) + bytes({0xBF, 0xC0, 0, 0})).item(), -1.5);
  const Tensor shorts = read(bytes({0, 0, 0x0B, 1, 0, 0, 0, 2}) + bytes({1, 2, 255, 254}));
  EXPECT_EQ(shorts.dtype(), DType::i16);
  EXPECT_EQ(shorts.to_vector<int>(), (std::vector<int>{258, -2}));
  const Tensor f64 = read(bytes({0, 0, 0x0E, 1, 0, 0, 0, 1}) + bytes({0x40, 0x09, 0x21, 0xFB, 0, 0, 0, 0}));
  EXPECT_EQ(f64.dtype(), DType::f64);
  EXPECT_NEAR(f64.item(), 3.1415926, 1e-6);
}

TEST_F(Idx, SignedBytes) {
  const Tensor signed_bytes = read(bytes({0, 0, 9, 1, 0, 0, 0, 2}) + bytes({5, 128}));
  EXPECT_EQ(signed_bytes.dtype(), DType::i8);
  EXPECT_EQ(signed_bytes.to_vector<int>(), (std::vector<int>{5, -128}));
}

TEST_F(Idx, NoElements) {
  EXPECT_EQ(read(bytes({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 5})).shape(), (Shape{0, 5}));
}

TEST_F(Idx, PackedFilesAreUnpacked) {
  if (!detail::has_deflate()) GTEST_SKIP() << "a build without zlib";
  std::ifstream in(test::data_folder() + "/io/files/images.idx.gz", std::ios::binary);
  const std::string packed(std::istreambuf_iterator<char>(in), {});
  const Tensor images = read(packed);  // by content: the name does not end in .gz
  EXPECT_EQ(images.shape(), (Shape{2, 3, 4}));
  std::vector<int> counted(24);
  std::iota(counted.begin(), counted.end(), 0);
  EXPECT_EQ(images.to_vector<int>(), counted);
  expect_refused(packed.substr(0, packed.size() - 1), "its end too early");
  expect_refused(packed + "x", "its end too early at byte " + std::to_string(packed.size() + 1));
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;
  expect_refused(damaged, "incorrect data check");
}

/// As gzip packs it.
std::string gzipped(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  const std::vector<std::byte> packed = detail::deflated("pack", detail::DeflateFrame::gzip, {&bytes, 1});
  return {reinterpret_cast<const char*>(packed.data()), packed.size()};
}

TEST_F(Idx, PackedFilesWithOtherSizesAreRefused) {
  if (!detail::has_deflate()) GTEST_SKIP() << "a build without zlib";
  const std::string three = bytes({0, 0, 8, 1, 0, 0, 0, 3});
  EXPECT_EQ(read(gzipped(three + "abc")).numel(), 3);
  expect_refused(gzipped(three + "ab"), "1 more bytes, got the end of the file");
  expect_refused(gzipped(three + "abcd"), "the end after 11 bytes, got more");
  // 2^31 bytes are more than so small a file can hold, so no memory is taken for them.
  expect_refused(gzipped(bytes({0, 0, 8, 1, 127, 255, 255, 255})), "a file too small for them");
}

TEST_F(Idx, OtherFilesAreRefused) {
  expect_refused("", "an IDX file");
  expect_refused("PNG and more", "an IDX file");
  expect_refused(bytes({0x1F, 0x8B, 8, 0, 0}), detail::has_deflate() ? "its end too early" : "gunzip");
  expect_refused(bytes({0, 0, 10, 1, 0, 0, 0, 1, 5}), "type 10");
  expect_refused(bytes({0, 0, 8, 9}), "1 to 8 dims");
  expect_refused(bytes({0, 0, 8, 1, 0, 0}), "the end of the file");
  expect_refused(bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2}), "3 bytes");
  expect_refused(bytes({0, 0, 8, 1, 0, 0, 0, 1, 1, 2}), "1 bytes behind the header");
  EXPECT_THROW(static_cast<void>(read_idx("/nonexistent/images")), IoError);
}

}  // namespace
}  // namespace mezzo::io
