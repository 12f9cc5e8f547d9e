// The example export as a user runs it: a trained network whose file, read again, gives the numbers beside
// it, and bad options in one line.
#include <string>
#include <utility>

#include "mezzo/tests/examples/trained_program.h"
#include "onnx/evaluate.h"
#include "onnx/reader.h"

namespace mezzo {
namespace {

class Export : public test::TrainedProgram {
 protected:
  Export() : TrainedProgram("export") {}
};

TEST_F(Export, LearnsAndWritesWhatItComputes) {
  const std::string text = text_of("--steps 100");
  EXPECT_GE(number_behind(text, "digits.f32.onnx: "), 90) << "one that has not learned has 10 %";
  for (const auto& [name, tolerance] : {std::pair{"digits.f32", 1e-5}, {"digits.f16", 1e-2}}) {
    const std::string path = (folder_ / name).string();
    const io::TensorFile::NamedTensors values = io::read_npz(path + ".npz");
    const Tensor wanted = values.at(1).second;
    const Tensor got =
        onnx::testing::evaluate(onnx::testing::read(path + ".onnx").model, {values.at(0).second})[0];
    EXPECT_TRUE(allclose(got.to(DType::f32), wanted.to(DType::f32), tolerance, tolerance)) << name;
  }
}

TEST_F(Export, RefusesInOneLine) {
  expect_refused("--steps 0 --opset 9", "expected an opset from 17 to 23, got 9");
  expect_refused("--steps 0 --output nowhere", "write 'nowhere/digits.f32.onnx'");
}

}  // namespace
}  // namespace mezzo
