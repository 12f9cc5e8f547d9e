// Threads that share a data set or a tokenizer, as the workers of a loader do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "mezzo/data/text/gpt2_tokenizer.h"
#include "mezzo/data/token_file.h"
#include "mezzo/tests/support/data_folder.h"
#include "mezzo/tests/threads/together.h"

namespace mezzo::data {
namespace {

using test::run_together;
using test::times;

/// Calls f(thread) on four threads.
void on_four_threads(const std::function<void(int)>& f) {
  std::vector<std::function<void()>> functions;
  for (int thread = 0; thread < 4; ++thread) functions.emplace_back([&f, thread] { f(thread); });
  run_together(functions);
}

TEST(SharedTokenizer, EachThreadHasItsTokens) {
  const std::string folder = test::data_folder() + "/data/files/bpe/";
  const GPT2Tokenizer tokenizer = GPT2Tokenizer::load(folder + "vocab.json", folder + "merges.txt");
  const std::array<std::string, 4> texts{"The ship left the harbour", "before the sun rose",
                                         "and the sailors sang", "don't 1987 \xC3\xBC"};
  std::array<std::vector<std::int32_t>, 4> wanted;
  for (std::size_t i = 0; i < 4; ++i) wanted[i] = tokenizer.encode(texts[i]);
  on_four_threads([&](int thread) {
    for (int i = 0; i < times(500); ++i) {
      const auto which = static_cast<std::size_t>((thread + i) % 4);
      ASSERT_EQ(tokenizer.encode(texts[which]), wanted[which]);
      ASSERT_EQ(tokenizer.decode(wanted[which]), texts[which]);
    }
  });
}

TEST(SharedTokenFile, EachThreadHasItsSamples) {
  const std::string path = ::testing::TempDir() + "mezzo_shared_tokens_" + std::to_string(::getpid());
  std::vector<std::int32_t> tokens(4097);
  std::iota(tokens.begin(), tokens.end(), 0);
  write_tokens(path, tokens);
  const TokenFile file(path, {.block_size = 16});
  on_four_threads([&](int thread) {
    for (int i = 0; i < times(1000); ++i) {
      const std::int64_t index = (thread * 61 + i) % file.size();
      const Example sample = file.get(index);
      ASSERT_EQ(sample.data.data<std::int64_t>()[0], index * 16);
      ASSERT_EQ(sample.target.data<std::int64_t>()[15], index * 16 + 16);
    }
  });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mezzo::data
