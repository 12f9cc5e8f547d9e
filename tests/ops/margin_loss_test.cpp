// The losses of single elements and of rows beyond what goldens and sweep see: kinks, extreme inputs, lists
// of classes, empty batches, and what is refused.
#include <gtest/gtest.h>

#include "mezzo/ops/factory.h"
#include "mezzo/ops/loss.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo {
namespace {

using namespace test;

Tensor gradient_of(const Tensor& loss, const Tensor& x) { return grad({&loss, 1}, {&x, 1})[0]; }

TEST(MarginLoss, GradientsAtKinks) {
  const Tensor x = leaf({-1, 0, 1}), zero = make<double>({0, 0, 0});
  EXPECT_EQ(list(gradient_of(smooth_l1_loss(x, zero, Reduction::sum, 1), x)), (Doubles{-1, 0, 1}));
  EXPECT_EQ(list(gradient_of(smooth_l1_loss(x, zero, Reduction::sum, 0), x)), (Doubles{-1, 0, 1}));
  EXPECT_EQ(list(gradient_of(huber_loss(x, zero, Reduction::sum, 1), x)), (Doubles{-1, 0, 1}));
  const Tensor far = make<double>({-1, -1, -1});
  EXPECT_EQ(list(gradient_of(hinge_embedding_loss(x, far, 1, Reduction::sum), x)), (Doubles{-1, -1, -1}));
}

TEST(MarginLoss, ExtremeInputsStayFinite) {
  const Tensor x = make<float>({1000, -1000}), target = make<float>({-1, 1});
  EXPECT_EQ(list(soft_margin_loss(x, target, Reduction::none)), (Doubles{1000, 1000}));
  const Tensor log_zero = make<float>({static_cast<float>(-2), -3});
  EXPECT_EQ(list(kl_div(log_zero, make<float>({0, 1}), KlDivReduction::none)), (Doubles{0, 3}));
}

TEST(MarginLoss, TargetsOfHingeEmbeddingThatAreNeither) {
  expect_near(hinge_embedding_loss(make<float>({0.25F}), make<float>({0}), 1, Reduction::none), {1}, 0);
}

TEST(MarginLoss, ListsOfClassesEndAtTheFirstMinusOne) {
  const Tensor x = make<double>({4}, {0.1, 0.2, 0.4, 0.8}).requires_grad_();
  // torch's documentation: 1/4 (1 - (0.1 - 0.2) + 1 - (0.1 - 0.4) + 1 - (0.8 - 0.2) + 1 - (0.8 - 0.4))
  const Tensor loss = multilabel_margin_loss(x, indices({3, 0, -1, 1}));
  expect_near(loss, {0.85}, 1e-12);
  expect_near(gradient_of(loss, x), {-0.5, 0.5, 0.5, -0.5}, 1e-12);
  EXPECT_EQ(list(multilabel_margin_loss(x, indices({-1, 0, 1, 2}))), Doubles{0});
}

TEST(MarginLoss, BatchmeanDividesByTheFirstSize) {
  const Tensor x = make<double>({2, 3}, spread(6, -3, 0)), target = make<double>({2, 3}, spread(6, 0, 1));
  expect_near(kl_div(x, target, KlDivReduction::batchmean),
              {list(kl_div(x, target, KlDivReduction::sum))[0] / 2}, 1e-15);
}

TEST(MarginLoss, EmptyBatches) {
  const Tensor none = zeros({0, 3});
  EXPECT_TRUE(std::isnan(list(smooth_l1_loss(none, none))[0]));
  EXPECT_TRUE(std::isnan(list(kl_div(none, none, KlDivReduction::batchmean))[0]));
  EXPECT_EQ(list(huber_loss(none, none, Reduction::sum)), Doubles{0});
  EXPECT_EQ(list(multi_margin_loss(none, indices({0}, {}), {}, {.reduction = Reduction::sum})), Doubles{0});
  EXPECT_EQ(list(triplet_margin_loss(none, none, none, {.reduction = Reduction::sum})), Doubles{0});
}

TEST(MarginLoss, Refusals) {
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(static_cast<void>(smooth_l1_loss(x, x, Reduction::mean, -1)), ValueError);
  EXPECT_THROW(static_cast<void>(huber_loss(x, x, Reduction::mean, 0)), ValueError);
  EXPECT_THROW(static_cast<void>(huber_loss(x, zeros({2, 4}))), ShapeError);
  EXPECT_THROW(static_cast<void>(hinge_embedding_loss(x, indices({2, 3}, {1, 1, 1, 1, 1, 1}))), DTypeError);
  EXPECT_THROW(static_cast<void>(kl_div(zeros({}), zeros({}), KlDivReduction::batchmean)), ShapeError);
  EXPECT_THROW(static_cast<void>(cosine_embedding_loss(x, x, x)), ShapeError);
  EXPECT_THROW(static_cast<void>(multi_margin_loss(x, indices({0, 3}))), IndexError);
  EXPECT_THROW(static_cast<void>(multi_margin_loss(x, indices({0, 1}), {}, {.p = 3})), ValueError);
  EXPECT_THROW(static_cast<void>(multi_margin_loss(zeros({2, 3, 4}), indices({0, 1}))), ShapeError);
  EXPECT_THROW(static_cast<void>(multilabel_margin_loss(x, x)), DTypeError);
  EXPECT_THROW(static_cast<void>(multilabel_margin_loss(x, indices({2, 3}, {0, -1, -1, 3, -1, -1}))),
               IndexError);
}

}  // namespace
}  // namespace mezzo
