// The recipes of examples/amp as a user runs them, on every device: what each prints must bear out what it is
// there to show.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "mezzo/core/cuda.h"
#include "support/child.h"
#include "support/data_folder.h"

namespace {

using mezzo::test::Ran;

/// The words of a line that are numbers, a colon or comma behind them left out.
std::vector<double> numbers(const std::string& line) {
  std::vector<double> result;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.back() == ':' || word.back() == ',') word.pop_back();
    std::size_t used = 0;
    try {
      const double value = std::stod(word, &used);
      if (used == word.size()) result.push_back(value);
    } catch (const std::exception&) {  // a word
    }
  }
  return result;
}

/// Where the programs are.
std::filesystem::path folder() {
  return mezzo::test::this_program().parent_path().parent_path() / "examples/amp";
}

constexpr std::array kRecipes{"default_precision",
                              "autocast",
                              "grad_scaler",
                              "clip_gradients",
                              "accumulate_gradients",
                              "gradient_penalty",
                              "two_optimizers",
                              "find_nonfinite",
                              "custom_function",
                              "float8",
                              "resume",
                              "half_parameters",
                              "parameter_memory",
                              "lora"};

class AmpRecipes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << folder() << " was not built";
    if (GetParam() == "cuda" && !mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  }
  /// Runs a recipe, which must find that its own claim holds, in at most ten lines.
  void run(const std::string& name) {
    const std::string program = (folder() / name).string();
    ran_ = mezzo::test::run_shell("'" + program + "' --device " + GetParam());
    EXPECT_EQ(ran_.status, 0) << ran_.text;
    lines_.clear();
    std::istringstream text(ran_.text);
    for (std::string line; std::getline(text, line);) lines_.push_back(line);
    EXPECT_GE(lines_.size(), 3U) << ran_.text;
    EXPECT_LE(lines_.size(), 10U) << ran_.text;
  }
  /// The line that begins so.
  [[nodiscard]] std::string line(const std::string& beginning) const {
    for (const std::string& one : lines_)
      if (one.starts_with(beginning)) return one;
    ADD_FAILURE() << '"' << beginning << "\" begins no line of\n" << ran_.text;
    return {};
  }
  /// The numbers of that line, of which there must be `count`.
  [[nodiscard]] std::vector<double> numbers_of(const std::string& beginning, std::size_t count) const {
    std::vector<double> result = numbers(line(beginning));
    EXPECT_EQ(result.size(), count) << ran_.text;
    result.resize(count, std::nan(""));
    return result;
  }
  Ran ran_;
  std::vector<std::string> lines_;
};

INSTANTIATE_TEST_SUITE_P(On, AmpRecipes, ::testing::Values("cpu", "cuda"),
                         [](const auto& device) { return device.param; });

TEST_P(AmpRecipes, DefaultPrecision) {
  run("default_precision");
  EXPECT_EQ(line("weight"), "weight f32");
  EXPECT_EQ(line("output"), "output f32");
  const auto loss = numbers_of("loss", 2);
  EXPECT_LT(loss[1], loss[0] / 4);
}

TEST_P(AmpRecipes, Autocast) {
  run("autocast");
  const double f32 = numbers_of("f32: output f32 loss f32 gradient f32", 1)[0];
  // A few roundings to the dtype, and half a unit of the last digit printed.
  EXPECT_NEAR(numbers_of("f16: output f16 loss f32 gradient f32", 1)[0], f32, 4 * 0x1p-11 * f32 + 1e-5);
  EXPECT_NEAR(numbers_of("bf16: output bf16 loss f32 gradient f32", 1)[0], f32, 4 * 0x1p-8 * f32 + 1e-5);
}

TEST_P(AmpRecipes, GradScaler) {
  run("grad_scaler");
  const auto f32 = numbers_of("f32:", 3), f16 = numbers_of("f16:", 3), scaled = numbers_of("f16 and", 3);
  EXPECT_GT(f16[0], 0.9) << "share of gradients that vanish";
  EXPECT_EQ(scaled[0], f32[0]);
  EXPECT_GT(f16[2], f16[1] / 2) << "nothing is learned";
  EXPECT_LT(scaled[2], scaled[1] / 10);
  EXPECT_NEAR(scaled[2], f32[2], 0.05 * f32[2]);
}

TEST_P(AmpRecipes, ClipGradients) {
  run("clip_gradients");
  int clipped = 0;
  for (int i = 0; i < 6; ++i) {
    const auto step = numbers_of("step " + std::to_string(i), 4);  // its number, norm, clipped norm, way
    EXPECT_NEAR(step[2], std::min(step[1], 0.5), 1e-4);
    EXPECT_NEAR(step[3], 0.1 * step[2], 2e-5) << "as digits are printed";
    clipped += step[1] > 10 ? 1 : 0;
  }
  EXPECT_EQ(clipped, 2);
}

TEST_P(AmpRecipes, AccumulateGradients) {
  run("accumulate_gradients");
  for (int i = 0; i < 4; ++i) {
    const double scale = 256 * std::pow(2, i);
    const auto batch = numbers_of("large batch " + std::to_string(i), 5);
    EXPECT_EQ(batch, (std::vector<double>{static_cast<double>(i), scale, scale, scale, scale}));
  }
  EXPECT_LT(numbers_of("relative difference", 1)[0], 0x1p-11);
}

TEST_P(AmpRecipes, GradientPenalty) {
  run("gradient_penalty");
  const auto none = numbers_of("no penalty, f16", 2), f32 = numbers_of("penalty, f32", 2),
             f16 = numbers_of("penalty, f16", 2);
  EXPECT_LT(f16[1], 0.8 * none[1]);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(f16[i], f32[i], 4 * 0x1p-11 * f32[i] + 1e-5);
}

TEST_P(AmpRecipes, TwoOptimizers) {
  run("two_optimizers");
  for (int i = 0; i < 6; ++i) {
    const std::string scale = i < 4 ? "4096" : "2048", base = i == 3 ? "skipped" : "stepped";
    EXPECT_EQ(line("step " + std::to_string(i)),
              "step " + std::to_string(i) + ": scale " + scale + " base " + base + " rest stepped");
  }
  EXPECT_EQ(numbers_of("skipped: base", 3), (std::vector<double>{1, 0, 2048}));
}

TEST_P(AmpRecipes, FindNonfinite) {
  run("find_nonfinite");
  const auto expect = [&](const std::string& name, const std::string& said) {
    EXPECT_EQ(line(name), name + ": " + said);
  };
  expect("a sound model", "both finite, no autocast finite, no scaler finite -> none");
  expect("inputs around 100000", "both inf/NaN, no autocast finite, no scaler inf/NaN -> f16");
  expect("a scale of 2^40", "both inf/NaN, no autocast finite, no scaler finite -> scale");
  expect("a log of 0", "both inf/NaN, no autocast inf/NaN, no scaler inf/NaN -> model or data");
}

TEST_P(AmpRecipes, CustomFunction) {
  run("custom_function");
  EXPECT_EQ(line("x^4 of ops"), "x^4 of ops: f16 inf");
  EXPECT_LT(numbers_of("power4: f32", 2)[0], 3 * 0x1p-24);
  EXPECT_LT(numbers_of("power4: f32", 2)[1], 3 * 0x1p-11);
  for (const double error : numbers_of("gram: f16", 2)) EXPECT_LT(error, 3 * 0x1p-11);
}

TEST_P(AmpRecipes, Resume) {
  run("resume");
  const std::string whole = line("never stopped: "), resumed = line("resumed: ");
  EXPECT_EQ(whole.substr(whole.find("scale")), resumed.substr(resumed.find("scale")));
  EXPECT_NE(whole.find("1 skipped"), std::string::npos);
  EXPECT_EQ(numbers_of("saved", 5)[0], 131072) << "65536, halved once, doubled twice";
  EXPECT_EQ(numbers_of("never stopped", 5)[0], 524288) << "doubled twice more";
  EXPECT_EQ(numbers_of("weights that differ", 1)[0], 0);
}

TEST_P(AmpRecipes, ParameterMemory) {
  run("parameter_memory");
  const std::map<std::string, std::vector<double>> expected{{"f32 ", {8, 8, 16}},
                                                            {"bf16 autocast  ", {8, 10, 18}},
                                                            {"bf16, f32 masters", {4, 12, 16}},
                                                            {"bf16, split masters", {4, 10, 14}},
                                                            {"bf16, stochastic  ", {4, 8, 12}},
                                                            {"bf16 autocast, 8-bit", {8, 4, 12}},
                                                            {"bf16, stochastic, 8-bit", {4, 2, 6}}};
  for (const auto& [way, bytes] : expected) {
    const std::vector<double> got = numbers_of(way, 3);
    for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(got[i], bytes[i], 0.1) << way;
  }
}

TEST_P(AmpRecipes, HalfParameters) {
  run("half_parameters");
  const double f32 = numbers_of("f32 without masters", 1)[0];
  EXPECT_NEAR(numbers_of("f16 with masters", 1)[0], f32, 0x1p-11 * f32 + 1e-5);
  EXPECT_NEAR(numbers_of("bf16 with masters", 1)[0], f32, 0x1p-8 * f32 + 1e-5);
  EXPECT_NEAR(numbers_of("bf16 with split masters", 1)[0], f32, 0x1p-8 * f32 + 1e-5);
  EXPECT_NEAR(numbers_of("bf16 at random", 1)[0], f32, 2 * 0x1p-8 * f32 + 1e-5);
  EXPECT_GT(numbers_of("bf16 without masters", 1)[0], f32 * (1 + 4 * 0x1p-8));
  EXPECT_NE(line("f16 without masters").find("master_weights = true"), std::string::npos);
}

TEST_P(AmpRecipes, Lora) {
  run("lora");
  const auto adapters = numbers_of("adapters:", 3);
  // Layers of 64 x 64, 64 x 192 and twice 64 x 256 have adapters of (64 + 64 + 64 + 192 + 2 (64 + 256)) 4
  // each.
  EXPECT_NEAR(adapters[0], 7.8, 0.2);
  EXPECT_LT(adapters[2], adapters[1] / 2);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_P(AmpRecipes, Float8) {
  run("float8");
  const auto losses = numbers_of("loss after", 4);  // steps, bf16, all layers, inner layer
  EXPECT_NE(losses[2], losses[1]) << "float8 did not run";
  EXPECT_NE(losses[3], losses[2]) << "no layer was skipped";
  EXPECT_NEAR(losses[2], losses[1], 0.02);
  EXPECT_NEAR(losses[3], losses[1], 0.02);
  EXPECT_LT(numbers_of("codes f8_e4m3", 2)[1], 0x1p-4);
  EXPECT_EQ(line("product of an infinity"), "product of an infinity: nan");
}

TEST(AmpRecipesSources, AreOfAtMostAHundredLinesAndListed) {
  const auto sources = std::filesystem::path(mezzo::test::data_folder()).parent_path() / "examples/amp";
  if (!std::filesystem::exists(sources)) GTEST_SKIP() << sources << " is not here";
  const std::string list = text_of(sources / "README.md");
  for (const std::string name : kRecipes) {
    const std::string text = text_of(sources / (name + ".cpp"));
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 100) << name;
    EXPECT_NE(list.find("[" + name + "](" + name + ".cpp)"), std::string::npos) << name;
  }
}

TEST(AmpRecipesFlags, WrongOnesAreRefusedInOneLine) {
  if (!std::filesystem::exists(folder())) GTEST_SKIP() << folder() << " was not built";
  const auto expect_line = [](const std::string& name, const std::string& flags, int status) {
    const Ran ran = mezzo::test::run_shell("'" + (folder() / name).string() + "' " + flags);
    EXPECT_EQ(ran.status, status) << name << " " << flags;
    EXPECT_EQ(std::count(ran.text.begin(), ran.text.end(), '\n'), 1) << ran.text;
    EXPECT_NE(ran.text.find("expected"), std::string::npos) << ran.text;
  };
  for (const std::string name : kRecipes) {
    for (const char* flags : {"--devise cpu", "--device", "--device gpu", "cpu", "--device cpu more"})
      expect_line(name, flags, 2);
    if (!mezzo::cuda::is_available()) expect_line(name, "--device cuda", 1);
  }
}

}  // namespace
