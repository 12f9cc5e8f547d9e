// Every build runs the fuzz targets on the stored corpus and on mutations of it that are the same everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "mezzo/tests/fuzz/memory_limit.h"
#include "mezzo/tests/fuzz/targets.h"
#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/support/data_folder.h"

namespace mezzo::fuzz {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

/// The files of a target in the order of their names.
std::vector<Bytes> corpus(std::string_view target) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(test::data_folder()) / "fuzz" / "corpus" / target))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

/// Changes bytes, numbers and lengths as fuzzers do.
class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& files) : files_(files) {}

  Bytes next() {
    Bytes bytes = files_[below(files_.size())];
    for (std::size_t edits = below(4) + 1; edits > 0; --edits) edit(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  Bytes::difference_type place(const Bytes& bytes) {
    return static_cast<Bytes::difference_type>(below(bytes.size() + 1));
  }

  void edit(Bytes& bytes) {
    static constexpr std::string_view kText = "{}[]\",:\\-+.0123456789eEnulltrue ";
    const auto begin = place(bytes);
    const auto length =
        std::min<Bytes::difference_type>(static_cast<Bytes::difference_type>(below(9)),
                                         static_cast<Bytes::difference_type>(bytes.size()) - begin);
    const auto at = bytes.begin() + begin;
    switch (below(7)) {
      case 0:
        if (!bytes.empty()) bytes[below(bytes.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        if (!bytes.empty()) bytes[below(bytes.size())] = static_cast<std::uint8_t>(random_());
        break;
      case 2:
        bytes.erase(at, at + length);
        break;
      case 3:
        bytes.insert(at, static_cast<std::uint8_t>(kText[below(kText.size())]));
        break;
      case 4: {
        const Bytes copy(at, at + length);
        bytes.insert(bytes.begin() + place(bytes), copy.begin(), copy.end());
        break;
      }
      case 5:
        std::fill(at, at + length, static_cast<std::uint8_t>(below(2) == 0 ? 0xFF : 0x00));
        break;
      default: {
        const Bytes& other = files_[below(files_.size())];
        const auto from = other.begin() + place(other);
        bytes.erase(at, bytes.end());
        bytes.insert(bytes.end(), from, other.end());
      }
    }
  }

  const std::vector<Bytes>& files_;
  std::mt19937_64 random_{1};
};

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, TheCorpusAndItsMutationsKeepEveryPromise) {
  const MemoryLimit limit;
  const test::CaughtWarnings quiet;
  const std::vector<Bytes> files = corpus(GetParam().name);
  ASSERT_GE(files.size(), 5U) << "tests/fuzz/corpus/" << GetParam().name << " has lost its files";
  for (const Bytes& file : files) EXPECT_EQ(GetParam().run(file.data(), file.size()), 0);
  Mutator mutator(files);
  // A call of an op takes milliseconds where it is instrumented.
  const int count = test::under_sanitizer() ? 1000 : 3000;
  for (int i = 0; i < count; ++i) {
    const Bytes bytes = mutator.next();
    EXPECT_EQ(GetParam().run(bytes.data(), bytes.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, testing::ValuesIn(kTargets),
                         [](const testing::TestParamInfo<Target>& target) {
                           return std::string(target.param.name);
                         });

}  // namespace
}  // namespace mezzo::fuzz
