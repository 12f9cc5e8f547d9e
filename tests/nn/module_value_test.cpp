// Modules as expressions, options between braces, and slots as tensors.
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo::nn {
namespace {

struct BlockOptions {
  double slope = 0.1;
};
struct Block final : Layer {
  using Options = BlockOptions;
  explicit Block(std::int64_t size, const Options& options = {}) : slope(options.slope), width(size) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override { return leaky_relu(fc(x), slope) * gain; }

  double slope;
  std::int64_t width;
  Child<Linear> fc{*this, "fc", Linear(width, width)};
  Param gain{*this, "gain", ones({width})};
  Buffer calls{*this, "calls", zeros({})};
};

TEST(ModuleValue, SequentialTakesLayersAsExpressions) {
  Generator& generator = default_generator();
  generator.manual_seed(3);
  Sequential values{Conv2d(1, 4, 3, {.padding = 1}),
                    ReLU(),
                    Flatten(),
                    Linear(64, 8, {.bias = false}),
                    Block(8, {.slope = 0.5}),
                    make<Linear>(8, 2)};
  generator.manual_seed(3);
  Sequential pointers{make<Conv2d>(1, 4, 3, {.padding = 1}),
                      make<ReLU>(),
                      make<Flatten>(),
                      make<Linear>(64, 8, {.bias = false}),
                      make<Block>(8, {.slope = 0.5}),
                      make<Linear>(8, 2)};
  const Tensor x = randn({2, 1, 4, 4});
  EXPECT_TRUE(equal(values(x), pointers(x)));
  EXPECT_EQ(to_string(values), to_string(pointers));
  EXPECT_EQ(values.num_parameters(), pointers.num_parameters());
  EXPECT_FALSE(values.at<Linear>(3).bias.defined());
  // The parts know where they are, can be copied, and learn.
  EXPECT_EQ(values.at<Block>(4).fc->path(), "4.fc");
  EXPECT_EQ(values.at<Block>(4).gain.path(), "4.gain");
  const auto copy = clone(values);
  EXPECT_TRUE(equal((*copy)(x), values(x)));
  EXPECT_FALSE(copy->at<Linear>(3).weight.is_same(values.at<Linear>(3).weight));
  values(x).sum().backward();
  for (const auto& [name, parameter] : values.named_parameters())
    EXPECT_TRUE(parameter.grad().defined()) << name;
}

TEST(ModuleValue, MovesTensorsAndDoesNotCopyThem) {
  Tensor weight, buffer;
  std::shared_ptr<Module> child;
  struct Watched final : Layer {
    Watched(Tensor& w, Tensor& b, std::shared_ptr<Module>& c) { w = gain, b = state, c = fc.get(); }
    [[nodiscard]] Tensor forward(const Tensor& x) override { return fc(x) * gain; }
    Param gain{*this, "gain", ones({2})};
    Buffer state{*this, "state", zeros({2})};
    Child<Linear> fc{*this, "fc", Linear(2, 2)};
  };
  Sequential net;
  net.push_back(Watched(weight, buffer, child));
  net.push_back("last", Watched(weight, buffer, child));
  EXPECT_TRUE(net.at<Watched>(1).gain.is_same(weight));
  EXPECT_TRUE(net.at<Watched>(1).state.is_same(buffer));
  EXPECT_EQ(net.at<Watched>(1).fc.get(), child);
  EXPECT_EQ(net.at<Watched>(1).fc->path(), "last.fc");
  EXPECT_EQ(net.named_parameters().size(), 6U);
  // A second part of the same model may still be put below another one.
  net[0].replace(Linear(2, 2));
  EXPECT_EQ(net.named_parameters().size(), 5U);
}

TEST(ModuleValue, EveryContainerTakesThem) {
  ModuleList<Linear> list;
  list.push_back(Linear(2, 3));
  ModuleDict<Layer> dict;
  dict.insert("a", ReLU());
  Residual residual(Linear(4, 4)), strided(Linear(4, 2), Linear(4, 2));
  EXPECT_EQ(list[0]->out_features(), 3);
  EXPECT_EQ(dict.at("a")->type_name(), "ReLU");
  EXPECT_EQ(residual(ones({1, 4})).shape(), (Shape{1, 4}));
  EXPECT_EQ(strided(ones({1, 4})).shape(), (Shape{1, 2}));
  struct Named final : Sequential {
    Named() : Sequential(Linear(4, 2), ReLU()) {}
  };
  const Sequential around{Named()};
  EXPECT_EQ(around.size(), 1U);
  EXPECT_EQ(around.named_parameters()[0].first, "0.0.weight");
  TransformerEncoder plain(TransformerEncoderLayer(8, 2, {.dim_feedforward = 16}), 2);
  TransformerEncoder normed(TransformerEncoderLayer(8, 2, {.dim_feedforward = 16}), 2, LayerNorm(8));
  EXPECT_EQ(normed.named_parameters().size(), plain.named_parameters().size() + 2);
}

TEST(ModuleValue, KeepsTheMode) {
  struct Frozen final : Layer {
    Frozen() { eval(); }
    [[nodiscard]] Tensor forward(const Tensor& x) override { return x; }
  };
  const Sequential net{Frozen(), ReLU()};
  EXPECT_FALSE(net[0]->is_training());
  EXPECT_TRUE(net[1]->is_training());
}

TEST(ModuleValue, MakeTakesOptionsBetweenBraces) {
  EXPECT_EQ(make<NLLLoss>({.reduction = Reduction::sum})->type_name(), "NLLLoss");
  EXPECT_EQ((make<Embedding>(10, 4, {.padding_idx = 0})->weight.shape()), (Shape{10, 4}));
  EXPECT_EQ(make<MaxPool2d>(2, {.stride = 1})->type_name(), "MaxPool2d");
  EXPECT_EQ((make<LSTM>(4, 3, {.num_layers = 2})->num_parameters()),
            4 * (12 * 4 + 12 * 3 + 24) / 4 + (12 * 3 + 12 * 3 + 24));
  EXPECT_EQ(make<Linear>(2, 3, Linear::Options{.bias = false})->num_parameters(), 6);
  const Linear::Options options{.bias = false};
  EXPECT_EQ(make<Linear>(2, 3, options)->num_parameters(), 6);
}

TEST(SlotAsTensor, IsItsTensor) {
  Linear layer(3, 2);
  EXPECT_EQ(layer.weight.shape(), (Shape{2, 3}));
  EXPECT_TRUE(equal(sum(layer.weight), layer.weight.sum()));
  layer.weight.sum().backward();
  EXPECT_TRUE(equal(layer.weight.grad(), ones({2, 3})));
  {
    const NoGrad no_grad;
    layer.weight[0] = 1;
    layer.weight *= 2;
  }
  EXPECT_TRUE(equal(layer.weight[0].detach(), full({3}, 2)));
}

TEST(SlotAsTensor, ACopyNamesTheTensorAndNoMember) {
  Linear layer(3, 2);
  auto weight = layer.weight;
  auto again = weight;
  EXPECT_TRUE(weight.is_same(layer.weight));
  EXPECT_TRUE(again.is_same(layer.weight));
  EXPECT_EQ(layer.param_slots().size(), 2U);
  EXPECT_THROW(static_cast<void>(weight.owner()), StateError);
  EXPECT_THROW(static_cast<void>(weight.path()), StateError);
  layer.weight.set(ones({2, 3}));
  EXPECT_FALSE(weight.is_same(layer.weight));
  EXPECT_EQ(weight.shape(), (Shape{2, 3}));
  auto buffer = BatchNorm1d(2).running_mean;  // outlives its module
  EXPECT_EQ(buffer.numel(), 2);
}

}  // namespace
}  // namespace mezzo::nn
