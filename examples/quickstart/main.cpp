// Mixed-precision training: autocast for the forward, GradScaler for backward and step.
#include <mezzo/mezzo.h>
#include <iostream>

using namespace mezzo;

int main() {
  const Device device = Device::best();  // cuda:0 where one is usable, else cpu
  nn::Sequential net{nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 8)};
  net.to(device);
  optim::AdamW optimizer(net, {.lr = 1e-3});
  amp::GradScaler scaler;
  for (int step = 0; step <= 300; ++step) {
    const Tensor input = randn({128, 64}, {.device = device}), target = sin(narrow(input, 1, 0, 8));
    Tensor loss;
    {
      amp::Autocast autocast(device, DType::f16);
      loss = mse_loss(net(input), target);  // the products run in f16, the loss in f32
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    optim::clip_grad_norm_(net.parameters(), 1.0);
    scaler.step(optimizer);  // skipped on the device when a gradient is not finite
    scaler.update();
    optimizer.zero_grad();
    if (step % 100 == 0) std::cout << "step " << step << ", loss " << loss.item() << '\n';
  }
}
