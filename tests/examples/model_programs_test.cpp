// mnist_cnn, char_gpt, cifar_resnet and tabular as a user runs them, on small settings: each reaches its goal
// in every precision, goes on from its checkpoints with the same bits, reads files, and refuses bad input in
// one line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/mezzo.h"
#include "support/child.h"
#include "support/sanitizer.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;

/// A program with flags for a training of a second or so, and what it must reach: in per cent, or nats. One
/// whose weights stay as they began has 10 % (tabular 0 and 50), or 3.3 nats.
struct Training {
  std::string name, program, flags, duration, goal;
};
void PrintTo(const Training& training, std::ostream* stream) { *stream << training.name; }

const Training kMnist{"mnist_cnn", "mnist_cnn", "", "50ba", "90"};
const Training kMnistLow{"mnist_cnn_low_norms", "mnist_cnn", "--low-precision-norms", "50ba", "90"};
const Training kGpt{"char_gpt", "char_gpt",
                    "--layers 2 --width 32 --heads 2 --context 32 --batch 16 --lr 5e-3 "
                    "--eval-interval 200ba --sample 40",
                    "200ba", "1.3"};
const Training kCifar{"cifar_resnet", "cifar_resnet", "--width 4 --images 480 --batch 16 --eval-interval 3ep",
                      "3ep", "60"};
const Training kCifar18{"cifar_resnet_18", "cifar_resnet",
                        "--model resnet18 --width 4 --images 600 --batch 16 --lr 0.02 --eval-interval 4ep",
                        "4ep", "60"};
const Training kNumber{"tabular_number", "tabular", "", "8ep", "90"};
const Training kClasses{"tabular_classes", "tabular", "--target segment", "8ep", "85"};

class ModelPrograms : public testing::Test {
 protected:
  ModelPrograms()
      : programs_(test::this_program().parent_path().parent_path() / "examples"),
        folder_(fs::temp_directory_path() / ("mezzo-model-programs-" + std::to_string(::getpid()))) {}
  void SetUp() override {
    if (!fs::exists(programs_ / "mnist_cnn")) GTEST_SKIP() << programs_ << " was not built";
    fs::create_directories(folder_);
  }
  ~ModelPrograms() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string command(const std::string& program, const std::string& flags) const {
    return "'" + (programs_ / program).string() + "' --device cpu " + flags;
  }
  [[nodiscard]] test::Ran run(const std::string& program, const std::string& flags) const {
    return test::run_shell("cd '" + folder_.string() + "' && " + command(program, flags));
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  /// The newest checkpoint in a folder, without the seconds that it took.
  [[nodiscard]] io::TensorFile checkpoint(const std::string& name) const {
    io::TensorFile file = io::TensorFile::load((folder_ / name / "latest.safetensors").string());
    for (auto& [key, text] : file.metadata)
      text = std::regex_replace(text, std::regex(R"("seconds":[^,}]*)"), "\"seconds\":0");
    return file;
  }
  void expect_same_checkpoint(const std::string& name, const std::string& as) const {
    const io::TensorFile expected = checkpoint(as), got = checkpoint(name);
    ASSERT_EQ(got.tensors.size(), expected.tensors.size());
    for (std::size_t i = 0; i < got.tensors.size(); ++i)
      EXPECT_TRUE(equal(got.tensors[i].second, expected.tensors[i].second)) << got.tensors[i].first;
    EXPECT_EQ(got.metadata, expected.metadata);
  }

  fs::path programs_, folder_;
};

class ModelProgram : public ModelPrograms, public testing::WithParamInterface<Training> {};

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

const auto kName = [](const auto& training) { return training.param.name; };
INSTANTIATE_TEST_SUITE_P(Programs, ModelProgram,
                         testing::Values(kMnist, kMnistLow, kGpt, kCifar, kCifar18, kNumber, kClasses),
                         kName);

TEST_P(ModelProgram, ReachesItsGoalInEveryPrecision) {
  if (test::under_sanitizer()) GTEST_SKIP() << "trainings take long with a sanitizer";
  const auto& [name, program, flags, duration, goal] = GetParam();
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const test::Ran ran = run(program, flags + " --duration " + duration + " --check --goal " + goal +
                                           " --precision " + precision + " --report page.html");
    EXPECT_EQ(ran.status, 0) << precision << "\n" << ran.text;
    EXPECT_TRUE(
        std::regex_search(last_line(ran.text), std::regex("^goal " + goal + " .*: reached .* in [0-9]+ s$")))
        << ran.text;
    EXPECT_TRUE(fs::remove(folder_ / "page.html"));
  }
}

/// 16 bits are not another name for 32.
TEST_P(ModelProgram, ThePrecisionIsThatOfTheFlag) {
  const auto& [name, program, flags, duration, goal] = GetParam();
  const std::string small = flags + " --duration 2ba --save-interval 2ba ";
  std::vector<Tensor> weights;
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const test::Ran ran = run(program, small + "--resume " + precision + " --precision " + precision);
    ASSERT_EQ(ran.status, 0) << ran.text;
    const io::TensorFile file = checkpoint(precision);
    for (const auto& [tensor_name, tensor] : file.with_prefix("model."))
      EXPECT_TRUE(tensor.dtype() == DType::f32 || tensor.dtype() == DType::i64) << tensor_name;
    weights.push_back(file.with_prefix("model.").back().second);
    EXPECT_EQ(file.metadata.at("mezzo.values").find("\"scaler\":{}") == std::string::npos,
              std::string(precision) == "amp_fp16");
  }
  EXPECT_FALSE(equal(weights[0], weights[1]));
  EXPECT_FALSE(equal(weights[0], weights[2]));
  EXPECT_FALSE(equal(weights[1], weights[2]));
}

/// Two trainings of 12 batches, one of which was stopped after 7 and after 8.
TEST_P(ModelProgram, StoppedAndBegunAgainItEndsWithTheSameBits) {
  const auto& [name, program, flags, duration, goal] = GetParam();
  const std::string all = flags + " --precision amp_fp16 --save-interval 4ba --duration 12ba --resume ";
  const test::Ran whole = run(program, all + "whole");
  ASSERT_EQ(whole.status, 0) << whole.text;
  for (const char* stop : {"7", "8"}) {
    // As kill -9 at that batch: what is newer than the last checkpoint is lost.
    const test::Ran stopped = run(program, all + "parts --stop " + stop);
    EXPECT_NE(stopped.status, 0) << stopped.text;
  }
  const test::Ran resumed = run(program, all + "parts --workers 1");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_same_checkpoint("parts", "whole");
  const auto result = [](const std::string& text) {
    return std::regex_replace(last_line(text), std::regex(" in [0-9]+ s"), "");
  };
  EXPECT_EQ(result(resumed.text), result(whole.text));
  // Nothing is left to do, and it is said again what was reached.
  const test::Ran again = run(program, all + "parts");
  EXPECT_EQ(again.status, 0) << again.text;
  EXPECT_EQ(result(again.text), result(whole.text));
}

TEST_P(ModelProgram, LeavesTheProfileOfItsSteps) {
  fs::create_directory(folder_ / "profile");
  const test::Ran ran = run(GetParam().program, GetParam().flags + " --duration 12ba --profile profile");
  ASSERT_EQ(ran.status, 0) << ran.text;
  std::ifstream report(folder_ / "profile/profile.txt");
  std::string line;
  std::getline(report, line);
  EXPECT_TRUE(line.starts_with("2 steps on ")) << line;
  EXPECT_GT(fs::file_size(folder_ / "profile/trace.json"), 1000U);
  fs::remove_all(folder_ / "profile");
}

TEST_P(ModelProgram, HelpNamesTheFlagsOfAll) {
  const test::Ran ran = run(GetParam().program, "--help");
  EXPECT_EQ(ran.status, 0);
  for (const char* flag : {"--precision", "--data", "--resume", "--report", "--goal", "--check"})
    EXPECT_NE(ran.text.find(flag), std::string::npos) << flag << "\n" << ran.text;
}

TEST_P(ModelProgram, RefusesBadInputInOneLine) {
  const std::string& program = GetParam().program;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--precision fp17", "fp17"},    {"--data nowhere", "nowhere"},
      {"--duration 3moons", "3moons"}, {"--duration 100tok", "100tok"},
      {"--batch 0", "batch"},          {"--report nowhere/page.html", "nowhere"},
      {"--unknown", "unknown"}};
  for (const auto& [flags, named] : cases) {
    const test::Ran ran = run(program, flags);
    EXPECT_TRUE(ran.status == 1 || ran.status == 2) << flags << ": " << ran.status;
    EXPECT_NE(ran.text.find(named), std::string::npos) << ran.text;
    EXPECT_EQ(ran.text.find('\n'), ran.text.size() - 1) << ran.text;
  }
}

TEST_P(ModelProgram, CheckFailsWhereTheGoalIsNotReached) {
  const auto& [name, program, flags, duration, goal] = GetParam();
  const std::string unreachable = goal == kGpt.goal ? "0.1" : "100.5";
  const std::string small = flags + " --duration 1ba --goal " + unreachable;
  const test::Ran ran = run(program, small);
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(last_line(ran.text).find("not reached"), std::string::npos) << ran.text;
  const test::Ran checked = run(program, small + " --check");
  EXPECT_EQ(checked.status, 1) << checked.text;
  EXPECT_NE(last_line(checked.text).find("goal not reached"), std::string::npos) << checked.text;
}

/// Killed three times at a random moment after its first checkpoint.
TEST_F(ModelPrograms, KilledAtRandomMomentsItEndsWithTheSameBits) {
  if (test::under_sanitizer()) GTEST_SKIP() << "trainings take long with a sanitizer";
  const std::string flags =
      "--batch 16 --duration 90ba --save-interval 3ba --eval-interval 40ba --precision amp_bf16 ";
  ASSERT_EQ(run("mnist_cnn", flags + "--resume whole").status, 0);
  std::random_device random;
  for (int i = 0; i < 3; ++i) {
    const std::string milliseconds = std::to_string(random() % 300);
    const test::Ran killed = test::run_shell(
        "cd '" + folder_.string() + "' && { " + command("mnist_cnn", flags + "--resume killed") +
        " & } && while kill -0 $! && [ ! -e killed/latest.safetensors ]; do sleep 0.01; done; sleep 0." +
        std::string(3 - milliseconds.size(), '0') + milliseconds + "; kill -9 $!; wait $!");
    SCOPED_TRACE("killed after " + milliseconds + " ms: " + killed.text);
  }
  const test::Ran resumed = run("mnist_cnn", flags + "--resume killed");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_same_checkpoint("killed", "whole");
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

/// Files of 50 images, of which the upper half is white where the label is 1.
TEST_F(ModelPrograms, MnistHoldsAFifthOut) {
  std::string images = big_endian(0x803) + big_endian(50) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x801) + big_endian(50);
  for (int i = 0; i < 50; ++i) {
    const bool is_one = i % 3 == 1;
    labels += static_cast<char>(is_one);
    images += std::string(14 * 28, is_one ? '\xff' : '\0') + std::string(14 * 28, '\x40');
  }
  write("t10k-images-idx3-ubyte", images);
  write("t10k-labels-idx1-ubyte", labels);
  const test::Ran ran = run("mnist_cnn", "--data . --batch 5 --duration 5ep --goal 100 --check");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(ran.text.find("40 batches, 200 samples"), std::string::npos) << ran.text;
}

/// 40 images whose red channel says the class.
TEST_F(ModelPrograms, CifarIsReadFromItsFiles) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    std::string records;
    for (int i = 0; i < 40; ++i) {
      records += static_cast<char>(i % 2);
      records += std::string(1024, i % 2 == 0 ? '\0' : '\xff') + std::string(2048, '\x80');
    }
    write(name, records);
  }
  const test::Ran ran = run("cifar_resnet", "--data . --width 2 --batch 20 --duration 4ep --goal 90 --check");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(ran.text.find("40 batches, 800 samples"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("images per second"), std::string::npos) << ran.text;
  const test::Ran open = run("cifar_resnet", "--data . --width 2 --batch 20 --duration 1ba");
  EXPECT_NE(last_line(open.text).find("no goal: "), std::string::npos) << open.text;
}

TEST_F(ModelPrograms, TheGptLearnsTheTextOfAFileAndWritesIt) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "täglich grüßt\n";
  write("text.txt", text);
  const test::Ran ran =
      run("char_gpt",
          "--data text.txt --layers 1 --width 32 --heads 2 --context 28 --batch 16 --lr 1e-2 "
          "--duration 80ba --sample 56 --temperature 0 --goal 0.1 --check");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_NE(ran.text.find("täglich grüßt\ntäglich grüßt\ntäglich grüßt\n"), std::string::npos) << ran.text;
  write("short.txt", "too short");
  const test::Ran refused = run("char_gpt", "--data short.txt");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.text.find("expected a text of more than 640 characters, got 9"), std::string::npos)
      << refused.text;
}

/// y = 2 a - 3 (c = "u") with a missing `a` now and then; `kind` is one of three.
TEST_F(ModelPrograms, ATableIsReadFromItsFile) {
  std::string csv = "a,b,c,kind,y\n";
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    const double a = static_cast<double>(random() % 1000) / 100 - 5;
    const bool is_u = random() % 2 == 0, is_missing = i % 50 == 7;
    const double y = 2 * (is_missing ? 0 : a) - (is_u ? 3 : 0);
    csv += (is_missing ? "" : std::to_string(a)) + "," + std::to_string(i % 7) + (is_u ? ",u," : ",v,") +
           (y < -4  ? "low,"
            : y < 2 ? "middle,"
                    : "high,") +
           std::to_string(y) + "\n";
  }
  write("table.csv", csv);
  const std::string flags = "--data table.csv --duration 60ep --batch 16 --lr 3e-3 --check --target ";
  for (const char* target : {"y --goal 97 --leave-out kind", "kind --goal 90 --leave-out y"}) {
    const test::Ran ran = run("tabular", flags + target);
    EXPECT_EQ(ran.status, 0) << target << "\n" << ran.text;
  }
  const test::Ran unknown = run("tabular", flags + "z");
  EXPECT_EQ(unknown.status, 2);
  for (const char* named : {"z", "kind"})
    EXPECT_NE(unknown.text.find(named), std::string::npos) << unknown.text;
  EXPECT_EQ(unknown.text.find('\n'), unknown.text.size() - 1) << unknown.text;
  const test::Ran missing = run("tabular", flags + "a");
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.text.find("a value of 'a' in every row"), std::string::npos) << missing.text;
}

}  // namespace
}  // namespace mezzo
