// SAM and ASAM against their formulas computed by torch 2.15 in f64, alone and under a scaler.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "mezzo/mezzo.h"

namespace mezzo::optim {
namespace {

/// w^T A w / 2 + sum(sin(w)), from w = [1, -2, 0.5].
struct Problem {
  Tensor w = tensor({1.0, -2.0, 0.5}, {.dtype = DType::f64, .requires_grad = true});
  Tensor a = tensor({{2.0, .3, 0.0}, {.3, 1.0, .2}, {0.0, .2, 3.0}}, DType::f64);
  Tensor loss() { return dot(w, mv(a, w)) * 0.5 + sin(w).sum(); }
  /// After four steps of SGD with momentum 0.9 and lr 0.05, with rho 0.1.
  Tensor after_four_steps(bool adaptive) {
    SGD sgd({w}, {.lr = 0.05, .momentum = 0.9});
    SAM sam(sgd, {.rho = 0.1, .adaptive = adaptive});
    for (int i = 0; i < 4; ++i) {
      static_cast<void>(sam.step([&] {
        sgd.zero_grad();
        Tensor value = loss();
        value.backward();
        return value;
      }));
    }
    return w;
  }
};

TEST(SAM, IsItsFormula) {
  EXPECT_TRUE(allclose(Problem().after_four_steps(false),
                       tensor({0.16061655719485718, -1.1518123674020995, -0.28056774192425293}, DType::f64),
                       1e-12));
  EXPECT_TRUE(allclose(Problem().after_four_steps(true),
                       tensor({0.1839004464461511, -1.0721151407179885, -0.23204545745654243}, DType::f64),
                       1e-12));
}

TEST(SAM, GivesTheWeightsBackWhenTheSecondEvaluationThrows) {
  Problem problem;
  SGD sgd({problem.w}, {.lr = 0.05});
  SAM sam(sgd);
  const Tensor before = problem.w.detach().clone();
  int calls = 0;
  EXPECT_THROW(static_cast<void>(sam.step([&] {
                 if (++calls == 2) throw std::runtime_error("no");
                 Tensor value = problem.loss();
                 value.backward();
                 return value;
               })),
               std::runtime_error);
  EXPECT_TRUE(equal(problem.w, before));
  EXPECT_THROW(sam.restore(), StateError);
}

TEST(SAM, UnderAScalerIsTheSameAndSkipsOverflows) {
  const auto train_by_closure = [](bool scaled) {
    const Tensor w = tensor({1.0, -2.0, 0.5}).requires_grad_();
    SGD sgd({w}, {.lr = 0.0625});
    SAM sam(sgd, {.rho = 0.125});
    amp::GradScaler scaler({.init_scale = 1024, .enabled = scaled});
    for (int i = 0; i < 3; ++i) {
      scaler.step(sam, [&] {
        sgd.zero_grad();
        const Tensor loss = scaler.scale((w * w).sum());
        loss.backward();
        return loss;
      });
      scaler.update();
    }
    return w;
  };
  const auto train = [](bool scaled) {
    const Tensor w = tensor({1.0, -2.0, 0.5}).requires_grad_();
    SGD sgd({w}, {.lr = 0.0625});
    SAM sam(sgd, {.rho = 0.125});
    amp::GradScaler scaler({.init_scale = 1024, .enabled = scaled});
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      scaler.scale((w * w).sum()).backward();
      sam.ascend();
      sgd.zero_grad();
      scaler.scale((w * w).sum()).backward();
      sam.restore();
      scaler.step(sgd);
      scaler.update();
    }
    return w;
  };
  EXPECT_TRUE(allclose(train(true), train(false), 1e-6));
  EXPECT_TRUE(equal(train_by_closure(true), train(true)));
  EXPECT_TRUE(equal(train_by_closure(false), train(false)));

  const Tensor w = tensor({1.0, -2.0}).requires_grad_();
  SGD sgd({w}, {.lr = 0.5});
  SAM sam(sgd);
  amp::GradScaler scaler({.init_scale = 4});
  const auto overflown = [&] { scaler.scale((w * tensor({1.0, INFINITY})).sum()).backward(); };
  overflown();
  sam.ascend();
  EXPECT_TRUE(equal(w, tensor({1.0, -2.0})));
  sgd.zero_grad();
  overflown();
  sam.restore();
  EXPECT_TRUE(scaler.step(sgd).skipped());
  EXPECT_TRUE(equal(w, tensor({1.0, -2.0})));
}

TEST(SAM, AFirstOverflowAloneSkipsTheStep) {
  const Tensor w = tensor({1.0, -2.0}).requires_grad_();
  SGD sgd({w}, {.lr = 0.5});
  SAM sam(sgd);
  amp::GradScaler scaler({.init_scale = 4});
  int calls = 0;
  const auto closure = [&] {
    sgd.zero_grad();
    const Tensor loss = scaler.scale((w * tensor({1.0, calls++ == 0 ? INFINITY : 1.0})).sum());
    loss.backward();
    return loss;
  };
  const amp::StepResult result = scaler.step(sam, closure);
  EXPECT_TRUE(result.skipped());
  EXPECT_EQ(result.first_nonfinite(), 0U);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_TRUE(equal(w, tensor({1.0, -2.0})));
  EXPECT_FALSE(scaler.step(sam, closure).skipped());
  EXPECT_TRUE(equal(w, tensor({0.5, -2.5})));
}

TEST(SAM, AnOverflowDoesNotReachRunningStatistics) {
  nn::Sequential net(nn::Linear(2, 2), nn::BatchNorm1d(2));
  SGD sgd(net, {.lr = 0.1});
  SAM sam(sgd);
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}, {0.0, 1.0}});
  const auto overflown = [&] { (square(net(x)).sum() * INFINITY).backward(); };
  overflown();
  sam.ascend();
  overflown();
  sam.restore();
  for (const auto& [name, buffer] : net.named_buffers())
    EXPECT_TRUE(all(isfinite(buffer)).item<bool>()) << name;
}

TEST(SAM, Refuses) {
  Problem problem;
  SGD sgd({problem.w}, {.lr = 0.05});
  EXPECT_THROW(SAM(sgd, {.rho = -1}), ValueError);
  SAM sam(sgd);
  EXPECT_EQ(&sam.optimizer(), &sgd);
  EXPECT_THROW(static_cast<void>(sam.step({})), ValueError);
  EXPECT_THROW(sam.ascend(), StateError);  // no gradient
  EXPECT_THROW(sam.restore(), StateError);
  problem.loss().backward();
  sam.ascend();
  EXPECT_THROW(sam.ascend(), StateError);
  sam.restore();
}

}  // namespace
}  // namespace mezzo::optim
