// The programs of examples/from_pytorch as a user runs them: each prints the losses that its twin in PyTorch
// printed, which stand in the folder expected/ there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/cuda.h"
#include "support/child.h"
#include "support/data_folder.h"
#include "support/sanitizer.h"

namespace {

using mezzo::test::Ran;

/// Where the sources are, and where the programs are.
std::filesystem::path sources() {
  return std::filesystem::path(mezzo::test::data_folder()).parent_path() / "examples/from_pytorch";
}
std::filesystem::path programs() {
  return mezzo::test::this_program().parent_path().parent_path() / "examples/from_pytorch";
}

/// A line that is printed: its words, and its numbers with the word before each.
struct Line {
  std::vector<std::string> words;
  std::vector<double> numbers;
  std::vector<std::string> names;
};

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one);) {
    Line& line = lines.emplace_back();
    std::istringstream words(one);
    for (std::string word; words >> word;) {
      char* end = nullptr;
      const double number = std::strtod(word.c_str(), &end);
      if (*end != '\0') {
        line.words.push_back(word);
        continue;
      }
      line.numbers.push_back(number);
      line.names.push_back(line.words.empty() ? "" : line.words.back());
    }
  }
  return lines;
}

/// What the twin printed, and how far from it each number may be.
struct Expected {
  std::vector<Line> lines;
  std::vector<std::vector<double>> tolerances;
};

/// Twins that differ by rounding alone end as far apart as stands behind `#` (expected/make.py has five
/// more). Where a rounding first turns a comparison over, in relu or a maximum, is chance: so what counts for
/// a line is the largest spread of all lines up to a quarter of the run later. Programs may be four times as
/// far from the twin as those are; and by 1e-5 of the number, which is the last of the six digits printed. Of
/// right answers two in a hundred may be others, which were near a tie.
Expected expected_of(const std::string& name) {
  std::ifstream file(sources() / "expected" / (name + ".txt"));
  Expected expected;
  std::vector<Line> spreads;
  std::string text;
  std::getline(file, text);  // the command that made it
  while (std::getline(file, text)) {
    const std::size_t hash = text.find(" # ");
    expected.lines.push_back(lines_of(text.substr(0, hash)).at(0));
    spreads.push_back(lines_of(text.substr(hash + 3)).at(0));
  }
  const std::size_t count = expected.lines.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> tolerances;
    const std::vector<double>& numbers = expected.lines[i].numbers;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      double spread = 0;
      for (std::size_t j = 0; j < std::min(count, i + count / 4 + 1); ++j) {
        if (expected.lines[j].words == expected.lines[i].words && n < spreads[j].numbers.size())
          spread = std::max(spread, spreads[j].numbers[n]);
      }
      const std::string& of = expected.lines[i].names[n];
      const bool is_share = of == "correct" || of == "correctly" || of == "accuracy";
      tolerances.push_back(4 * spread + (is_share ? 0.02 : 1e-5) * std::abs(numbers[n]));
    }
    expected.tolerances.push_back(tolerances);
  }
  return expected;
}

/// Compares what a program printed with the first lines of its twin's.
void expect_as_twin(const std::string& name, const std::string& text) {
  const Expected twin = expected_of(name);
  const std::vector<Line> lines = lines_of(text);
  ASSERT_LE(lines.size(), twin.lines.size()) << text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].words, twin.lines[i].words) << text;
    ASSERT_EQ(lines[i].numbers.size(), twin.lines[i].numbers.size()) << text;
    for (std::size_t n = 0; n < lines[i].numbers.size(); ++n)
      EXPECT_NEAR(lines[i].numbers[n], twin.lines[i].numbers[n], twin.tolerances[i][n]) << "line " << i + 1;
  }
}

Ran run(const std::string& name, const std::string& flags) {
  return mezzo::test::run_shell("'" + (programs() / name).string() + "' " + flags);
}

const std::vector<std::string> kNames{"actor_critic",
                                      "dcgan",
                                      "graph_convolution",
                                      "lbfgs_regression",
                                      "mnist",
                                      "physics_informed",
                                      "siamese",
                                      "super_resolution",
                                      "time_series",
                                      "translation",
                                      "vae",
                                      "word_language_model"};

class FromPyTorch : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(programs())) GTEST_SKIP() << programs() << " was not built";
    if (!std::filesystem::exists(sources())) GTEST_SKIP() << sources() << " is not here";
  }
};

INSTANTIATE_TEST_SUITE_P(Programs, FromPyTorch, ::testing::ValuesIn(kNames),
                         [](const auto& name) { return name.param; });

/// An instrumented library is slow, so there the first steps have to do.
TEST_P(FromPyTorch, TrainsAsItsTwin) {
  const bool is_slow = mezzo::test::under_sanitizer();
  const Ran ran = run(GetParam(), is_slow ? "--steps 2" : "");
  ASSERT_EQ(ran.status, 0) << ran.text;
  if (is_slow)
    EXPECT_FALSE(ran.text.empty());
  else
    EXPECT_EQ(lines_of(ran.text).size(), expected_of(GetParam()).lines.size()) << ran.text;
  std::string text = ran.text;
  if (is_slow) text = text.substr(0, text.find('\n'));  // what is printed at the end is another matter then
  expect_as_twin(GetParam(), text);
}

TEST_P(FromPyTorch, BeginsAsItsTwinOnCuda) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  const Ran ran = run(GetParam(), "--cuda --steps 1");
  ASSERT_EQ(ran.status, 0) << ran.text;
  expect_as_twin(GetParam(), ran.text.substr(0, ran.text.find('\n')));
}

/// The first loss of a line.
double loss_of(const Line& line) { return line.numbers.at(line.words.at(0) == "step" ? 1 : 0); }

const std::vector<std::string> kMixed{"dcgan", "mnist", "super_resolution", "translation",
                                      "word_language_model"};

class FromPyTorchMixed : public FromPyTorch {};
INSTANTIATE_TEST_SUITE_P(Programs, FromPyTorchMixed, ::testing::ValuesIn(kMixed),
                         [](const auto& name) { return name.param; });

/// Begins within a few roundings of the loss in f32, and ends within a few roundings of a number of the size
/// of the first loss.
TEST_P(FromPyTorchMixed, TrainsAsItDoesInF32) {
  if (mezzo::test::under_sanitizer()) GTEST_SKIP() << "trainings take long with a sanitizer";
  const std::vector<Line> f32 = expected_of(GetParam()).lines;
  const double first = loss_of(f32.front());
  for (const auto& [flag, unit] : {std::pair("--bf16", 0x1p-8), std::pair("--f16", 0x1p-11)}) {
    const Ran ran = run(GetParam(), flag);
    ASSERT_EQ(ran.status, 0) << ran.text;
    const std::vector<Line> lines = lines_of(ran.text);
    ASSERT_EQ(lines.size(), f32.size()) << ran.text;
    EXPECT_NEAR(loss_of(lines.front()), first, 4 * unit * first) << flag;
    EXPECT_NEAR(loss_of(lines.back()), loss_of(f32.back()), 4 * 0x1p-8 * first) << flag;
  }
}

TEST(FromPyTorchFlags, WrongOnesAreRefusedInOneLine) {
  if (!std::filesystem::exists(programs())) GTEST_SKIP() << programs() << " was not built";
  for (const std::string flags : {"--steps", "--gpu", "--bf16", "7"}) {
    const Ran ran = run("vae", flags);
    EXPECT_EQ(ran.status, 2) << flags;
    EXPECT_EQ(ran.text, "expected --cuda, --steps N, got " + flags + "\n");
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Lines that are neither blank nor comment. Docstrings are comments; those of the twins are of one line.
int lines_of_code(const std::filesystem::path& path) {
  std::istringstream lines(text_of(path));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    std::string first;
    std::istringstream(line) >> first;
    const bool is_comment = first == "#" || first.starts_with("//") || first.starts_with("\"\"\"");
    if (!first.empty() && !is_comment) ++count;
  }
  return count;
}

TEST(FromPyTorchSources, AreHardlyLongerThanTheTwins) {
  if (!std::filesystem::exists(sources())) GTEST_SKIP() << sources() << " is not here";
  for (const std::string& name : kNames) {
    const int cpp = lines_of_code(sources() / (name + ".cpp"));
    const int python = lines_of_code(sources() / (name + ".py"));
    EXPECT_GT(python, 20) << name;
    EXPECT_LE(cpp, 1.3 * python) << name;
  }
}

TEST(FromPyTorchSources, AreAllTested) {
  if (!std::filesystem::exists(sources())) GTEST_SKIP() << sources() << " is not here";
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(sources()))
    if (entry.path().extension() == ".cpp") found.insert(entry.path().stem());
  EXPECT_EQ(found, std::set<std::string>(kNames.begin(), kNames.end()));
}

}  // namespace
