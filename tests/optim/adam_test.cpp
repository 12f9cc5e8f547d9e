// Adam and AdamW against their formula, written out in a plain loop.
#include "mezzo/optim/adam.h"

#include <cmath>

#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr std::size_t kCount = 1500;  // longer than a tile of the kernel (1024 elements)

/// The same in doubles: Kingma & Ba 2015, algorithm 1; amsgrad: Reddi et al. 2018, in torch.optim.Adam's form
/// (the largest uncorrected v); decoupled decay: Loshchilov & Hutter 2019.
template <bool decoupled>
struct PlainAdam {
  AdamOptionsOf<decoupled> o;
  std::vector<double> p;
  std::vector<double> m = std::vector<double>(p.size()), v = m, largest = m;
  int t = 0;
  void step(const std::vector<double>& gradient) {
    ++t;
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = o.maximize ? -gradient[i] : gradient[i];
      if (decoupled)
        p[i] *= 1 - o.lr * o.weight_decay;
      else
        g += o.weight_decay * p[i];
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      largest[i] = std::max(largest[i], v[i]);
      const double corrected_m = m[i] / (1 - std::pow(o.beta1, t));
      const double corrected_v = (o.amsgrad ? largest[i] : v[i]) / (1 - std::pow(o.beta2, t));
      p[i] -= o.lr * corrected_m / (std::sqrt(corrected_v) + o.eps);
    }
  }
};

/// Gradients whose size changes from step to step, so that amsgrad matters.
std::vector<double> gradient_of(std::uint64_t step) {
  std::vector<double> values = values_of(50 + step, kCount);
  for (double& value : values) value *= step == 1 ? 8 : 0.5;
  return values;
}

template <bool decoupled>
void check_formula(const AdamOptionsOf<decoupled>& options) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    PlainAdam<decoupled> oracle{options, values_of(3, kCount)};
    const Tensor p = parameter_of(oracle.p, dtype);
    oracle.p = p.to_vector<double>();
    AdamOf<decoupled> adam(std::vector<Tensor>{p}, options);
    for (std::uint64_t step = 0; step < 6; ++step) {
      const Tensor gradient = tensor(gradient_of(step), {.dtype = dtype});
      p.set_grad(gradient);
      adam.step();
      oracle.step(gradient.template to_vector<double>());
    }
    const std::vector<double> got = p.to_vector<double>();
    // A step moves an element by about lr (at most lr / (1 - beta1) here); each passes through some ten
    // roundings and the difference g + wd p may cancel, which costs a few more digits of a small quotient.
    const double eps = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
    const double allowed = 6 * (eps + 100 * eps * options.lr);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(got[i], oracle.p[i], 2 * allowed) << to_string(dtype) << " " << i;
  }
}

TEST(Adam, FollowsItsFormula) {
  check_formula<false>({.lr = 0.1});
  check_formula<false>({.lr = 0.05, .beta1 = 0.7, .beta2 = 0.9, .eps = 1e-3});
  check_formula<false>({.lr = 0.1, .beta1 = 0});
  check_formula<false>({.lr = 0.1, .weight_decay = 0.2});
  check_formula<false>({.lr = 0.1, .maximize = true});
  check_formula<false>({.lr = 0.1, .beta2 = 0.9, .amsgrad = true});
  check_formula<false>({.lr = 0.1, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true, .maximize = true});
}

TEST(AdamW, FollowsItsFormula) {
  check_formula<true>({.lr = 0.1});
  check_formula<true>({.lr = 0.1, .weight_decay = 0});
  check_formula<true>({.lr = 0.1, .beta2 = 0.9, .weight_decay = 0.3, .amsgrad = true});
  check_formula<true>({.lr = 0.1, .weight_decay = 0.3, .maximize = true});
}

TEST(AdamW, ShrinksAParameterWhoseGradientIsZero) {
  const Tensor coupled = parameter_of({2}), free = parameter_of({2});
  for (const Tensor& p : {coupled, free}) p.set_grad(zeros({1}, {.dtype = DType::f64}));
  Adam(std::vector<Tensor>{coupled}, {.lr = 0.1, .weight_decay = 0}).step();
  AdamW(std::vector<Tensor>{free}, {.lr = 0.1, .weight_decay = 0.5}).step();
  EXPECT_EQ(coupled.item(), 2);
  EXPECT_DOUBLE_EQ(free.item(), 2 * (1 - 0.1 * 0.5));
}

TEST(Adam, HasPyTorchsDefaults) {
  const AdamOptions adam;
  const AdamWOptions adamw;
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.beta1, 0.9);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.eps, 1e-8);
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_EQ(adamw.weight_decay, 1e-2);
}

TEST(Adam, ANanGradientShowsInTheParameterAndStaysInAmsgradsMaximum) {
  const Tensor p = parameter_of({1, 1});
  Adam adam(std::vector<Tensor>{p}, {.amsgrad = true});
  p.set_grad(tensor({std::numeric_limits<double>::quiet_NaN(), 1.0}, {.dtype = DType::f64}));
  adam.step();
  EXPECT_TRUE(std::isnan(p.to_vector<double>()[0]));
  EXPECT_FALSE(std::isnan(p.to_vector<double>()[1]));
  EXPECT_TRUE(std::isnan(state_of(adam, "0.max_exp_avg_sq").to_vector<double>()[0]));
}

TEST(Adam, RefusesOptionsThatMakeNoSense) {
  const std::vector<Tensor> p{parameter_of({1})};
  for (const AdamOptions& bad :
       {AdamOptions{.lr = -1}, AdamOptions{.beta1 = 1}, AdamOptions{.beta1 = -0.1}, AdamOptions{.beta2 = 1},
        AdamOptions{.eps = -1}, AdamOptions{.weight_decay = -1}}) {
    EXPECT_THROW(Adam(p, bad), ValueError);
  }
  EXPECT_THROW(AdamW(p, {.beta2 = 2}), ValueError);
}

}  // namespace
}  // namespace mezzo::optim
