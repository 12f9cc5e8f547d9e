// EMA and SWA beside torch.optim.swa_utils (2.15), with scalers, scopes and states.
#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/mezzo.h"

namespace mezzo::optim {
namespace {

/// torch.nn.Linear(2, 1) with weight [[1, 2]] and bias [3], which change three times: w *= 2, b += k.
struct Course {
  nn::Linear net{2, 1, {.dtype = DType::f64}};
  Course() {
    const NoGrad no_grad;
    net.weight.copy_(tensor({{1.0, 2.0}}));
    net.bias.copy_(tensor({3.0}));
  }
  void run(AveragedWeights& average) {
    average.update();
    for (int k = 1; k <= 3; ++k) {
      const NoGrad no_grad;
      net.weight.mul_(2);
      net.bias.add_(k);
      average.update();
    }
  }
};

TEST(AveragedWeights, EmaIsTorchs) {
  Course course;
  EMA ema(course.net, {.decay = 0.75});
  course.run(ema);
  const NamedTensors averages = ema.averages();
  EXPECT_EQ(averages[0].first, "weight");
  EXPECT_TRUE(equal(averages[0].second, tensor({{3.453125, 6.90625}}, DType::f64)));
  EXPECT_TRUE(equal(averages[1].second, tensor({5.203125}, DType::f64)));
}

TEST(AveragedWeights, SwaIsTorchs) {
  Course course;
  SWA swa(course.net);
  course.run(swa);
  EXPECT_TRUE(allclose(swa.averages()[0].second, tensor({{3.75, 7.5}}, DType::f64), 1e-15));
  EXPECT_TRUE(allclose(swa.averages()[1].second, tensor({5.5}, DType::f64), 1e-15));
  EXPECT_EQ(swa.state_dict()[0].first, "n_averaged");
  EXPECT_EQ(swa.state_dict()[0].second.item<std::int64_t>(), 4);
  EXPECT_EQ(swa.state_dict()[1].first, "module.weight");
}

TEST(AveragedWeights, AScopeShowsThemAndGivesTheWeightsBack) {
  Course course;
  EMA ema(course.net, {.decay = 0.75});
  course.run(ema);
  const Tensor trained = course.net.weight.detach().clone();
  const Tensor x = tensor({{1.0, 1.0}}, DType::f64);
  {
    const auto averaged = ema.average_weights();
    EXPECT_EQ(course.net(x).item(), 3.453125 + 6.90625 + 5.203125);
  }
  EXPECT_TRUE(equal(course.net.weight, trained));
  try {
    const auto averaged = ema.average_weights();
    throw 1;
  } catch (int) {
    EXPECT_TRUE(equal(course.net.weight, trained));
  }
  ema.copy_to_weights();
  EXPECT_TRUE(equal(course.net.weight, ema.averages()[0].second));
  EXPECT_TRUE(course.net.weight.requires_grad());
}

TEST(AveragedWeights, OfSkippedStepsDoNotCount) {
  const Tensor p = tensor({2.0}).requires_grad_();
  SGD sgd({p}, {.lr = 1});
  amp::GradScaler scaler({.init_scale = 4});
  EMA ema(NamedTensors{{"p", p}}, {.decay = 0.5});
  const auto step = [&](double gradient) {
    sgd.zero_grad();
    scaler.scale((p * gradient).sum()).backward();
    ema.update(scaler.step(sgd));
    scaler.update();
  };
  step(1);  // p = 1, copied
  EXPECT_EQ(ema.averages()[0].second.item(), 1);
  step(INFINITY);
  EXPECT_EQ(p.item(), 1);
  EXPECT_EQ(ema.averages()[0].second.item(), 1);
  EXPECT_EQ(ema.state_dict()[0].second.item<std::int64_t>(), 1);
  step(1);  // p = 0
  EXPECT_EQ(ema.averages()[0].second.item(), 0.5);
  EXPECT_EQ(ema.state_dict()[0].second.item<std::int64_t>(), 2);
}

TEST(AveragedWeights, Of16BitsAreKeptInF32) {
  const Tensor p = ones({1}, DType::bf16).requires_grad_();
  EMA ema(NamedTensors{{"p", p}}, {.decay = 0.999});
  ema.update();
  {
    const NoGrad no_grad;
    p.fill_(2);
  }
  for (int i = 0; i < 100; ++i) ema.update();
  EXPECT_EQ(ema.averages()[0].second.dtype(), DType::f32);
  EXPECT_NEAR(ema.averages()[0].second.item(), 2 - std::pow(0.999, 100),
              1e-5);  // bf16 would have stayed at 1
}

TEST(AveragedWeights, BuffersAreAveragedWhenAsked) {
  nn::BatchNorm1d norm(2);
  EXPECT_EQ(EMA(norm).averages().size(), 2U);
  EMA ema(norm, {.decay = 0.5, .use_buffers = true});
  EXPECT_EQ(ema.averages().size(), 5U);  // weight, bias, mean, variance, count
  ema.update();
  static_cast<void>(norm(tensor({{1.0, 3.0}, {3.0, 5.0}})));  // running mean 0.1 * [2, 4]
  ema.update();
  for (const auto& [name, value] : ema.averages()) {
    if (name == "running_mean") {
      EXPECT_TRUE(allclose(value, tensor({0.1, 0.2})));
    } else if (name == "num_batches_tracked") {
      EXPECT_EQ(value.item<std::int64_t>(), 1);
    }
  }
}

TEST(AveragedWeights, StatesAreSavedAndLoaded) {
  Course course, same;
  EMA ema(course.net, {.decay = 0.75}), other(same.net, {.decay = 0.75});
  course.run(ema);
  other.load_state_dict(ema.state_dict());
  EXPECT_TRUE(equal(other.averages()[0].second, ema.averages()[0].second));
  other.update();  // counts on from 4: no copy of the first weights
  EXPECT_TRUE(equal(other.averages()[1].second, tensor({0.75 * 5.203125 + 0.25 * 3}, DType::f64)));
  NamedTensors state = ema.state_dict();
  state.pop_back();
  EXPECT_THROW(other.load_state_dict(state), StateError);
  state.emplace_back("module.bias", zeros({2}));
  EXPECT_THROW(other.load_state_dict(state), ShapeError);
  state.back().second = zeros({1}, DType::i64);
  EXPECT_THROW(other.load_state_dict(state), DTypeError);
  state.back().second = zeros({1});
  state.emplace_back("more", zeros({1}));
  EXPECT_THROW(other.load_state_dict(state), StateError);
}

TEST(AveragedWeights, RefuseWhatTheyCannotAverage) {
  const Tensor p = ones({2});
  EXPECT_THROW(EMA(NamedTensors{}), ValueError);
  EXPECT_THROW(EMA(NamedTensors{{"p", Tensor()}}), ValueError);
  EXPECT_THROW(SWA(NamedTensors{{"p", p}, {"p", p}}), ValueError);
  EXPECT_THROW(EMA(NamedTensors{{"p", p}}, {.decay = 1.5}), ValueError);
  EXPECT_THROW(EMA(NamedTensors{{"p", p}}, {.decay = NAN}), ValueError);
  EXPECT_THROW(SWA(NamedTensors{{"p", expand(ones({1}), {2})}}), ShapeError);
}

}  // namespace
}  // namespace mezzo::optim
