// SGD against its formula, written out in a plain loop.
#include "mezzo/optim/sgd.h"

#include <cmath>

#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

/// The same in doubles, one element after the other: Sutskever et al. 2013 in torch.optim.SGD's form.
struct PlainSgd {
  SGDOptions o;
  std::vector<double> p, momentum = {};
  void step(const std::vector<double>& gradient) {
    const bool first = momentum.empty();
    momentum.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = o.maximize ? -gradient[i] : gradient[i];
      g += o.weight_decay * p[i];
      if (o.momentum != 0) {
        momentum[i] = first ? g : o.momentum * momentum[i] + (1 - o.dampening) * g;
        g = o.nesterov ? g + o.momentum * momentum[i] : momentum[i];
      }
      p[i] -= o.lr * g;
    }
  }
};

// Longer than a tile of the kernel (1024 elements).
constexpr std::size_t kCount = 1500;

class SgdFormula : public ::testing::TestWithParam<SGDOptions> {};

TEST_P(SgdFormula, HoldsInF64) {
  PlainSgd oracle{GetParam(), values_of(1, kCount)};
  const Tensor p = parameter_of(oracle.p);
  SGD sgd(std::vector<Tensor>{p}, GetParam());
  for (std::uint64_t step = 0; step < 6; ++step) {
    const std::vector<double> gradient = values_of(10 + step, kCount);
    p.set_grad(tensor(gradient, {.dtype = DType::f64}));
    sgd.step();
    oracle.step(gradient);
    const std::vector<double> got = p.to_vector<double>();
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(got[i], oracle.p[i], 1e-14) << step << " " << i;
  }
}

TEST_P(SgdFormula, HoldsInF32ToItsRounding) {
  PlainSgd oracle{GetParam(), values_of(2, kCount)};
  const Tensor p = parameter_of(oracle.p, DType::f32);
  oracle.p = p.to_vector<double>();
  SGD sgd(std::vector<Tensor>{p}, GetParam());
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Tensor gradient = tensor(values_of(20 + step, kCount), {.dtype = DType::f32});
    p.set_grad(gradient);
    sgd.step();
    oracle.step(gradient.to_vector<double>());
  }
  const std::vector<double> got = p.to_vector<double>();
  // Six steps of five roundings each, of values below 4.
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(got[i], oracle.p[i], 6 * 5 * 4 * 0x1p-24) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Options, SgdFormula,
    ::testing::Values(
        SGDOptions{.lr = 0.1}, SGDOptions{.lr = 0.1, .weight_decay = 0.3},
        SGDOptions{.lr = 0.1, .maximize = true}, SGDOptions{.lr = 0.1, .weight_decay = 0.3, .maximize = true},
        SGDOptions{.lr = 0.1, .momentum = 0.9}, SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.4},
        SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true},
        SGDOptions{.lr = 0.1, .momentum = 0.5, .dampening = 1, .weight_decay = 0.1},
        SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = true, .maximize = true}));

TEST(Sgd, AParameterThatJoinsLaterStartsItsOwnMomentum) {
  // Its buffer is its first gradient, not (1 - dampening) of it.
  const Tensor a = parameter_of({0}), b = parameter_of({0});
  SGD sgd(std::vector<Tensor>{a, b}, {.lr = 1, .momentum = 0.5, .dampening = 0.5});
  const Tensor one = ones({1}, {.dtype = DType::f64});
  a.set_grad(one.clone());
  sgd.step();
  b.set_grad(one.clone());
  sgd.step();
  EXPECT_EQ(a.item(), -1 - (0.5 + 0.5));
  EXPECT_EQ(b.item(), -1);
  EXPECT_EQ(state_of(sgd, "0.step").item<std::int64_t>(), 2);
  EXPECT_EQ(state_of(sgd, "1.step").item<std::int64_t>(), 1);
}

TEST(Sgd, RefusesOptionsThatMakeNoSense) {
  const std::vector<Tensor> p{parameter_of({1})};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SGDOptions& bad : {SGDOptions{.lr = -1}, SGDOptions{.lr = nan}, SGDOptions{.momentum = -0.1},
                                SGDOptions{.weight_decay = -1}, SGDOptions{.nesterov = true},
                                SGDOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}}) {
    EXPECT_THROW(SGD(p, bad), ValueError);
  }
}

TEST(Sgd, KeepsABufferOnlyWithMomentum) {
  const Tensor p = parameter_of({1});
  p.set_grad(ones({1}, {.dtype = DType::f64}));
  SGD plain(std::vector<Tensor>{p}), heavy(std::vector<Tensor>{p}, {.momentum = 0.5});
  plain.step();
  heavy.step();
  EXPECT_FALSE(state_of(plain, "0.momentum_buffer").defined());
  EXPECT_EQ(state_of(heavy, "0.momentum_buffer").item(), 1);
}

}  // namespace
}  // namespace mezzo::optim
