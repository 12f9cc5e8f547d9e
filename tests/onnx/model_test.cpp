// The file by itself: what onnx/model.h writes is what a reader of onnx.proto gets back, to the byte.
#include "mezzo/onnx/model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/random.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "onnx/reader.h"

namespace mezzo::onnx::testing {
namespace {

class OnnxFile : public io::WithFolder {
 protected:
  [[nodiscard]] ReadModel written(const Model& model, std::optional<bool> external = {}) const {
    write(model, path("m.onnx"), external);
    return read(path("m.onnx"));
  }
};

TEST_F(OnnxFile, HoldsEveryKindOfAttribute) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  const Node node{"Any",
                  {"x", "", "y"},
                  {"z"},
                  {{"one", kLeast},
                   {"real", -0.1F},
                   {"text", std::string("a\0b", 3)},
                   {"list", std::vector<std::int64_t>{0, -1, kMost}},
                   {"words", std::vector<std::string>{"Tanh", ""}},
                   {"value", tensor({1.0F, 2.0F})}}};
  const Model model = written({.opset = 21, .name = "net", .nodes = {node}}).model;
  ASSERT_EQ(model.nodes.size(), 1U);
  const Node& got = model.nodes[0];
  EXPECT_EQ(model.opset, 21);
  EXPECT_EQ(model.name, "net");
  EXPECT_EQ(got.inputs, node.inputs);
  EXPECT_EQ(got.outputs, node.outputs);
  ASSERT_EQ(got.attributes.size(), node.attributes.size());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got.attributes[i].name, node.attributes[i].name);
    ASSERT_EQ(got.attributes[i].value.index(), node.attributes[i].value.index());
  }
  EXPECT_EQ(std::get<std::int64_t>(got.attributes[0].value), kLeast);
  EXPECT_EQ(std::get<float>(got.attributes[1].value), -0.1F);
  EXPECT_EQ(std::get<std::string>(got.attributes[2].value), std::string("a\0b", 3));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(got.attributes[3].value),
            (std::vector<std::int64_t>{0, -1, kMost}));
  EXPECT_EQ(std::get<std::vector<std::string>>(got.attributes[4].value),
            (std::vector<std::string>{"Tanh", ""}));
  EXPECT_TRUE(equal(std::get<Tensor>(got.attributes[5].value), tensor({1.0F, 2.0F})));
}

TEST_F(OnnxFile, HoldsTensorsOfEveryDtypeAndShape) {
  Model model;
  for (const DType dtype : kAllDTypes) {
    const Tensor values = arange(6, {.dtype = DType::f32}).reshape({2, 3});
    const Tensor row = select(values, 0, 1);
    for (const Tensor& one :
         Tensors{values, transpose(values, 0, 1), select(row, 0, 2), narrow(values, 1, 0, 0)})
      model.initializers.push_back({"v" + std::to_string(model.initializers.size()), one.to(dtype)});
  }
  const Model got = written(model).model;
  ASSERT_EQ(got.initializers.size(), model.initializers.size());
  for (std::size_t i = 0; i < got.initializers.size(); ++i) {
    const Tensor &a = got.initializers[i].value, &b = model.initializers[i].value;
    EXPECT_EQ(got.initializers[i].name, model.initializers[i].name);
    EXPECT_EQ(a.dtype(), b.dtype());
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>()) << to_string(b.dtype());
  }
}

TEST_F(OnnxFile, SaysSizesByNumberAndName) {
  const Model model = written({.inputs = {{"a", DType::i64, {"batch", std::int64_t{3} << 40}}},
                               .outputs = {{"b", DType::f16, {}}}})
                          .model;
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].dtype, DType::i64);
  ASSERT_EQ(model.inputs[0].shape.size(), 2U);
  EXPECT_EQ(std::get<std::string>(model.inputs[0].shape[0]), "batch");
  EXPECT_EQ(std::get<std::int64_t>(model.inputs[0].shape[1]), std::int64_t{3} << 40);
  EXPECT_EQ(model.outputs[0].name, "b");
  EXPECT_EQ(model.outputs[0].dtype, DType::f16);
  EXPECT_TRUE(model.outputs[0].shape.empty());
}

TEST_F(OnnxFile, HasTheOldestVersionThatKnowsItsOpset) {
  for (const auto& [opset, version] :
       {std::pair{17, 8}, {18, 8}, {19, 9}, {20, 9}, {21, 10}, {22, 10}, {23, 11}}) {
    const ReadModel read = written({.opset = opset});
    EXPECT_EQ(read.ir_version, version) << opset;
    EXPECT_EQ(read.producer, "mezzo");
  }
}

TEST_F(OnnxFile, SmallValuesStayBesideLargeOnesElsewhere) {
  const Tensor large = randn({300}), other = randn({500}), small = randn({4});
  const Model got =
      written({.initializers = {{"large", large}, {"small", small}, {"other", other}}}, true).model;
  EXPECT_TRUE(equal(got.initializers[0].value, large));
  EXPECT_TRUE(equal(got.initializers[1].value, small));
  EXPECT_TRUE(equal(got.initializers[2].value, other));
  EXPECT_EQ(std::filesystem::file_size(path("m.onnx.data")), 4096U + 2000U) << "each begins at a page";
}

}  // namespace
}  // namespace mezzo::onnx::testing
