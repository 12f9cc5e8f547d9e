// Activations, losses, dropout and embedding as modules. As in layers_test.cpp the oracle is the function,
// with options that are not the defaults, so that one which is not passed on shows.
#include <cmath>
#include <set>

#include "mezzo/autograd/engine.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

const Tensor kX = tensor({2, 3}, {-4, -0.75F, 0.25F, 0.5F, 1.5F, 7});

void expect_calls(Layer&& layer, const Tensor& wanted) {
  EXPECT_EQ(values(layer.forward(kX)), values(wanted)) << to_string(layer);
  EXPECT_NE(values(wanted), values(kX)) << to_string(layer);
}

std::size_t unique_values(const Tensor& x) {
  const std::vector<double> all = x.to_vector<double>();
  return std::set<double>(all.begin(), all.end()).size();
}

TEST(Activation, WithoutOptionsCallsItsFunction) {
  expect_calls(ReLU6(), relu6(kX));
  expect_calls(Hardsigmoid(), hardsigmoid(kX));
  expect_calls(Hardswish(), hardswish(kX));
  expect_calls(SELU(), selu(kX));
  expect_calls(LogSigmoid(), logsigmoid(kX));
  expect_calls(Softsign(), softsign(kX));
  expect_calls(Mish(), mish(kX));
  expect_calls(Tanhshrink(), tanhshrink(kX));
  expect_calls(Softmin(0), softmin(kX, 0));
  EXPECT_EQ(values(GLU(0)(kX)), values(glu(kX, 0)));
  EXPECT_EQ(to_string(GLU()), "GLU(dim=-1)");
}

TEST(Activation, RReLUHasRandomSlopesInTrainingOnly) {
  Generator generator(1), same(1);
  RReLU layer(0.25, 0.5, &generator);
  EXPECT_EQ(values(layer(kX)), values(rrelu(kX, 0.25, 0.5, true, same)));
  const Tensor drawn = rrelu(full({1000}, -1.0), 0.25, 0.5, true, generator);
  EXPECT_GE(min(neg(drawn)).item(), 0.25);
  EXPECT_LE(max(neg(drawn)).item(), 0.5);
  EXPECT_NEAR(mean(neg(drawn)).item(), 0.375, 0.012);  // 5 standard errors of the mean
  layer.eval();
  EXPECT_EQ(values(layer(kX)), values(leaky_relu(kX, 0.375)));
  EXPECT_THROW(RReLU(0.5, 0.25), ValueError);
  EXPECT_THROW(static_cast<void>(rrelu(kX, 0.5, 0.25)), ValueError);
}

TEST(Activation, Softmax2dIsOverChannels) {
  const Tensor x = reshape(arange(24, DType::f32), {2, 3, 2, 2});
  EXPECT_EQ(values(Softmax2d()(x)), values(softmax(x, 1)));
  EXPECT_EQ(values(Softmax2d()(select(x, 0, 1))), values(softmax(select(x, 0, 1), 0)));
  EXPECT_THROW(static_cast<void>(Softmax2d()(kX)), ShapeError);
}

TEST(AlphaDropout, KeepsMomentsAndDropsToSelusLimit) {
  Generator generator(3), other(4);
  AlphaDropout layer(0.25, &generator);
  const Tensor x = randn({20000}, TensorOptions{}, other);
  const Tensor y = layer(x);
  // 5 standard errors of 20,000 values: 5 / sqrt(20000), and sqrt(2) times that for a variance of normal
  // ones.
  EXPECT_NEAR(mean(y).item(), mean(x).item(), 0.036);
  EXPECT_NEAR(var(y).item(), 1, 0.05);
  const double a = 1 / std::sqrt((1.7580993408473766 * 1.7580993408473766 * 0.25 + 1) * 0.75);
  const double dropped = 1.7580993408473766 * a * (0.25 - 1);
  EXPECT_NEAR(sum(isclose(y, full({20000}, dropped))).item() / 20000, 0.25, 0.016);
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
  EXPECT_EQ(to_string(layer), "AlphaDropout(p=0.25)");
  EXPECT_EQ(sum(alpha_dropout(x, 1)).item(), 0);
  EXPECT_THROW(AlphaDropout(1.5), ValueError);
}

TEST(AlphaDropout, OfFeaturesDropsWholeChannels) {
  Generator generator(3);
  FeatureAlphaDropout layer(0.5, &generator);
  const Tensor y = layer(ones({4, 8, 10}));
  const Tensor first = narrow(y, 2, 0, 1);
  EXPECT_TRUE(equal(y, expand(first, {4, 8, 10}).contiguous()));
  EXPECT_EQ(unique_values(first), 2U);
  EXPECT_EQ(to_string(layer), "FeatureAlphaDropout(p=0.5)");
  EXPECT_THROW(static_cast<void>(layer(ones({3}))), ShapeError);
}

TEST(Activation, PassesItsOptionsOn) {
  expect_calls(LeakyReLU(0.5), leaky_relu(kX, 0.5));
  expect_calls(Hardtanh(-2, 3), hardtanh(kX, -2, 3));
  expect_calls(Softshrink(0.25), softshrink(kX, 0.25));
  expect_calls(Hardshrink(0.6), hardshrink(kX, 0.6));
  expect_calls(Threshold(0.3, -5), threshold(kX, 0.3, -5));
  expect_calls(ELU(2), elu(kX, 2));
  expect_calls(CELU(2), celu(kX, 2));
  expect_calls(Softplus(2, 1.25), softplus(kX, 2, 1.25));
  EXPECT_EQ(to_string(Hardtanh()), "Hardtanh(min_val=-1.0, max_val=1.0)");
  EXPECT_EQ(to_string(LeakyReLU()), "LeakyReLU(negative_slope=0.01)");
  EXPECT_EQ(to_string(Softplus()), "Softplus(beta=1.0, threshold=20.0)");
  EXPECT_EQ(to_string(Softmin(1)), "Softmin(dim=1)");
  EXPECT_EQ(to_string(Hardshrink()), "Hardshrink(lambd=0.5)");
  EXPECT_EQ(to_string(Threshold(0.5, 2)), "Threshold(threshold=0.5, value=2.0)");
  EXPECT_EQ(to_string(RReLU(0.25, 0.5)), "RReLU(lower=0.25, upper=0.5)");
}

TEST(PReLU, LearnsItsSlopes) {
  PReLU layer(3, 0.5);
  EXPECT_EQ(names(layer.named_parameters()), Names{"weight"});
  EXPECT_EQ(to_string(layer), "PReLU(num_parameters=3)");
  const Tensor y = layer.forward(kX);
  EXPECT_EQ(values(y), (std::vector<float>{-2, -0.375F, 0.25F, 0.5F, 1.5F, 7}));
  sum(y).backward();
  EXPECT_EQ(values(layer.weight->grad()), (std::vector<float>{-4, -0.75F, 0}));
  EXPECT_EQ(values(PReLU().weight), std::vector<float>{0.25F});
  EXPECT_THROW(PReLU(0), ValueError);
}

TEST(Dropout, ZeroesWhileTraining) {
  manual_seed(3);
  const Tensor mask = random_mask(0.75, {2, 3}), after = random_mask(0.75, {2, 3});
  manual_seed(3);
  Sequential net(make<Dropout>(0.25));
  EXPECT_EQ(values(net.forward(kX)), values(dropout(kX, mask, 0.25)));
  net.eval();
  EXPECT_TRUE(net.forward(kX).is_same(kX));
  net.train();
  EXPECT_EQ(values(net.forward(kX)), values(dropout(kX, after, 0.25)));  // eval drew nothing
  EXPECT_EQ(to_string(Dropout()), "Dropout(p=0.5)");
  EXPECT_THROW(Dropout(1.5), ValueError);
  EXPECT_THROW(Dropout(-0.1), ValueError);
}

TEST(Dropout, DrawsFromItsGenerator) {
  Generator own(5), same(5);
  Dropout layer(0.5, &own);
  const Tensor x = ones({64});
  EXPECT_EQ(values(layer.forward(x)), values(dropout(x, 0.5, true, same)));
  EXPECT_EQ(values(clone(layer)->forward(x)), values(dropout(x, 0.5, true, same)));
}

TEST(Embedding, LooksUpRowsAndLeavesPaddingAtZero) {
  manual_seed(2);
  Embedding layer(4, 3, {.padding_idx = -1, .dtype = DType::f64});
  const Tensor& weight = layer.weight;
  EXPECT_EQ(weight.shape(), (Shape{4, 3}));
  EXPECT_EQ(weight.dtype(), DType::f64);
  const Tensor index = mezzo::tensor({3, 0, 0});
  EXPECT_EQ(layer.forward(index).to_vector<double>(), embedding(index, weight).to_vector<double>());
  EXPECT_EQ(select(weight, 0, 3).to_vector<double>(), (std::vector<double>{0, 0, 0}));
  sum(layer.forward(index)).backward();
  EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const std::vector<double> before = weight.to_vector<double>();
  layer.reset_parameters();
  EXPECT_NE(weight.to_vector<double>(), before);
  EXPECT_EQ(select(weight, 0, 3).to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

TEST(Embedding, PassesItsOptionsOn) {
  Generator own(5);
  Embedding layer(2, 3, {.max_norm = 0.5, .norm_type = 1, .scale_grad_by_freq = true, .generator = &own});
  const Tensor before = layer.weight->detach().clone();
  const Tensor index = mezzo::tensor({1, 1});
  const Tensor rows = layer.forward(index);
  EXPECT_EQ(values(layer.weight),
            values(cat({narrow(before, 0, 0, 1), renorm(narrow(before, 0, 1, 1), 1, 0, 0.5)})));
  sum(rows).backward();
  EXPECT_EQ(values(layer.weight->grad()), (std::vector<float>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(to_string(layer), "Embedding(2, 3, max_norm=0.5)");
  EXPECT_EQ(to_string(Embedding(2, 3, {.padding_idx = 1})), "Embedding(2, 3, padding_idx=1)");
  EXPECT_THROW(Embedding(0, 3), ValueError);
  EXPECT_THROW(Embedding(2, 3, {.padding_idx = 2}), ValueError);
}

TEST(Loss, OfElementsPassesItsOptionsOn) {
  const Tensor x = tensor({2, 2}, {-1.5F, 0.25F, 2, 3}), t = tensor({2, 2}, {1, -1, 1, -1});
  const Tensor p = tensor({2, 2}, {0.25F, 0.75F, 0.5F, 0.5F});
  constexpr Reduction kNone = Reduction::none;
  EXPECT_EQ(values(SmoothL1Loss(kNone, 2).forward(x, t)), values(smooth_l1_loss(x, t, kNone, 2)));
  EXPECT_EQ(values(HuberLoss(kNone, 2).forward(x, t)), values(huber_loss(x, t, kNone, 2)));
  EXPECT_EQ(values(SoftMarginLoss(kNone).forward(x, t)), values(soft_margin_loss(x, t, kNone)));
  EXPECT_EQ(values(HingeEmbeddingLoss(2, kNone).forward(x, t)), values(hinge_embedding_loss(x, t, 2, kNone)));
  EXPECT_EQ(values(KLDivLoss(KlDivReduction::batchmean, true).forward(x, p)),
            values(kl_div(x, p, KlDivReduction::batchmean, true)));
  const PoissonNllLossAttrs poisson{.log_input = false, .full = true, .eps = 2, .reduction = kNone};
  EXPECT_EQ(values(PoissonNLLLoss(poisson).forward(x, p)), values(poisson_nll_loss(x, p, poisson)));
  EXPECT_EQ(values(SmoothL1Loss().forward(x, t)), values(smooth_l1_loss(x, t)));
  EXPECT_EQ(values(HuberLoss().forward(x, t)), values(huber_loss(x, t)));
}

TEST(Loss, OfRowsPassesItsOptionsOn) {
  const Tensor a = tensor({2, 2}, {-1, 0.25F, 2, 3}), b = tensor({2, 2}, {1, -1, 1, 0.5F});
  const Tensor c = tensor({2, 2}, {0, 1, -1, 2}), t = tensor({2}, {1, -1});
  constexpr Reduction kNone = Reduction::none;
  EXPECT_EQ(values(CosineEmbeddingLoss(0.25, kNone).forward(a, b, t)),
            values(cosine_embedding_loss(a, b, t, 0.25, kNone)));
  EXPECT_EQ(values(MarginRankingLoss(2, kNone).forward(a, b, t)),
            values(margin_ranking_loss(a, b, t, 2, kNone)));
  const TripletMarginLossAttrs triplet{.margin = 2, .p = 1, .swap = true, .reduction = kNone};
  EXPECT_EQ(values(TripletMarginLoss(triplet).forward(a, b, c)),
            values(triplet_margin_loss(a, b, c, triplet)));
  const Tensor classes = mezzo::tensor({1, 0}), lists = mezzo::tensor({0, 1, 1, -1}, {2, 2});
  MultiMarginLoss multi({.p = 2, .margin = 0.5, .weight = tensor({2}, {3, 4}), .reduction = kNone});
  EXPECT_EQ(values(multi.forward(a, classes)),
            values(multi_margin_loss(a, classes, tensor({2}, {3, 4}),
                                     {.p = 2, .margin = 0.5, .reduction = kNone})));
  EXPECT_EQ(names(multi.named_buffers()), Names{"weight"});
  EXPECT_EQ(values(MultiLabelMarginLoss(kNone).forward(a, lists)),
            values(multilabel_margin_loss(a, lists, kNone)));
}

}  // namespace

}  // namespace mezzo::nn
