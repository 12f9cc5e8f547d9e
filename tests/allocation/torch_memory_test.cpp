// A pickle of a torch file takes at most 160 times its length in memory, whatever is in it, and a zip
// archive's directory five times its own, also where they are refused at the end. Allocations are counted, so
// no machine and no other program changes the result.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/torch/unpickler.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/tests/allocation/counted_new.h"
#include "mezzo/tests/io/torch_files.h"

namespace mezzo::io {
namespace {

using namespace pickle;

/// For buffers and messages.
constexpr std::uint64_t kSmall = 150'000;

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

TEST(TorchMemory, OfAPickle) {
  // Just above a power of two, where what grows by doubling has the most room to spare.
  constexpr std::size_t kCount = (std::size_t{1} << 18U) + 1000;
  const std::string rebuild = name("torch._utils", "_rebuild_tensor_v2") + "q" + std::string(1, '\0');
  const std::string view = "(" + storage("FloatStorage", "0", 1) + "K" + std::string(1, '\0') + "))\x89" +
                           name("collections", "OrderedDict") + ")Rtq\x01";
  const std::string id = "(" + text("storage") + name("torch", "FloatStorage") + text(std::string(64, '0')) +
                         text("cpu") + "K\x01tq" + std::string(1, '\0');
  const std::string get0("h\0", 2);
  const std::vector<std::pair<std::string, std::string>> attacks{
      {"empty lists", "(" + std::string(kCount, ']') + "t."},
      {"empty dicts, nested", std::string(kCount, '}') + "."},
      {"numbers", "(" + repeated("K\x01", kCount) + "t."},
      {"strings", "(" + repeated("\x8C\x01x", kCount) + "t."},
      {"tuples", "N" + std::string(kCount, '\x85') + "."},
      {"kept", "N" + std::string(kCount, '\x94') + "."},
      {"marks", std::string(kCount, '(') + "."},
      {"names", "(" + repeated(name("torch", "Size"), kCount) + "t."},
      {"tensors", "(" + rebuild + view + repeated(get0 + "h\x01R", kCount) + "t."},
      {"storages", "(" + id + repeated(get0 + "Q", kCount) + "t."}};
  // What the first error of a program makes stays.
  EXPECT_THROW(static_cast<void>(detail::unpickle("op", {})), IoError);
  for (const auto& [what, body] : attacks) {
    const std::string bytes = begin() + body;
    const std::uint64_t before = test::bytes_held();
    test::start_peak();
    try {
      static_cast<void>(detail::unpickle("op", std::as_bytes(std::span(bytes))));
    } catch (const IoError&) {
    }
    const std::uint64_t taken = test::peak_bytes() - before;
    EXPECT_LE(taken, 160 * bytes.size() + kSmall) << what << ": " << taken / bytes.size();
    EXPECT_EQ(test::bytes_held(), before) << what;
  }
}

TEST(TorchMemory, OfADirectory) {
  const std::string path = testing::TempDir() + "mezzo_zip_" + std::to_string(::getpid()) + ".zip";
  constexpr std::size_t kCount = (std::size_t{1} << 14U) + 100;
  std::uint64_t directory = 0;
  {
    AtomicFile file(path);
    detail::ZipWriter archive(file);
    for (std::size_t i = 0; i < kCount; ++i) {
      archive.add("test", std::to_string(i), {});
      directory += 46 + std::to_string(i).size();
    }
    archive.finish();
    file.commit();
  }
  const std::uint64_t before = test::bytes_held();
  test::start_peak();
  { const detail::ZipReader archive(path, "test"); }
  const std::uint64_t taken = test::peak_bytes() - before;
  EXPECT_LE(taken, 5 * directory + kSmall) << static_cast<double>(taken) / static_cast<double>(directory);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mezzo::io
