// LBFGS beside torch.optim.LBFGS (2.15, f64), its state dict, and what it refuses. (It is no Optimizer, so
// the tests that run over all of these do not have it.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::optim {
namespace {

using test::message_of;
using Doubles = std::vector<double>;

Tensor number(double value) { return tensor({value}, {.dtype = DType::f64, .requires_grad = true}); }

/// Rosenbrock's function of two numbers, beginning at (-1.2, 1), and how often it was evaluated.
struct Rosenbrock {
  Tensor a = number(-1.2), b = number(1);
  int evaluations = 0;

  Tensor loss() {
    ++evaluations;
    for (const Tensor& x : {a, b}) x.set_grad({});
    Tensor value = (square(1 - a) + 100 * square(b - a * a)).sum();
    value.backward();
    return value;
  }
  Doubles losses(LBFGS& optimizer, int steps) {
    Doubles result;
    for (int i = 0; i < steps; ++i) result.push_back(optimizer.step([&] { return loss(); }).item());
    return result;
  }
};

/// Relative: torch's sums of products are in another order than mezzo's.
void expect_near(const Doubles& got, const Doubles& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i]));
}

TEST(LBFGS, StepsOfOneLengthAreTorchs) {
  Rosenbrock f;
  LBFGS optimizer({f.a, f.b}, {.lr = 1e-3, .max_iter = 5, .history_size = 4});
  expect_near(f.losses(optimizer, 6),
              {24.199999999999996, 23.878700240451764, 23.699477017659753, 23.520182172176884,
               23.341008767827773, 23.162113112677517},
              1e-11);
  EXPECT_NEAR(f.a.item(), -1.195897751757032, 1e-11);
  EXPECT_NEAR(f.b.item(), 1.0040062710202309, 1e-11);
  EXPECT_EQ(f.evaluations, 30);
  EXPECT_EQ(optimizer.state_dict().options["n_iter"].as_int(), 30);
  EXPECT_EQ(optimizer.state_dict().options["ro"].size(), 4U);
}

TEST(LBFGS, LineSearchIsTorchs) {
  Rosenbrock f;
  LBFGS optimizer({f.a, f.b}, {.max_iter = 5, .history_size = 4, .line_search_fn = LineSearch::strong_wolfe});
  // The valley is steep, so rounding grows from step to step: 1e-9 where torch and mezzo round alike at
  // 1e-16.
  expect_near(f.losses(optimizer, 6),
              {24.199999999999996, 4.111816451757751, 3.264955852420514, 1.6514497162066581,
               0.8204649998935221, 0.3610789914952507},
              1e-9);
  EXPECT_NEAR(f.a.item(), 0.7347562580351399, 1e-8);
  EXPECT_NEAR(f.b.item(), 0.5278633981961021, 1e-8);
  EXPECT_EQ(f.evaluations, 36);
  EXPECT_EQ(optimizer.state_dict().options["n_iter"].as_int(), 24);
}

/// 0.5 sin(1.3 i + k), of a shape.
Tensor wave(const Shape& shape, double k) {
  const Tensor flat = arange(zeros(shape).numel(), DType::f64);
  return (sin(flat * 1.3 + k) * 0.5).view(shape);
}

TEST(LBFGS, TrainsANetAsTorch) {
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    nn::Sequential net(nn::Linear(3, 4, {.dtype = DType::f64}), nn::Tanh(),
                       nn::Linear(4, 2, {.dtype = DType::f64}));
    double k = 0;
    for (const Tensor& p : net.parameters()) {
      const NoGrad no_grad;
      p.copy_(wave(p.shape(), k++));
    }
    const Tensor x = wave({6, 3}, 0.1) * 2, y = wave({6, 2}, 0.7);
    LBFGS optimizer(net, {.lr = 0.5, .line_search_fn = search});
    Doubles losses;
    for (int step = 0; step < 4; ++step) {
      losses.push_back(optimizer
                           .step([&] {
                             optimizer.zero_grad();
                             Tensor loss = square(net(x) - y).mean();
                             loss.backward();
                             return loss;
                           })
                           .item());
    }
    expect_near(losses,
                {0.17001621228433705, 0.004386028464293252, 0.0003719693122027793, 2.931190778594259e-09},
                1e-6);
  }
}

TEST(LBFGS, TrainsInF32AndWithOneParameterUnused) {
  manual_seed(1);
  nn::Linear used(2, 1), unused(2, 1);
  const Tensor x = randn({16, 2}), y = x.sum(1, true) + 1;
  std::vector<Tensor> all = used.parameters();
  for (const Tensor& p : unused.parameters()) all.push_back(p);
  const Tensor before = unused.weight.clone();
  LBFGS optimizer(all, {.line_search_fn = LineSearch::strong_wolfe});
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = mse_loss(used(x), y);
      loss.backward();
      return loss;
    }));
  }
  EXPECT_LT(mse_loss(used(x), y).item(), 1e-10);
  EXPECT_TRUE(equal(unused.weight, before));
}

TEST(LBFGS, GoesOnFromItsStateBitForBit) {
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const LBFGSOptions options{.lr = search == LineSearch::none ? 1e-3 : 1.0,
                               .max_iter = 3,
                               .history_size = 2,
                               .line_search_fn = search};
    Rosenbrock at_once, before;
    LBFGS whole({at_once.a, at_once.b}, options), first({before.a, before.b}, options);
    static_cast<void>(at_once.losses(whole, 5));
    static_cast<void>(before.losses(first, 2));
    const OptimizerState state = first.state_dict();
    const Tensor a = before.a.detach().clone().requires_grad_(),
                 b = before.b.detach().clone().requires_grad_();
    Rosenbrock after{.a = a, .b = b};
    LBFGS second({a, b});
    second.load_state_dict(state);
    EXPECT_EQ(second.lr(), options.lr);
    static_cast<void>(after.losses(second, 3));
    EXPECT_EQ(a.item(), at_once.a.item());
    EXPECT_EQ(b.item(), at_once.b.item());
  }
}

TEST(LBFGS, RunsUntilItConverges) {
  Rosenbrock f;
  LBFGS optimizer({f.a, f.b}, {.max_iter = INT64_MAX, .line_search_fn = LineSearch::strong_wolfe});
  static_cast<void>(f.losses(optimizer, 1));
  // It ends where a loss of (1 - a)^2 and more changes by less than 1e-9.
  EXPECT_NEAR(f.a.item(), 1, 1e-4);
  EXPECT_NEAR(f.b.item(), 1, 2e-4);
}

TEST(LBFGS, StopsWhereNothingIsLeftToDo) {
  Rosenbrock f;
  f.a = number(1);
  f.b = number(1);
  LBFGS optimizer({f.a, f.b});
  EXPECT_EQ(f.losses(optimizer, 2), (Doubles{0, 0}));
  EXPECT_EQ(f.evaluations, 2);
}

TEST(LBFGS, RefusesWhatItCannotDo) {
  const Tensor p = number(1);
  EXPECT_EQ(
      message_of<DTypeError>([] { LBFGS(std::vector<Tensor>{ones({2}, DType::bf16).requires_grad_()}); }),
      "LBFGS: expected parameters of f32 or f64, got bf16; keep them in f32, and compute in 16 bits by "
      "autocast");
  EXPECT_THROW(LBFGS(std::vector<Tensor>{}), ValueError);
  EXPECT_THROW(LBFGS(std::vector<Tensor>{p, p}), ValueError);
  EXPECT_THROW(LBFGS(std::vector<Tensor>{p}, {.lr = -1}), ValueError);
  EXPECT_THROW(LBFGS(std::vector<Tensor>{p}, {.max_iter = 0}), ValueError);
  EXPECT_THROW(LBFGS(std::vector<Tensor>{p}, {.max_eval = 0}), ValueError);
  EXPECT_THROW(LBFGS(std::vector<Tensor>{p}, {.history_size = 0}), ValueError);
  LBFGS optimizer(std::vector<Tensor>{p});
  EXPECT_THROW(optimizer.set_lr(-1), ValueError);
  EXPECT_THROW(optimizer.step({}), ValueError);
  EXPECT_THROW(optimizer.step([&] { return ones({2}); }), ValueError);
  EXPECT_THROW(optimizer.step([&] { return Tensor(); }), ValueError);
  OptimizerState state = optimizer.state_dict();
  state.tensors.emplace_back("old_dirs.0", ones({1}));
  EXPECT_THROW(optimizer.load_state_dict(state), StateError);
  Rosenbrock f;
  LBFGS other({f.a, f.b}, {.max_iter = 3});
  static_cast<void>(f.losses(other, 1));
  EXPECT_THROW(optimizer.load_state_dict(other.state_dict()), StateError);
  state = other.state_dict();
  state.tensors.pop_back();
  EXPECT_THROW(other.load_state_dict(state), StateError);
  for (const char* count : {"n_iter", "func_evals"}) {
    for (const std::int64_t bad : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
      state = optimizer.state_dict();
      state.options.set(count, bad);
      EXPECT_THROW(optimizer.load_state_dict(state), ValueError) << count << " " << bad;
    }
  }
  SGD sgd({p}, {.lr = 1});
  EXPECT_THROW(optimizer.load_state_dict(sgd.state_dict()), StateError);
}

TEST(LBFGS, DoesNotMixWithAScaler) {
  Rosenbrock f;
  LBFGS optimizer({f.a, f.b}, {.max_iter = 3});
  amp::GradScaler scaler, off({.enabled = false});
  EXPECT_EQ(
      message_of<StateError>([&] { scaler.step(optimizer, [&] { return f.loss(); }); }),
      "GradScaler.step: expected an optimizer whose steps do not compare losses, got one that evaluates its "
      "closure several times and does; train in f32, or in a bf16 region without a scaler");
  EXPECT_EQ(f.evaluations, 0);
  EXPECT_FALSE(off.step(optimizer, [&] { return f.loss(); }).skipped());
  EXPECT_GT(f.evaluations, 0);
}

}  // namespace
}  // namespace mezzo::optim
