// Each case is exported, read again and evaluated by mezzo's own ops at three sizes of the batch; and what an
// export refuses.
#include "mezzo/onnx/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "mezzo/mezzo.h"
#include "mezzo/tests/io/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"
#include "onnx/cases.h"
#include "onnx/evaluate.h"
#include "onnx/models.h"
#include "onnx/reader.h"

namespace mezzo::onnx::testing {

namespace {

namespace fs = std::filesystem;

/// The example with `rows` rows in dim 0, or as it is where its sizes are fixed.
std::vector<Tensor> with_rows(const Case& one, std::int64_t rows) {
  std::vector<Tensor> result;
  for (const Tensor& x : one.example) {
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < rows; ++i) index.push_back((i * 7 + 1) % x.size(0));
    result.push_back(one.options.fixed_sizes ? x : index_select(x, 0, tensor(index)));
  }
  return result;
}

std::vector<std::int64_t> batches(const Case& one) {
  return one.options.fixed_sizes ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{2, 3, 5};
}

std::vector<Tensor> run(const Case& one, const std::vector<Tensor>& inputs, DType precision) {
  if (precision == DType::f32) return one.run(inputs);
  const amp::Autocast autocast(precision);
  return one.run(inputs);
}

/// The largest distance, as a part of 1 + the magnitude.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) != std::isnan(right[i])) return INFINITY;
    if (!std::isnan(left[i]) && left[i] != right[i])
      most = std::max(most, std::abs(left[i] - right[i]) / (1 + std::abs(right[i])));
  }
  return most;
}

void keep(const std::string& path, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  io::TensorFile::NamedTensors named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named.emplace_back("in" + std::to_string(i), inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) named.emplace_back("out" + std::to_string(i), outputs[i]);
  io::write_npz(path, named);
}

class Onnx : public io::WithFolder {
 protected:
  /// For tests/onnx/run.py, which names a folder, the file stays there, with inputs and outputs beside it.
  void expect_same(const Case& one, DType precision, double tolerance) {
    const char* const kept = std::getenv("MEZZO_ONNX_FOLDER");
    const std::string name = (kept == nullptr ? path("") : kept + std::string("/")) + one.name + "." +
                             std::string(info(precision).name);
    io::OnnxOptions options = one.options;
    options.precision = precision;
    one.write(name + ".onnx", options);
    const ReadModel read = testing::read(name + ".onnx");
    EXPECT_EQ(read.model.opset, options.opset);
    for (const std::int64_t rows : batches(one)) {
      const std::vector<Tensor> inputs = with_rows(one, rows), wanted = run(one, inputs, precision),
                                got = evaluate(read.model, inputs);
      if (kept != nullptr) keep(name + "." + std::to_string(rows) + ".npz", inputs, wanted);
      ASSERT_EQ(got.size(), wanted.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].shape(), wanted[i].shape()) << rows << " rows";
        EXPECT_EQ(got[i].dtype(), wanted[i].dtype());
        EXPECT_LE(distance(got[i], wanted[i]), tolerance) << rows << " rows, output " << i;
      }
    }
  }

  void expect_all_same(const std::vector<Case>& cases) {
    for (const Case& one : cases) {
      SCOPED_TRACE(one.name);
      expect_same(one, DType::f32, 1e-5);
      expect_same(one, DType::f16, 1e-2);
    }
  }
};

TEST_F(Onnx, LayersHaveTheirNumbers) { expect_all_same(layer_cases()); }
TEST_F(Onnx, OpsHaveTheirNumbers) { expect_all_same(op_cases()); }
TEST_F(Onnx, ModelsHaveTheirNumbers) { expect_all_same(model_cases()); }

// --- the file

TEST_F(Onnx, ParametersKeepTheirPathsAndTheModelItsState) {
  auto net = nn::make<UNet>();
  io::export_onnx(net, randn({1, 3, 8, 8}), path("m.onnx"),
                  {.input_names = {"image"}, .output_names = {"mask"}});
  EXPECT_TRUE(net->is_training());
  EXPECT_TRUE(net->down->is_training());
  const Model model = read(path("m.onnx")).model;
  EXPECT_EQ(model.name, "UNet");
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_EQ(model.inputs[0].name, "image");
  EXPECT_EQ(std::get<std::string>(model.inputs[0].shape[0]), "batch");
  EXPECT_EQ(std::get<std::int64_t>(model.inputs[0].shape[1]), 3);
  EXPECT_EQ(model.outputs[0].name, "mask");
  EXPECT_EQ(std::get<std::string>(model.outputs[0].shape[0]), "batch");
  std::set<std::string> names;
  for (const Initializer& one : model.initializers) names.insert(one.name);
  for (const auto& [path, tensor] : net->named_parameters()) {
    ASSERT_TRUE(names.contains(path)) << path;
    for (const Initializer& one : model.initializers) {
      EXPECT_TRUE(one.name != path || equal(one.value, tensor)) << path;
    }
  }
}

TEST_F(Onnx, WeightsInF16AreOneInitializerHoweverOftenTheyAreCast) {
  auto fc = nn::make<nn::Linear>(8, 8);
  auto twice = nn::make<nn::Sequential>();
  twice->push_back(fc);
  twice->push_back(fc);
  io::export_onnx(twice, randn({2, 8}), path("m.onnx"), {.precision = DType::f16});
  int weights = 0;
  for (const Initializer& one : read(path("m.onnx")).model.initializers) {
    if (one.value.shape() != Shape{8, 8}) continue;
    ++weights;
    EXPECT_EQ(one.name, "0.weight");
    EXPECT_EQ(one.value.dtype(), DType::f16);
  }
  EXPECT_EQ(weights, 1);
}

TEST_F(Onnx, ValuesStandInAFileBesideItWhereAsked) {
  auto net = nn::make<nn::Linear>(64, 64);
  io::export_onnx(net, randn({2, 64}), path("m.onnx"), {.external_data = true});
  EXPECT_GE(fs::file_size(path("m.onnx.data")), 64U * 64 * 4);
  EXPECT_LT(fs::file_size(path("m.onnx")), 2000U);
  for (const Initializer& one : read(path("m.onnx")).model.initializers) {
    EXPECT_TRUE(one.name != "weight" || equal(one.value, net->weight));
  }
}

TEST_F(Onnx, SizesOfTheSecondExampleHaveNames) {
  auto net = nn::make<nn::Conv2d>(3, 4, 3);
  io::export_onnx(net, randn({2, 3, 8, 9}), path("m.onnx"), {.second_example = {randn({3, 3, 12, 9})}});
  const Model model = read(path("m.onnx")).model;
  EXPECT_EQ(std::get<std::string>(model.inputs[0].shape[0]), "batch");
  EXPECT_EQ(std::get<std::string>(model.inputs[0].shape[2]), "input_dim2");
  EXPECT_EQ(std::get<std::int64_t>(model.inputs[0].shape[3]), 9);
}

TEST_F(Onnx, SizesThatAreAlikeInBothRunsAreToldByTheirPlace) {
  auto net = nn::make<FunctionLayer>([](const Tensor& x) {
    const Tensor y = avg_pool2d(x, {.kernel_size = 4});  // its height goes from 2 to 3, as the batch does
    const Tensor rows = y.permute({0, 2, 3, 1}).reshape({y.size(0), y.size(2), y.size(3) * 3});
    return rows.reshape({y.size(0), y.size(2) * y.size(3), 3}) + y.flatten(2).transpose(1, 2);
  });
  io::export_onnx(net, randn({2, 3, 8, 20}), path("m.onnx"), {.second_example = {randn({3, 3, 12, 28})}});
  const Tensor x = randn({5, 3, 16, 12});
  EXPECT_LE(distance(evaluate(read(path("m.onnx")).model, {x})[0], (*net)(x)), 1e-6);
}

struct TwoOfThree final : nn::Module {
  std::pair<Tensor, Tensors> forward(const Tensor& a, const Tensor& b, const Tensor& mask) {
    return {where(mask, a, b), {a + b, b}};
  }
};
TEST_F(Onnx, SeveralInputsAndOutputsOfAnyDtype) {
  auto net = nn::make<TwoOfThree>();
  const std::vector<Tensor> inputs{randn({2, 3}), randn({2, 3}), randn({2, 3}) > 0};
  io::export_onnx(net, inputs, path("m.onnx"));
  const Model model = read(path("m.onnx")).model;
  ASSERT_EQ(model.outputs.size(), 3U);
  EXPECT_EQ(model.inputs[2].dtype, DType::boolean);
  const std::vector<Tensor> got = evaluate(model, inputs);
  EXPECT_TRUE(equal(got[0], where(inputs[2], inputs[0], inputs[1])));
  EXPECT_TRUE(equal(got[1], inputs[0] + inputs[1]));
  EXPECT_TRUE(equal(got[2], inputs[1])) << "an output that is an input";
}

struct Product final : nn::Module {
  Tensor forward(const Tensor& a, const Tensor& b) { return a * 2 + b; }
};
TEST_F(Onnx, OneTensorForTwoInputsIsTwoInputs) {
  const Tensor x = randn({2, 3}), y = randn({2, 3});
  io::export_onnx(nn::make<Product>(), {x, x}, path("m.onnx"));
  EXPECT_TRUE(equal(evaluate(read(path("m.onnx")).model, {x, y})[0], x * 2 + y));
  io::export_onnx(nn::make<Product>(), {x, x.detach()}, path("m.onnx"), {.fixed_sizes = true});
  EXPECT_TRUE(equal(evaluate(read(path("m.onnx")).model, {x, y})[0], x * 2 + y));
}

TEST_F(Onnx, ARegionAroundTheCallChangesNothing) {
  auto net = nn::make<nn::Linear>(4, 3);
  const amp::Autocast autocast(DType::bf16);
  io::export_onnx(net, randn({2, 4}), path("m.onnx"));
  EXPECT_EQ(read(path("m.onnx")).model.outputs[0].dtype, DType::f32);
}

TEST_F(Onnx, AFunctionMayCallTheModel) {
  auto net = nn::make<nn::LSTM>(4, 3);
  const std::vector<Tensor> inputs{randn({5, 2, 4}), randn({1, 2, 3}), randn({1, 2, 3})};
  const auto call = [&](const std::vector<Tensor>& in) {
    const nn::LSTMOutput out = (*net)(in[0], LstmState{in[1], in[2]});
    return std::vector{out.output, out.state.c};
  };
  io::export_onnx(*net, inputs, path("m.onnx"), call, {.fixed_sizes = true});
  const std::vector<Tensor> got = evaluate(read(path("m.onnx")).model, inputs), wanted = call(inputs);
  EXPECT_LE(distance(got[0], wanted[0]), 1e-5);
  EXPECT_LE(distance(got[1], wanted[1]), 1e-5);
}

TEST_F(Onnx, ConstantsThatForwardMakesFollowTheSizes) {
  auto net = nn::make<FunctionLayer>([](const Tensor& x) {
    return x.detach() + arange(3, 3 + 2 * x.size(0), 2, {.dtype = DType::f32}).unsqueeze(1) +
           full({x.size(0) * 2, 1}, 0.5)[{Slice(0, x.size(0))}] + tensor({1.0F, 2.0F});
  });
  io::export_onnx(net, randn({2, 2}), path("m.onnx"));
  const Tensor x = randn({7, 2});
  EXPECT_LE(distance(evaluate(read(path("m.onnx")).model, {x})[0], (*net)(x)), 1e-6);
}

TEST_F(Onnx, Bf16IsWrittenWithAWarning) {
  std::vector<std::string> warnings;
  reset_warnings();
  const WarningHandler before =
      set_warning_handler([&](std::string_view, std::string_view text) { warnings.emplace_back(text); });
  auto net = nn::make<nn::Linear>(4, 3);
  io::export_onnx(net, randn({2, 4}), path("m.onnx"), {.precision = DType::bf16});
  set_warning_handler(before);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("got bf16"), std::string::npos);
  const Model model = read(path("m.onnx")).model;
  EXPECT_EQ(model.outputs[0].dtype, DType::bf16);
  EXPECT_EQ(model.initializers[0].value.dtype(), DType::bf16);
}

TEST_F(Onnx, APackedSequenceOfFixedLengths) {
  auto net = nn::make<nn::GRU>(4, 3, nn::RecurrentOptions{.batch_first = true});
  const auto call = [&](const std::vector<Tensor>& in) {
    const auto packed = nn::pack_padded_sequence(in[0], {5, 2}, {.batch_first = true});
    return std::vector{nn::pad_packed_sequence((*net)(packed).output, {.batch_first = true}).output};
  };
  const std::vector<Tensor> inputs{randn({2, 5, 4})};
  io::export_onnx(*net, inputs, path("m.onnx"), call, {.fixed_sizes = true});
  EXPECT_LE(distance(evaluate(read(path("m.onnx")).model, inputs)[0], call(inputs)[0]), 1e-5);
}

// --- refusals: one line, which names op and module, and no file

class OnnxRefuses : public io::WithFolder {
 protected:
  template <class F>
  std::string refusal(F f, const Tensor& x = randn({2, 4}), const io::OnnxOptions& options = {}) {
    auto net = nn::make<nn::Sequential>();
    net->push_back(nn::make<FunctionLayer>(f));
    const std::string message =
        test::message_of<Error>([&] { io::export_onnx(net, x, path("m.onnx"), options); });
    EXPECT_EQ(file_count(), 0);
    EXPECT_TRUE(net->is_training());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
};
::testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "no '" << part << "' in: " << text;
  }
  return ::testing::AssertionSuccess();
}

TEST_F(OnnxRefuses, AnOpThatOnnxLacksByOpAndModule) {
  EXPECT_TRUE(has(refusal([](const Tensor& x) { return erfinv(x); }),
                  {"export_onnx: expected ops that ONNX has", "'erfinv'", "FunctionLayer '0'"}));
}
TEST_F(OnnxRefuses, WritesInPlace) {
  EXPECT_TRUE(has(refusal([](const Tensor& x) {
                    Tensor y = relu(x);
                    y.add_(1);
                    return y * 2;
                  }),
                  {"export_onnx: expected a forward that leaves", "'relu'", "FunctionLayer '0'"}));
}
TEST_F(OnnxRefuses, RandomNumbersAndHostValues) {
  EXPECT_TRUE(
      has(refusal([](const Tensor& x) { return x + randn_like(x); }), {"tensors made in forward", "'add'"}));
  EXPECT_TRUE(has(refusal([](const Tensor& x) { return x * x.to_vector<double>()[0]; }),
                  {"attributes that do not depend", "'mul_scalar'"}));
  EXPECT_TRUE(has(refusal([](const Tensor& x) { return x / static_cast<double>(x.size(0)); }),
                  {"attributes that do not depend", "fixed_sizes"}));
}
struct Scaled final : nn::Module {
  Tensor forward(const Tensor& x, const Tensor& count) { return x * count.item(); }
};
TEST_F(OnnxRefuses, AnInputThatIsReadOnTheHostAlone) {
  const std::vector<Tensor> inputs{randn({2, 3}), tensor(3)};
  const std::string message = test::message_of<Error>(
      [&] { io::export_onnx(nn::make<Scaled>(), inputs, path("m.onnx"), {.fixed_sizes = true}); });
  EXPECT_TRUE(has(message, {"depends on every input", "none of 'input_1'", "on the host"}));
  EXPECT_EQ(file_count(), 0);
}
TEST_F(OnnxRefuses, RandomNumbersOfOneSize) {
  const auto f = [](const Tensor& x) { return x + randn({4}); };
  EXPECT_TRUE(has(refusal(f), {"tensors made in forward", "'add'"}));
  EXPECT_TRUE(has(refusal(f, randn({2, 4}), {.fixed_sizes = true}), {"tensors made in forward", "'add'"}));
}
TEST_F(OnnxRefuses, ValuesThatForwardCopiesIntoATensorOfItsOwn) {
  const auto f = [](const Tensor& x) {
    const Tensor copy = zeros(x.shape());
    copy.copy_(x);  // no op: the graph would have the example's values
    return copy + 1;
  };
  for (const bool fixed : {false, true}) {
    EXPECT_TRUE(has(refusal(f, ones({2, 4}), {.fixed_sizes = fixed}), {"tensors made in forward"})) << fixed;
    EXPECT_TRUE(has(refusal(f, randn({2, 4}), {.fixed_sizes = fixed}), {"tensors made in forward"})) << fixed;
  }
}
TEST_F(OnnxRefuses, BranchesThatTheTwoRunsTakeDifferently) {
  EXPECT_TRUE(has(refusal([](const Tensor& x) { return x.size(0) > 2 ? relu(x) : sigmoid(x); }),
                  {"the same ops for both sizes", "'relu'"}));
  EXPECT_TRUE(has(refusal([](const Tensor& x) { return x.size(0) > 2 ? relu(relu(x)) : relu(x); }),
                  {"the same ops for both sizes", "2 ops"}));
}
TEST_F(OnnxRefuses, AModelOfOneSizeUnlessItIsFixed) {
  const auto f = [](const Tensor& x) { return x.reshape({2, 2, 2}); };
  EXPECT_TRUE(has(refusal(f), {"a model that also takes [3, 4]", "fixed_sizes = true"}));
  EXPECT_NO_THROW(
      io::export_onnx(nn::make<FunctionLayer>(f), randn({2, 4}), path("m.onnx"), {.fixed_sizes = true}));
}
TEST_F(OnnxRefuses, OptionsAndInputsThatDoNotFit) {
  const auto same = [](const Tensor& x) { return relu(x); };
  const Tensor x = randn({2, 4});
  EXPECT_TRUE(has(refusal(same, x, {.opset = 16}), {"an opset from 17 to 23, got 16"}));
  EXPECT_TRUE(has(refusal(same, x, {.precision = DType::f64}), {"a precision of f32, f16 or bf16, got f64"}));
  EXPECT_TRUE(has(refusal(same, x, {.input_names = {"a", "b"}}), {"1 input_names, got 2"}));
  EXPECT_TRUE(has(refusal(same, x, {.output_names = {"a", "b"}}), {"1 output_names, got 2"}));
  EXPECT_TRUE(has(refusal(same, x, {.input_names = {""}}), {"input_names that differ"}));
  EXPECT_TRUE(has(refusal(same, x, {.second_example = {randn({2, 4, 1})}}), {"a second_example"}));
  EXPECT_TRUE(has(refusal(same, Tensor()), {"undefined"}));
  auto net = nn::make<nn::Linear>(4, 2);
  EXPECT_TRUE(has(test::message_of<Error>([&] {
                    io::export_onnx(net, std::vector{x, x}, path("m.onnx"));
                  }),
                  {"as many tensors as Linear takes, got 2"}));
  EXPECT_TRUE(
      has(test::message_of<Error>([&] { io::export_onnx(net, std::vector<Tensor>{}, path("m.onnx")); }),
          {"an example, got no tensors"}));
  EXPECT_EQ(file_count(), 0);
}
TEST_F(OnnxRefuses, AFileThatCannotBeWritten) {
  auto net = nn::make<nn::Linear>(64, 64);
  const Tensor x = randn({2, 64});
  EXPECT_THROW(io::export_onnx(net, x, path("none/m.onnx")), IoError);
  fs::create_directories(path("m.onnx.data"));  // where values would stand
  EXPECT_THROW(io::export_onnx(net, x, path("m.onnx"), {.external_data = true}), IoError);
  EXPECT_FALSE(fs::exists(path("m.onnx")));
}

}  // namespace
}  // namespace mezzo::onnx::testing
