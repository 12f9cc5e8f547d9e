// A plugin of another program: trains a line with mixed precision and says whether it found it.
#include <cmath>
#include <cstdio>
#include <exception>

#include "mezzo/mezzo.h"

extern "C" int mezzo_plugin_train() {
  try {
    using namespace mezzo;
    nn::Linear line(1, 1);
    optim::SGD sgd(line.parameters(), {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 8});
    const Tensor x = arange(64) * (1.0 / 32) - 1.0;
    const Tensor input = reshape(x, {64, 1}), target = input * 3.0 + 1.0;
    for (int step = 0; step < 200; ++step) {
      sgd.zero_grad();
      Tensor loss;
      {
        const amp::Autocast autocast(Device::cpu(), DType::bf16);
        loss = mse_loss(line.forward(input), target);
      }
      scaler.scale(loss).backward();
      static_cast<void>(scaler.step(sgd));
      scaler.update();
    }
    const float slope = line.parameters()[0].item<float>();
    if (std::abs(slope - 3) < 0.1F) return 0;
    std::fprintf(stderr, "plugin: expected a slope of 3, got %f\n", static_cast<double>(slope));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plugin: %s\n", error.what());
  }
  return 1;
}
