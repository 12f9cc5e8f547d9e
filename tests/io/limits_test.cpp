// The limits of files: what SECURITY.md states is what the code has, and a file at a limit is read while one
// beyond it is refused, when it is written as well.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/io/detail/safetensors_header.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/ops/factory.h"
#include "mezzo/tests/io/safetensors_files.h"
#include "mezzo/tests/support/data_folder.h"

namespace mezzo::io {
namespace {

/// "4,194,304".
std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

TEST(Limits, AreThoseOfTheSecurityPage) {
  std::ifstream in(test::data_folder() + "/../SECURITY.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  for (const std::string& row :
       {"| " + with_commas(detail::kMaxHeaderBytes) + " bytes |",
        "| " + with_commas(detail::kMaxHeaderValues) + ": some 500,000 tensors |",
        "| " + std::to_string(detail::kMaxHeaderDepth) + " |",
        "| " + std::to_string(detail::kMaxFileDims) + " in a file, " + std::to_string(kMaxDims) +
            " as a `Tensor` |",
        "| " + with_commas(detail::kMaxMetadata) + " |", std::string("| 128, unless `JsonLimits`")}) {
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

std::string dims(std::size_t count) {
  std::string text = "1";
  for (std::size_t i = 1; i < count; ++i) text += ",1";
  return text;
}

TEST(Limits, OfDims) {
  const auto file = [](std::size_t count) {
    return file_bytes(R"({"a":{"dtype":"U8","shape":[)" + dims(count) + R"(],"data_offsets":[0,1]}})", "x");
  };
  const SafeTensors read = SafeTensors::from_bytes(file(64));
  EXPECT_EQ(read.at("a").shape.size(), 64U);
  EXPECT_NE(refusal(file(65)).find("at most 64 dims in tensor \"a\""), std::string::npos);
  EXPECT_EQ(serialize_safetensors(read.entries()).size() % 8, 1U);
  SafeTensors::Entry more = read.at("a");
  more.shape.push_back(1);
  EXPECT_THROW(static_cast<void>(serialize_safetensors(std::vector{more})), IoError);
}

TEST(Limits, OfMetadata) {
  Metadata metadata;
  for (std::size_t i = 0; i < detail::kMaxMetadata; ++i) metadata.emplace(std::to_string(i), "");
  EXPECT_EQ(SafeTensors::from_bytes(serialize_safetensors({}, metadata)).metadata(), metadata);
  std::string header = R"({"__metadata__":{"x":"")";
  for (const auto& [key, text] : metadata) header += ",\"" + key + "\":\"\"";
  EXPECT_NE(refusal(file_bytes(header + "}}", "")).find("at most 16384 strings in __metadata__"),
            std::string::npos);
  metadata.emplace("x", "");
  EXPECT_THROW(static_cast<void>(serialize_safetensors({}, metadata)), IoError);
}

TEST(Limits, OfDataIsTheirSizeOnDisk) {
  const std::string path = testing::TempDir() + "mezzo_limits_" + std::to_string(::getpid()) + ".safetensors";
  TensorFile file;
  file.add("", {{"a", ones({1000, 1000})}});
  file.save(path);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const std::int64_t before = memory_stats(Device::cpu()).current;
  reset_peak_memory_stats(Device::cpu());
  const TensorFile loaded = TensorFile::load(path);
  EXPECT_LE(memory_stats(Device::cpu()).peak - before, size);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mezzo::io
