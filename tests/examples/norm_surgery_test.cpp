// The example of norm surgery as a user runs it, with a workload that takes a moment: its losses agree, its
// low-precision norms save memory, and wrong flags are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "mezzo/core/cuda.h"
#include "support/child.h"

namespace {

using mezzo::test::Ran;

class NormSurgery : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = mezzo::test::this_program().parent_path().parent_path() / "examples/norm_surgery";
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " was not built";
    folder_ = std::filesystem::path(::testing::TempDir()) / ("norm_surgery_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] Ran run(const std::string& arguments) const {
    return mezzo::test::run_shell("'" + program_.string() + "' " + arguments);
  }
  /// Runs it and returns the JSON that it wrote.
  nlohmann::json report(const std::string& arguments) {
    const std::filesystem::path file = folder_ / "report.json";
    ran_ = run(arguments + " --json '" + file.string() + "'");
    EXPECT_EQ(ran_.status, 0) << ran_.text;
    std::ifstream stream(file);
    nlohmann::json parsed = nlohmann::json::parse(stream, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << ran_.text;
    return parsed;
  }
  void expect_said(const std::string& part) const {
    EXPECT_NE(ran_.text.find(part), std::string::npos) << '"' << part << "\" is not in\n" << ran_.text;
  }
  void expect_refused(const std::string& arguments, const std::string& part) {
    ran_ = run(arguments);
    EXPECT_EQ(ran_.status, 2) << arguments;
    expect_said(part);
  }
  /// Every run learns; those under autocast end where the one in f32 does, within two units of the last place
  /// of a bf16 number of the size of the loss they began with.
  static void expect_agreement(const nlohmann::json& runs) {
    for (const auto& run : runs) {
      const double first = run["first_loss"], last = run["last_loss"];
      EXPECT_LT(last, 0.8 * first) << run;
      EXPECT_NEAR(last, runs[0]["last_loss"].get<double>(), 2 * 0x1p-8 * first) << run;
    }
  }
  std::filesystem::path program_, folder_;
  Ran ran_;
};

constexpr const char* kSmall = "--device cpu --steps 40 --batch-size 16 --side 12 ";

TEST_F(NormSurgery, TransformerWithFusedNorms) {
  const nlohmann::json runs = report(kSmall + std::string("--model transformer"));
  ASSERT_EQ(runs.size(), 4U);
  expect_agreement(runs);
  const auto bytes = [&](std::size_t i) { return runs[i]["activation_bytes"].get<std::int64_t>(); };
  EXPECT_LT(bytes(2), bytes(1));  // low precision against f32 norms under autocast
  EXPECT_LT(bytes(3), bytes(1));
  expect_said("LPLayerNorm");
}

TEST_F(NormSurgery, ConvolutionsInF16) {
  const nlohmann::json runs = report(kSmall + std::string("--model conv --precision amp_fp16"));
  ASSERT_EQ(runs.size(), 3U);
  expect_agreement(runs);
  EXPECT_LT(runs[2]["activation_bytes"].get<std::int64_t>(), runs[1]["activation_bytes"].get<std::int64_t>());
  expect_said("LPGroupNorm");
}

TEST_F(NormSurgery, OnAGpu) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  for (const std::string model : {"conv", "transformer"}) {
    const nlohmann::json runs = report("--device cuda --steps 2 --batch-size 2 --side 8 --model " + model);
    for (const auto& run : runs) EXPECT_TRUE(std::isfinite(run["last_loss"].get<double>())) << run;
  }
}

TEST_F(NormSurgery, LearnsFromIdxFiles) {
  std::ofstream images(folder_ / "t-images-idx3-ubyte", std::ios::binary);
  images << std::string({0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8});
  for (int i = 0; i < 20 * 64; ++i) images.put(static_cast<char>(i * 37 % 256));
  images.close();
  std::ofstream labels(folder_ / "t-labels-idx1-ubyte", std::ios::binary);
  labels << std::string({0, 0, 8, 1, 0, 0, 0, 20});
  for (int i = 0; i < 20; ++i) labels.put(static_cast<char>(i % 10));
  labels.close();
  const std::string data = "--device cpu --data '" + folder_.string() + "' ";
  EXPECT_EQ(report(data + "--model conv --steps 3 --batch-size 10").size(), 3U);
  expect_refused(data + "--batch-size 21", "at least a batch");
}

TEST_F(NormSurgery, WrongFlagsAreRefused) {
  expect_refused("--precision fp32", "--precision amp_bf16 or amp_fp16");
  expect_refused("--precision f16", "amp_bf16");
  expect_refused("--model resnet", "conv, transformer or both");
  expect_refused("--steps 1", "--steps of at least 2");
  expect_refused("--data /nonexistent", "images-idx3-ubyte");
  expect_refused("--batches 3", "--help");
}

}  // namespace
