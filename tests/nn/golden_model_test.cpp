// A golden training of PyTorch, tests/goldens/model_conv_groupnorm.safetensors, run by a model made of
// layers: parameters come in by load_state_dict, losses, gradients and the trained parameters are compared.
// The golden runner does the same by functions.
#include <cmath>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/io/json.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/pooling.h"
#include "mezzo/nn/reshape.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"
#include "mezzo/tests/support/data_folder.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

/// One case of the file.
class Golden {
 public:
  explicit Golden(const std::string& number)
      : file_(io::SafeTensors::open(test::data_folder() + "/goldens/model_conv_groupnorm.safetensors")),
        prefix_("case" + number + "."),
        meta_(io::parse_json(file_.metadata().at("case" + number))) {}
  [[nodiscard]] const Value& meta() const { return meta_; }
  [[nodiscard]] Tensor tensor(const std::string& name) const {
    const io::SafeTensors::Entry& entry = file_.at(prefix_ + name);
    const Shape shape{std::span<const std::int64_t>(entry.shape)};
    const Tensor result = entry.dtype == "I64" ? mezzo::tensor(io::copy_as<std::int64_t>(entry), shape)
                                               : mezzo::tensor(io::copy_as<float>(entry), shape);
    return result.to(Device::best());
  }
  /// Compares the first values of a tensor of the file, as closely as its metadata ask of `kind`.
  void expect_close(const std::vector<float>& got, const std::string& name, const std::string& kind) const {
    const double relative = meta_.at("tol").at(kind).at(std::size_t{0}).as_double();
    const double absolute = meta_.at("tol").at(kind).at(std::size_t{1}).as_double();
    const std::vector<float> wanted = values(tensor(name));
    ASSERT_LE(got.size(), wanted.size()) << name;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], relative * std::abs(wanted[i]) + absolute) << name << "[" << i << "]";
  }

 private:
  io::SafeTensors file_;
  std::string prefix_;
  Value meta_;
};

/// The model of a case.
Sequential conv_groupnorm(const Golden& golden) {
  const std::int64_t channels = golden.tensor("data.x").size(2), classes = golden.tensor("init.b").size(0);
  const std::int64_t groups = golden.meta().at("arch").at("num_groups").as_int();
  return Sequential{make<Conv2d>(channels, 4, 3, ConvLayerOptions{.padding = 1, .bias = false}),
                    make<GroupNorm>(groups, 4),
                    make<ReLU>(),
                    make<Conv2d>(4, 6, 3, ConvLayerOptions{.stride = 2, .padding = 1}),
                    make<GroupNorm>(groups, 6),
                    make<SiLU>(),
                    make<AdaptiveAvgPool2d>(1),
                    make<Flatten>(),
                    make<Linear>(6, classes)};
}

/// The file's parameters under the names that the model has for them: both list them in order of use.
std::vector<std::pair<std::string, std::string>> paired_names(const Module& model, const Golden& golden) {
  std::vector<std::pair<std::string, std::string>> result;
  const auto own = model.state_dict();
  const Value::List& given = golden.meta().at("params").as_list();
  EXPECT_EQ(own.size(), given.size());
  for (std::size_t i = 0; i < std::min(own.size(), given.size()); ++i)
    result.emplace_back(own[i].first, given[i].as_string());
  return result;
}

/// Moves a model to the device of the golden and gives it the parameters that the training began with.
void begin(Sequential& model, const Golden& golden) {
  NamedTensors state;
  for (const auto& [own, given] : paired_names(model, golden))
    state.emplace_back(own, golden.tensor("init." + given));
  model.to(Device::best());
  model.load_state_dict(state);
}

/// The loss of a step after its backward.
float step_back(Sequential& model, const Golden& golden, std::int64_t step) {
  const auto batch = [&](const char* name) {
    const Tensor all = golden.tensor(name);
    return select(all, 0, step % all.size(0));
  };
  model.zero_grad();
  const Tensor loss = CrossEntropyLoss()(model(batch("data.x")), batch("data.y"));
  loss.backward();
  return static_cast<float>(loss.item());
}

TEST(GoldenModel, OfLayersHasTheLossAndGradientsOfPyTorch) {
  for (const char* number : {"0", "1"}) {
    const Golden golden(number);
    Sequential model = conv_groupnorm(golden);
    begin(model, golden);
    golden.expect_close({step_back(model, golden, 0)}, "losses", "losses");
    for (const auto& [path, parameter] : model.named_parameters()) {
      for (const auto& [own, given] : paired_names(model, golden)) {
        if (own == path) golden.expect_close(values(parameter.grad()), "grad1." + given, "grad1");
      }
    }
  }
}

TEST(GoldenModel, OfLayersTrainsAsInPyTorch) {
  const Golden golden("0");
  ASSERT_EQ(golden.meta().at("optimizer").as_string(), "SGD");
  const double rate = golden.meta().at("args").at("lr").as_double();
  Sequential model = conv_groupnorm(golden);
  begin(model, golden);
  std::vector<float> losses;
  for (std::int64_t step = 0; step < golden.meta().at("steps").as_int(); ++step) {
    losses.push_back(step_back(model, golden, step));
    const NoGrad no_grad;
    for (const Tensor& parameter : model.parameters()) parameter.add_(parameter.grad(), -rate);
  }
  golden.expect_close(losses, "losses", "losses");
  const auto state = model.state_dict();
  const auto paired = paired_names(model, golden);
  for (std::size_t i = 0; i < state.size(); ++i)
    golden.expect_close(values(state[i].second), "final." + paired[i].second, "final");
}

}  // namespace

}  // namespace mezzo::nn
