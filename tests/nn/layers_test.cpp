// Sequential, ModuleList, activations and losses. The functions behind the modules have tests of their own;
// here it counts that each module calls the right one with its options, so the oracle is the function, and
// that options make a difference.
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/module_list.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// Appends a digit, so that order shows.
struct Digit final : Layer {
  explicit Digit(int digit_in) : digit(digit_in) {}
  Tensor forward(const Tensor& x) override {
    return counting({1}, values(x)[0] * 10 + static_cast<float>(digit));
  }
  int digit;
};

Sequential three_layers() { return Sequential(make<Linear>(4, 3), make<ReLU>(), make<Linear>(3, 2)); }

TEST(Sequential, RunsItsLayersInOrder) {
  Sequential net(make<Digit>(1), make<Digit>(2), make<Digit>(3));
  EXPECT_EQ(values(net.forward(zeros({1}))), (std::vector<float>{123}));
  net.push_back(make<Digit>(4));
  EXPECT_EQ(values(net.forward(zeros({1}))), (std::vector<float>{1234}));
  net[1].replace(make<Digit>(9));
  EXPECT_EQ(values(net.forward(zeros({1}))), (std::vector<float>{1934}));
  const Tensor x = counting({2});
  EXPECT_TRUE(Sequential().forward(x).is_same(x));
}

TEST(Sequential, NamesLayersByIndex) {
  Sequential net = three_layers();
  EXPECT_EQ(net.size(), 3U);
  EXPECT_EQ(names(net.named_parameters()), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(net[2]->path(), "2");
  EXPECT_EQ(to_string(net),
            "Sequential(\n"
            "  (0): Linear(in_features=4, out_features=3, bias=true)\n"
            "  (1): ReLU()\n"
            "  (2): Linear(in_features=3, out_features=2, bias=true)\n"
            ")");
}

TEST(Sequential, GivesLayersAsWhatTheyAre) {
  Sequential net = three_layers();
  EXPECT_EQ(net.at<Linear>(2).out_features(), 2);
  const std::string message = message_of<ValueError>([&] { (void)net.at<Linear>(1); });
  EXPECT_TRUE(contains(message, "a Linear at '1', got ReLU"));
  EXPECT_TRUE(contains(message_of<IndexError>([&] { (void)net[3]; }), "below 3, got 3"));
  EXPECT_THROW((void)net.at<Linear>(3), IndexError);
}

TEST(Sequential, TakesAListAndRefusesNull) {
  const std::vector<std::shared_ptr<Layer>> layers{make<Digit>(5), make<Digit>(6)};
  EXPECT_EQ(values(Sequential(layers).forward(zeros({1}))), (std::vector<float>{56}));
  Sequential net;
  EXPECT_THROW(net.push_back(std::shared_ptr<Digit>()), ValueError);
  EXPECT_EQ(net.size(), 0U);
  net.push_back(make<Digit>(1));
  net[0].replace(nullptr);
  EXPECT_TRUE(contains(message_of<StateError>([&] { (void)net.forward(zeros({1})); }), "'0'"));
}

TEST(Sequential, TakesNames) {
  Sequential net;
  net.push_back("fc", make<Linear>(4, 3));
  net.push_back(make<ReLU>());
  net.push_back("out", make<Linear>(3, 2));
  EXPECT_EQ(names(net.state_dict()), (Names{"fc.weight", "fc.bias", "out.weight", "out.bias"}));
  EXPECT_EQ(net[1]->path(), "1");
  EXPECT_EQ(net.at<Linear>(2).out_features(), 2);
  EXPECT_EQ(names(clone(net)->state_dict()), names(net.state_dict()));
  EXPECT_THROW(net.push_back("fc", make<ReLU>()), ValueError);
  EXPECT_THROW(net.push_back("a.b", make<ReLU>()), ValueError);
  EXPECT_EQ(net.size(), 3U);
}

TEST(Sequential, RunsALayerTwiceWithOneSetOfParameters) {
  const auto layer = make<Linear>(3, 3);
  const Sequential net(layer, make<ReLU>(), layer);
  EXPECT_EQ(net.parameters().size(), 2U);
  EXPECT_EQ(net.state_dict().size(), 4U);
}

TEST(Sequential, Clones) {
  Sequential net = three_layers();
  const Tensor x = counting({2, 4});
  const auto copy = clone(net);
  EXPECT_EQ(values(copy->forward(x)), values(net.forward(x)));
  init::zeros_(net.at<Linear>(2).bias);
  EXPECT_NE(values(copy->forward(x)), values(net.forward(x)));
  EXPECT_EQ(net.clone()->num_parameters(), 4 * 3 + 3 + 3 * 2 + 2);
}

TEST(Sequential, LearnsALinearMapAndTheLossModuleAgrees) {
  manual_seed(1);
  const Device device = Device::best();
  Sequential net(make<Linear>(3, 16), make<ReLU>(), make<Linear>(16, 2));
  net.to(device);
  const Tensor input = randn({64, 3}).to(device);
  const Tensor wanted = linear(input, randn({2, 3}).to(device));
  MSELoss criterion;
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    const Tensor loss = criterion.forward(net.forward(input), wanted);
    last = loss.item();
    if (step == 0) first = last;
    net.zero_grad();
    loss.backward();
    const NoGrad no_grad;
    for (const Tensor& parameter : net.parameters()) parameter.add_(parameter.grad(), -0.1);
  }
  EXPECT_LT(last, first / 20) << "from " << first;
}

TEST(ModuleList, IsAChildLikeAnyOther) {
  struct Tower final : Module {
    Child<ModuleList<Digit>> digits{*this, "digits", make<ModuleList<Digit>>()};
  };
  Tower tower;
  for (int i = 0; i < 3; ++i) tower.digits->push_back(make<Digit>(i + 1));
  Tensor x = zeros({1});
  for (auto& digit : *tower.digits) x = digit->forward(x);
  EXPECT_EQ(values(x), (std::vector<float>{123}));
  EXPECT_EQ((*tower.digits)[2]->path(), "digits.2");
  EXPECT_EQ(clone(tower)->digits->size(), 3U);
  EXPECT_THROW((void)(*tower.digits)[3], IndexError);
  EXPECT_EQ(to_string(tower),
            "Tower(\n  (digits): ModuleList(\n    (0): Digit()\n    (1): Digit()\n    (2): Digit()\n  )\n)");
}

TEST(Activation, CallsItsFunction) {
  const Tensor x = tensor({2, 3}, {-2, -0.5F, 0, 0.25F, 1, 3});
  EXPECT_EQ(values(ReLU().forward(x)), (std::vector<float>{0, 0, 0, 0.25F, 1, 3}));
  EXPECT_EQ(values(GELU().forward(x)), values(gelu(x)));
  const Tensor approximate = GELU(GeluApproximation::tanh).forward(x);
  EXPECT_EQ(values(approximate), values(gelu(x, GeluApproximation::tanh)));
  EXPECT_NE(values(approximate), values(gelu(x)));
  EXPECT_EQ(values(Sigmoid().forward(x)), values(sigmoid(x)));
  EXPECT_EQ(values(Tanh().forward(x)), values(mezzo::tanh(x)));
  EXPECT_EQ(values(SiLU().forward(x)), values(silu(x)));
  EXPECT_EQ(values(Softmax(0).forward(x)), values(softmax(x, 0)));
  EXPECT_NE(values(Softmax(0).forward(x)), values(softmax(x, 1)));
  EXPECT_EQ(values(LogSoftmax(-1).forward(x)), values(log_softmax(x, 1)));
}

TEST(Activation, PrintsItsOptions) {
  EXPECT_EQ(to_string(ReLU()), "ReLU()");
  EXPECT_EQ(to_string(GELU(GeluApproximation::tanh)), "GELU(approximate=tanh)");
  EXPECT_EQ(to_string(Softmax(-1)), "Softmax(dim=-1)");
  EXPECT_EQ(to_string(LogSoftmax(1)), "LogSoftmax(dim=1)");
}

TEST(Loss, OfRegressionPassesTheReductionOn) {
  const Tensor x = tensor({3}, {1, 2, 4});
  const Tensor target = tensor({3}, {0, 4, 1});
  EXPECT_EQ(values(MSELoss(Reduction::none).forward(x, target)), (std::vector<float>{1, 4, 9}));
  EXPECT_EQ(values(MSELoss(Reduction::sum).forward(x, target)), (std::vector<float>{14}));
  EXPECT_EQ(values(L1Loss().forward(x, target)), (std::vector<float>{2}));
  EXPECT_EQ(values(L1Loss(Reduction::none).forward(x, target)), (std::vector<float>{1, 2, 3}));
}

TEST(Loss, OfClassesPassesItsOptionsOn) {
  const Tensor x = log_softmax(tensor({3, 2}, {1, 2, -1, 0.5F, 3, 1}), 1);
  const Tensor target = mezzo::tensor({0, 1, 1});
  const Tensor weight = tensor({2}, {0.25F, 2});
  const auto nll = [&](const NLLLossOptions& options) { return values(NLLLoss(options).forward(x, target)); };
  EXPECT_EQ(nll({}), values(nll_loss(x, target)));
  EXPECT_EQ(nll({.weight = weight, .ignore_index = 0, .reduction = Reduction::none}),
            values(nll_loss(x, target, weight, {.ignore_index = 0, .reduction = Reduction::none})));
  EXPECT_NE(nll({.weight = weight}), nll({}));
  const auto ce = [&](const CrossEntropyLossOptions& options) {
    return values(CrossEntropyLoss(options).forward(x, target));
  };
  EXPECT_EQ(ce({}), values(cross_entropy(x, target)));
  EXPECT_EQ(ce({.weight = weight, .ignore_index = 1, .reduction = Reduction::sum, .label_smoothing = 0.5}),
            values(cross_entropy(x, target, weight,
                                 {.ignore_index = 1, .reduction = Reduction::sum, .label_smoothing = 0.5})));
  EXPECT_NE(ce({.label_smoothing = 0.5}), ce({}));
}

TEST(Loss, OfTwoClassesPassesItsOptionsOn) {
  const Tensor x = tensor({3}, {0.2F, 0.9F, 0.5F});
  const Tensor target = tensor({3}, {0, 1, 1});
  const Tensor weight = tensor({3}, {7, 2, 3});
  const Tensor positive = tensor({3}, {4, 5, 6});
  EXPECT_EQ(values(BCELoss({.weight = weight, .reduction = Reduction::none}).forward(x, target)),
            values(binary_cross_entropy(x, target, weight, Reduction::none)));
  const auto logits = [&](const BCEWithLogitsLossOptions& options) {
    return values(BCEWithLogitsLoss(options).forward(x, target));
  };
  EXPECT_EQ(logits({.weight = weight, .pos_weight = positive, .reduction = Reduction::sum}),
            values(binary_cross_entropy_with_logits(x, target, weight, positive, Reduction::sum)));
  EXPECT_NE(logits({.weight = weight}), logits({.pos_weight = weight}));
}

TEST(Loss, KeepsItsWeightsAsBuffersThatMove) {
  CrossEntropyLoss loss({.weight = counting({3})});
  EXPECT_TRUE(loss.parameters().empty());
  EXPECT_EQ(names(loss.named_buffers()), (Names{"weight"}));
  loss.to(DType::f64);
  EXPECT_EQ(loss.weight->dtype(), DType::f64);
  EXPECT_TRUE(CrossEntropyLoss().state_dict().empty());
  EXPECT_EQ(to_string(loss), "CrossEntropyLoss()");
}

TEST(Layers, ShareTensorsWithWhatTheyReplace) {
  const auto expect_shared = [](auto&& layer, const Tensor& x) {
    using L = std::remove_cvref_t<decltype(layer)>;
    L shared(layer, ShareTensors{});
    EXPECT_TRUE(shared.weight->is_same(layer.weight));
    EXPECT_EQ(values(shared(x)), values(layer(x)));
    EXPECT_EQ(to_string(shared), to_string(layer));
  };
  expect_shared(Linear(3, 2, {.bias = false}), counting({2, 3}));
  expect_shared(Embedding(5, 3, {.padding_idx = 1}), arange(0, 5));
  expect_shared(Conv2d(4, 2, 3, {.stride = 2, .padding = 1, .groups = 2}), counting({1, 4, 5, 5}));
  expect_shared(ConvTranspose2d(4, 2, 3, {.stride = 2, .groups = 2}), counting({1, 4, 5, 5}));
}

}  // namespace

}  // namespace mezzo::nn
