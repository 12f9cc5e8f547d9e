// The timing sample as a user runs it, with a workload that takes a moment: what it prints, writes and
// refuses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mezzo/core/cuda.h"
#include "support/child.h"

namespace {

using mezzo::test::Ran;

class MlpTiming : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = mezzo::test::this_program().parent_path().parent_path() / "examples/mlp_timing";
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " was not built";
  }
  [[nodiscard]] Ran run(const std::string& arguments) const {
    return mezzo::test::run_shell("'" + program_.string() + "' " + arguments);
  }
  /// Runs the tiny workload and returns the JSON that it wrote.
  nlohmann::json report(const std::string& arguments, int epochs = 3) {
    const std::string file = ::testing::TempDir() + "mlp_timing_" + std::to_string(::getpid()) + ".json";
    ran_ = run(kTiny + "--epochs " + std::to_string(epochs) + " " + arguments + " --json '" + file + "'");
    EXPECT_EQ(ran_.status, 0) << ran_.text;
    std::ifstream stream(file);
    nlohmann::json parsed = nlohmann::json::parse(stream, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << ran_.text;
    std::filesystem::remove(file);
    return parsed;
  }
  static std::vector<std::string> keys(const nlohmann::json& report) {
    std::vector<std::string> all;
    for (const auto& run : report["runs"]) all.push_back(run["key"]);
    return all;
  }
  void expect_said(const std::string& part) const {
    EXPECT_NE(ran_.text.find(part), std::string::npos) << '"' << part << "\" is not in\n" << ran_.text;
  }
  void expect_refused(const std::string& arguments, int status, const std::string& part) {
    ran_ = run(kTiny + arguments);
    EXPECT_EQ(ran_.status, status) << arguments;
    expect_said(part);
  }

  const std::string kTiny = "--batch-size 4 --in-size 8 --out-size 8 --layers 2 --num-batches 2 ";
  std::filesystem::path program_;
  Ran ran_;
};

TEST_F(MlpTiming, Advises) {
  ran_ = run(
      "--advise --device cpu --modes f32,bf16-scaler --batch-size 4 --in-size 509 --out-size 8 --layers 2");
  EXPECT_EQ(ran_.status, 0) << ran_.text;
  expect_said("A step in bf16 on cpu takes ");
  expect_said("in_features 509 as 512");
}

TEST_F(MlpTiming, OnTheCpu) {
  const nlohmann::json report = this->report("--device cpu");
  EXPECT_EQ(keys(report),
            (std::vector<std::string>{"f32", "f16", "f16-scaler", "bf16", "bf16-scaler", "fp8"}));
  for (const auto& run : report["runs"]) {
    EXPECT_FALSE(run["tf32"]);
    EXPECT_FALSE(run["captured"]);
    EXPECT_EQ(run["host_reads"], 0);
    EXPECT_GT(run["step_seconds"]["median"], 0);
    EXPECT_GE(run["total_seconds"], 6 * run["step_seconds"]["min"].get<double>());
  }
  EXPECT_EQ(ran_.text.find("TF32"), std::string::npos) << ran_.text;
  // The losses are those of one training: a scale that is a power of two changes no digit, and the dtype of
  // the products as many as it has.
  const auto loss_of = [](const nlohmann::json& of, std::size_t i) {
    return of["runs"][i]["final_loss"].get<double>();
  };
  const double f32 = loss_of(report, 0);
  EXPECT_NEAR(loss_of(report, 1), f32, f32 * 0x1p-10);
  EXPECT_NEAR(loss_of(report, 3), f32, f32 * 0x1p-7);
  EXPECT_NE(loss_of(report, 1), f32);
  EXPECT_NE(loss_of(report, 3), loss_of(report, 1));
  EXPECT_EQ(loss_of(report, 2), loss_of(report, 1));
  EXPECT_EQ(loss_of(report, 4), loss_of(report, 3));
  expect_said("6 steps");
  expect_said("Memory of all modes together, cpu: at most ");
  EXPECT_EQ(report["turns"], 6);
  for (const auto& run : report["runs"]) {
    const auto& faster = run["speedup"];
    EXPECT_LE(faster["low"], faster["median"]);
    EXPECT_LE(faster["median"], faster["high"]);
    EXPECT_GT(faster["low"], 0);
  }
  EXPECT_EQ(report["runs"][0]["speedup"]["high"], 1) << "of the baseline over itself";
  const nlohmann::json longer = this->report("--device cpu", 30);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(loss_of(longer, i), loss_of(report, i)) << i;
}

// With fewer than six turns no ratio is certain, whatever it is.
TEST_F(MlpTiming, AVerdictNeedsTurnsEnough) {
  const nlohmann::json report = this->report("--device cpu --modes f16", 2);
  EXPECT_EQ(report["turns"], 4);
  expect_said("whether mixed precision was faster than f32 here cannot be told");
  const nlohmann::json longer = this->report("--device cpu --modes f16", 200);
  EXPECT_EQ(longer["turns"], 15);
}

// What a mode holds is its own, though all models are there at the same time.
TEST_F(MlpTiming, MemoryIsThatOfEachMode) {
  const auto peaks = [&](const std::string& modes) {
    std::vector<std::int64_t> all;
    const nlohmann::json report = this->report("--device cpu --modes " + modes);
    for (const auto& run : report["runs"]) all.push_back(run["peak_bytes_without_data"]);
    return all;
  };
  const std::vector<std::int64_t> alone = peaks("f16"), together = peaks("f16,f16-scaler,bf16,bf16-scaler");
  ASSERT_EQ(together.size(), 5U);
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
  EXPECT_GT(alone[0], 2 * 4 * (2 * 8 * 8)) << "at least weights and gradients";
}

TEST_F(MlpTiming, ModesAreChosen) {
  EXPECT_EQ(keys(report("--device cpu --modes bf16")), (std::vector<std::string>{"f32", "bf16"}));
}

TEST_F(MlpTiming, WhatCannotRunIsRefusedWithTheReason) {
  expect_refused("--device cpu --modes tf32", 2, "TF32 is a format of NVIDIA GPUs");
  expect_refused("--device cpu --modes f16-scaler-captured", 2, "captured by CUDA graphs");
  expect_refused("--device cpu --model small --size nonsense", 2, "--size auto or seed");
  expect_refused("--device cpu --modes f64", 2, "f32, tf32, f16, f16-scaler, f16-scaler-captured, bf16");
  expect_refused("--device gpu", 2, "cpu, cuda or cuda:N");
  expect_refused("--device cuda:99", 1, "cuda:99");
  if (!mezzo::cuda::is_available()) expect_refused("--device cuda", 1, "cuda:0");
}

TEST_F(MlpTiming, OnAGpu) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  const nlohmann::json report = this->report("--device cuda");
  EXPECT_EQ(keys(report), (std::vector<std::string>{"f32", "tf32", "f16", "f16-scaler", "f16-scaler-captured",
                                                    "bf16", "bf16-scaler", "fp8"}));
  EXPECT_EQ(report["device"], "cuda:0");
  const std::string name = report["device_name"];
  EXPECT_FALSE(name.empty());
  for (const auto& run : report["runs"]) {
    const std::string key = run["key"];
    EXPECT_EQ(run["tf32"], key == "tf32");
    EXPECT_EQ(run["compute"] == "tf32", key == "tf32");
    EXPECT_EQ(run["captured"], key == "f16-scaler-captured");
    EXPECT_EQ(run["host_reads"], 0) << key;
    EXPECT_GE(run["step_seconds"]["min"], 0) << key;
    EXPECT_GT(run["step_seconds"]["max"], 0) << key;
  }
  // Captured and not, the same bits.
  EXPECT_EQ(report["runs"][4]["final_loss"], report["runs"][3]["final_loss"]);
  EXPECT_EQ(report["runs"][4]["scale"], report["runs"][3]["scale"]);
  expect_said("mezzo timing sample on cuda:0 (" + name + ")");
  expect_said("default, TF32 allowed");
  expect_said("Steps are timed on the GPU");
  expect_said("f32 with TF32");
  expect_said("Captured, steps");
}

// The emulated machine has a second device when asked for one.
TEST_F(MlpTiming, OnASecondGpu) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  setenv("MEZZO_EMULATED_DEVICES", "2", 1);
  ran_ = run(kTiny + "--epochs 3 --device cuda:1 --modes f16-scaler,f16-scaler-captured");
  unsetenv("MEZZO_EMULATED_DEVICES");
  if (ran_.text.find("an index from 0 to 0") != std::string::npos) GTEST_SKIP() << "there is one GPU";
  EXPECT_EQ(ran_.status, 0) << ran_.text;
  expect_said("on cuda:1 (");
}

TEST_F(MlpTiming, OnAGpuF32IsComparedWithoutTf32UnlessAsked) {
  if (!mezzo::cuda::is_available()) GTEST_SKIP() << mezzo::cuda::why_unavailable();
  EXPECT_EQ(keys(report("--device cuda:0 --modes f16")), (std::vector<std::string>{"f32", "f16"}));
  expect_said("--modes tf32 measures");
}

}  // namespace
