// A plugin of another program: trains a line with mixed precision and says whether it found it.
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

/// 0 when products and convolutions that are asked for on one thread start none, neither mezzo's nor those of
/// the OpenMP that comes with oneDNN. No other thread of the process may begin meanwhile.
extern "C" int mezzo_plugin_one_thread() {
  set_num_threads(1);
  const std::ptrdiff_t before = threads_of_process();
  const Tensor x = full({512, 512}, 0.5), images = full({8, 16, 64, 64}, 0.5);
  static_cast<void>(matmul(x, x));
  static_cast<void>(conv2d(images, full({16, 16, 3, 3}, 0.5)));
  const std::ptrdiff_t after = threads_of_process();
  if (after <= before) return 0;
  std::fprintf(stderr, "plugin: %td threads became %td\n", before, after);
  return 1;
}

extern "C" int mezzo_plugin_train() {
  try {
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
