// export_onnx as a user runs it: a trained network whose file, read again, gives the numbers beside it, and
// bad options in one line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "mezzo/mezzo.h"
#include "onnx/evaluate.h"
#include "onnx/reader.h"
#include "support/child.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;

class ExportOnnx : public testing::Test {
 protected:
  ExportOnnx()
      : program_(test::this_program().parent_path().parent_path() / "examples" / "export_onnx"),
        folder_(fs::temp_directory_path() / ("mezzo-export-" + std::to_string(::getpid()))) {}
  void SetUp() override {
    if (!fs::exists(program_)) GTEST_SKIP() << program_ << " was not built";
    fs::create_directories(folder_);
  }
  ~ExportOnnx() override { fs::remove_all(folder_); }

  [[nodiscard]] test::Ran run(const std::string& flags) const {
    return test::run_shell("'" + program_.string() + "' " + flags + " --output '" + folder_.string() + "'");
  }

  fs::path program_, folder_;
};

TEST_F(ExportOnnx, LearnsAndWritesWhatItComputes) {
  const test::Ran ran = run("--steps 100");
  ASSERT_EQ(ran.status, 0) << ran.text;
  for (const auto& [name, tolerance] : {std::pair{"digits.f32", 1e-5}, {"digits.f16", 1e-2}}) {
    const std::string path = (folder_ / name).string();
    const io::TensorFile::NamedTensors values = io::read_npz(path + ".npz");
    const Tensor wanted = values.at(1).second;
    const Tensor got =
        onnx::testing::evaluate(onnx::testing::read(path + ".onnx").model, {values.at(0).second})[0];
    EXPECT_TRUE(allclose(got.to(DType::f32), wanted.to(DType::f32), tolerance, tolerance)) << name;
  }
  EXPECT_NE(ran.text.find("% of 64 digits"), std::string::npos);
}

TEST_F(ExportOnnx, RefusesInOneLine) {
  const test::Ran ran = run("--steps 0 --opset 9");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.text.find("expected an opset from 17 to 23, got 9"), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace mezzo
