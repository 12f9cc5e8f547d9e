// Gradient clipping under GradScaler: unscale first, then clip, so that the bound means what it says.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

constexpr double kMaxNorm = 0.5, kLr = 0.1;

/// The length of the way from `before` to the parameters as they are now.
double distance(const std::vector<Tensor>& before, const std::vector<Tensor>& parameters) {
  double square = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    square += std::pow(norm(parameters[i].detach() - before[i]).item(), 2);
  return std::sqrt(square);
}

int run(Device device) {
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = kLr});
  amp::GradScaler scaler({.init_scale = 1024});

  bool as_promised = true;
  double largest = 0, smallest = 1e9;
  for (int step = 0; step < 6; ++step) {
    const Tensor input = randn({64, 16}, {.device = device});
    // Two of the batches have targets that are far off, and gradients that would throw training back.
    const Tensor target = sin(narrow(input, 1, 0, 8)) * (step % 3 == 1 ? 100.0 : 1.0);
    Tensor loss;
    {
      const amp::Autocast autocast(device, DType::f16);
      loss = mse_loss(net(input), target);
    }
    scaler.scale(loss).backward();

    // Before this line the gradients are `scale` times too large: a bound would have to be, too.
    scaler.unscale_(optimizer);
    // The bound is that of training without a scaler. inf and NaN pass: the scaler has noted them already.
    const double before = optim::clip_grad_norm_(net.parameters(), kMaxNorm).item();

    std::vector<Tensor> start;
    for (const Tensor& parameter : net.parameters()) start.push_back(parameter.detach().clone());
    scaler.step(optimizer);  // knows that unscale_ was called and does not unscale again
    scaler.update();
    optimizer.zero_grad();

    // What is printed reads from the device, which a training loop need not do.
    const double length = distance(start, net.parameters()), expected = kLr * std::min(before, kMaxNorm);
    std::printf("step %d: norm %.4f clipped to %.4f moved %.5f\n", step, before, std::min(before, kMaxNorm),
                length);
    as_promised = as_promised && std::abs(length - expected) < 1e-4 * expected;
    largest = std::max(largest, before);
    smallest = std::min(smallest, before);
  }
  if (as_promised && largest > 2 * kMaxNorm && smallest < kMaxNorm) return 0;
  std::fprintf(stderr, "clip_gradients: expected steps as long as lr times the clipped norm\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("clip_gradients", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
