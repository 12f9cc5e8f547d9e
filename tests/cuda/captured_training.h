// A small training that runs twice with the same numbers: eagerly, and as a CapturedStep. Tests say what a
// step is and what happens between calls, and everything has to have the same bits after each of ten calls.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/twin.h"
#include "mezzo/mezzo.h"

namespace mezzo::captured {

inline const Device kDevice = Device::cuda(0);
constexpr int kWarmup = 3, kCalls = 10;

struct Training {
  /// `weights`: their dtype; 16-bit ones get masters. `region`: autocast's, for f32 weights.
  explicit Training(bool adam, DType weights = DType::f32, DType region = DType::f16) : dtype(region) {
    net.to(kDevice).to(weights);
    const bool masters = is_16bit(weights);
    if (adam)
      optimizer = std::make_unique<optim::AdamW>(net.parameters(),
                                                 optim::AdamWOptions{.lr = 0.01, .master_weights = masters});
    else
      optimizer = std::make_unique<optim::SGD>(
          net.parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .master_weights = masters});
    input = zeros({8, 6}, {.dtype = weights, .device = kDevice});
    target = zeros({8, 3}, {.device = kDevice});
  }

  [[nodiscard]] Tensor loss() { return loss(input, target); }
  [[nodiscard]] Tensor loss(const Tensor& x, const Tensor& y) {
    const amp::Autocast autocast(kDevice, dtype);
    return mse_loss(net.forward(x).to(DType::f32), y);
  }
  /// A loss whose graph saves nothing that load() writes.
  [[nodiscard]] Tensor own_loss() { return loss(input.clone(), target.clone()); }
  void update() {
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
  }
  /// The step of most tests.
  Tensor step() {
    optimizer->zero_grad();
    const Tensor result = loss();
    scaler.scale(result).backward();
    update();
    return result.detach();
  }
  /// The data of call i.
  void load(int i) const {
    input.copy_(twin::values(static_cast<std::uint64_t>(100 + i), {8, 6}, DType::f32, kDevice));
    target.copy_(twin::values(static_cast<std::uint64_t>(200 + i), {8, 3}, DType::f32, kDevice));
  }
  /// What the net says under NoGrad, in a region or in its own dtype.
  void evaluate(bool in_region) {
    const NoGrad no_grad;
    const amp::Autocast autocast(kDevice, dtype, {.enabled = in_region});
    note(net.forward(input));
  }
  void note(const Tensor& values) {
    for (const double value : values.detach().to_vector<double>()) seen.push_back(value);
  }
  /// All that was noted, weights, optimizer state, rates and scale.
  [[nodiscard]] std::vector<double> state() const {
    std::vector<double> all = seen;
    const auto add = [&](const Tensor& tensor) {
      for (const double value : tensor.detach().to_vector<double>()) all.push_back(value);
    };
    for (const Tensor& p : net.parameters()) add(p);
    for (const auto& [key, tensor] : optimizer->state_dict().tensors) add(tensor);
    all.push_back(optimizer->lr());
    all.push_back(scaler.get_scale());
    return all;
  }

  static const Generator* seeded() {
    manual_seed(3);
    return nullptr;
  }
  DType dtype;
  const Generator* drawn = seeded();  ///< before `net`, which draws its weights
  nn::Sequential net{nn::make<nn::Linear>(6, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 3)};
  std::unique_ptr<optim::Optimizer> optimizer;
  amp::GradScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  Tensor input, target;
  std::vector<double> seen;
  std::vector<Tensor> held;  ///< whatever a test wants to live on
};

/// What happens to a training in each call, and before call i (0 to 9; call 3 is recorded).
struct Scenario {
  std::function<Tensor(Training&)> step = [](Training& training) { return training.step(); };
  std::function<void(Training&, int)> before = [](Training&, int) {};
};

inline void expect_same_bits(const Scenario& scenario, Training& eager, Training& captured) {
  amp::CapturedStep step(
      kDevice, [&] { return scenario.step(captured); }, kWarmup);
  for (int i = 0; i < kCalls; ++i) {
    for (Training* training : {&eager, &captured}) {
      training->load(i);
      scenario.before(*training, i);
    }
    const double want = scenario.step(eager).item<double>();
    const double got = step().item<double>();
    ASSERT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(want)) << "loss of call " << i;
    ASSERT_EQ(captured.state(), eager.state()) << "after call " << i;
    ASSERT_EQ(step.is_recorded(), i >= kWarmup);
  }
}

/// With two optimizers, f32 weights in regions of both dtypes, and 16-bit weights with masters.
inline void expect_same_bits(const Scenario& scenario) {
  struct Kind {
    bool adam;
    DType weights, region;
  };
  for (const Kind& kind : {Kind{false, DType::f32, DType::f16}, Kind{true, DType::f32, DType::bf16},
                           Kind{true, DType::f16, DType::f16}, Kind{false, DType::bf16, DType::bf16}}) {
    SCOPED_TRACE((kind.adam ? "AdamW, " : "SGD, ") + to_string(kind.weights) + " weights, region of " +
                 to_string(kind.region));
    Training eager(kind.adam, kind.weights, kind.region), captured(kind.adam, kind.weights, kind.region);
    expect_same_bits(scenario, eager, captured);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace mezzo::captured
