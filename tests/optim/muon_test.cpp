// Muon beside torch.optim.Muon (2.15), under a scaler, with masters, and what it refuses. (It takes matrices
// only, so the tests that run over all optimizers do not have it.)
#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/mezzo.h"

namespace mezzo::optim {
namespace {

/// 0.5 sin(1.3 i + k), of a shape.
Tensor wave(const Shape& shape, double k) {
  return (sin(arange(zeros(shape).numel(), DType::f64) * 1.3 + k) * 0.5).view(shape).to(DType::f32);
}

void step_three_times(Muon& optimizer, const Tensor& p) {
  for (int k = 0; k < 3; ++k) {
    p.set_grad(wave(p.shape(), k + 1) * (k + 1.0));
    optimizer.step();
  }
}

/// The direction's elements are of bf16 products, whose orders differ: a few units of 2^-8 each, of three
/// steps with lr 0.1.
constexpr double kOfBf16 = 3 * 0.1 * 4 * 0x1p-8;

void expect_torch(const Shape& shape, const MuonOptions& options, const std::vector<double>& values,
                  const std::vector<double>& momentum) {
  const Tensor p = wave(shape, 0).requires_grad_();
  Muon optimizer(std::vector<Tensor>{p}, options);
  step_three_times(optimizer, p);
  EXPECT_TRUE(allclose(p, tensor(values, shape), 0, kOfBf16)) << p;
  for (const auto& [name, buffer] : optimizer.state_dict().tensors) {
    if (name == "0.momentum_buffer") {
      EXPECT_TRUE(allclose(buffer, tensor(momentum, shape), 1e-5, 1e-7)) << buffer;
    }
  }
  EXPECT_EQ(optimizer.state_dict().tensors.size(), 2U);  // the step and the buffer
}

TEST(Muon, IsTorchs) {
  expect_torch({2, 3}, {.lr = 0.1},
               {-0.162648246, 0.335599214, 0.342609674, -0.35503763, -0.637151301, 0.0148253972},
               {0.0727613121, -0.0593803972, -0.104529686, 0.00345725566, 0.106379308, 0.053455431});
  expect_torch({3, 2}, {.lr = 0.1, .weight_decay = 0, .momentum = 0.5, .nesterov = false},
               {-0.207752123, 0.623988271, 0.383693665, -0.290180892, -0.450234175, -0.125189364},
               {0.385756284, -0.67995435, -0.749530315, 0.278957367, 0.898771822, 0.201883435});
  expect_torch({3, 2}, {.lr = 0.1, .ns_steps = 3, .adjust_lr_fn = MuonLrAdjustment::match_rms_adamw},
               {-0.0600942634, 0.510548949, 0.285280019, -0.320452958, -0.428572267, 0.038545087},
               {0.0727613121, -0.0593803972, -0.104529686, 0.00345725566, 0.106379308, 0.053455431});
}

TEST(Muon, TakesItsOtherOptions) {
  const std::vector<double> momentum{0.0727613121,  -0.0593803972, -0.104529686,
                                     0.00345725566, 0.106379308,   0.053455431};
  expect_torch({2, 3}, {.lr = 0.1, .eps = 0.1},
               {-0.177579463, 0.34631905, 0.362900823, -0.335703671, -0.616477311, 0.00601981021}, momentum);
  expect_torch({2, 3}, {.lr = 0.1, .adjust_lr_fn = MuonLrAdjustment::spectral_unclamped},
               {-0.132801741, 0.359797955, 0.32563296, -0.351116538, -0.598882794, 0.0312562883}, momentum);
  expect_torch({2, 3}, {.lr = 0.1, .ns_a = 2, .ns_b = -1.5, .ns_c = 0.5},
               {-0.178368136, 0.375091881, 0.379025072, -0.318002552, -0.631403923, -0.0200030208}, momentum);
}

TEST(Muon, MovesByMatricesOfSingularValuesAboutOne) {
  const Tensor p = zeros({8, 16}).requires_grad_();
  Muon optimizer(std::vector<Tensor>{p}, {.lr = 1, .weight_decay = 0});
  manual_seed(2);
  p.set_grad(randn({8, 16}) * 1e-3);
  optimizer.step();
  // Squares of the singular values are between 0.5^2 and 1.5^2, so their mean, |p|^2 / 8, is.
  const double mean_square = square(p).sum().item() / 8;
  EXPECT_GT(mean_square, 0.25);
  EXPECT_LT(mean_square, 2.25);
}

TEST(Muon, ObeysAScaler) {
  const Tensor p = wave({4, 3}, 0).requires_grad_(), plain = wave({4, 3}, 0).requires_grad_();
  Muon scaled_one(std::vector<Tensor>{p}, {.lr = 0.1}), plain_one(std::vector<Tensor>{plain}, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 1024});
  const Tensor factors = wave({4, 3}, 1);
  for (int i = 0; i < 3; ++i) {
    const bool overflows = i == 1;
    p.set_grad({});
    scaler.scale((p * factors).sum() * (overflows ? INFINITY : 1.0)).backward();
    const Tensor before = p.detach().clone();
    EXPECT_EQ(scaler.step(scaled_one).skipped(), overflows);
    scaler.update();
    if (overflows) {
      EXPECT_TRUE(equal(p, before));
      continue;
    }
    plain.set_grad({});
    (plain * factors).sum().backward();
    plain_one.step();
    EXPECT_TRUE(equal(p, plain));  // powers of two scale without rounding
  }
}

TEST(Muon, KeepsF32MastersOf16BitParameters) {
  const Tensor p = ones({4, 4}, DType::bf16).requires_grad_();
  Muon optimizer(std::vector<Tensor>{p}, {.lr = 1e-4, .weight_decay = 0, .master_weights = true});
  const Tensor gradient = wave({4, 4}, 0).to(DType::bf16);
  for (int i = 0; i < 100; ++i) {
    p.set_grad(gradient);
    optimizer.step();
  }
  EXPECT_FALSE(equal(p, ones({4, 4}, DType::bf16)));  // without masters each step would be lost
}

TEST(Muon, GoesOnFromItsState) {
  const Tensor at_once = wave({3, 3}, 0).requires_grad_(), before = wave({3, 3}, 0).requires_grad_();
  Muon whole(std::vector<Tensor>{at_once}, {.lr = 0.1}), first(std::vector<Tensor>{before}, {.lr = 0.1});
  step_three_times(whole, at_once);
  step_three_times(whole, at_once);
  step_three_times(first, before);
  const Tensor after = before.detach().clone().requires_grad_();
  Muon second(std::vector<Tensor>{after});
  second.load_state_dict(first.state_dict());
  step_three_times(second, after);
  EXPECT_TRUE(equal(after, at_once));
}

TEST(Muon, RefusesWhatItCannotDo) {
  const Tensor matrix = ones({2, 2}).requires_grad_(), vector = ones({2}).requires_grad_();
  EXPECT_THROW(Muon(std::vector<Tensor>{vector}), ShapeError);
  EXPECT_THROW(Muon(NamedTensors{{"conv.weight", ones({2, 2, 3, 3}).requires_grad_()}}), ShapeError);
  EXPECT_THROW(Muon(std::vector<Tensor>{matrix}, {.lr = -1}), ValueError);
  EXPECT_THROW(Muon(std::vector<Tensor>{matrix}, {.momentum = 1}), ValueError);
  EXPECT_THROW(Muon(std::vector<Tensor>{matrix}, {.ns_a = NAN}), ValueError);
  EXPECT_THROW(Muon(std::vector<Tensor>{matrix}, {.ns_steps = 100}), ValueError);
  Muon optimizer(std::vector<Tensor>{matrix});
  EXPECT_THROW(optimizer.add_param_group({{{"bias", vector}}, {}}), ShapeError);
  EXPECT_EQ(optimizer.num_groups(), 1U);
}

}  // namespace
}  // namespace mezzo::optim
