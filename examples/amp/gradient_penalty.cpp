// A gradient penalty under autocast and GradScaler: the loss grows with the length of its own gradient, so
// backward goes through a gradient. The gradient comes out scaled, and the penalty is made of an unscaled
// one.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

struct Result {
  double loss, penalty;  ///< at the end
};

Result train(Device device, double weight, bool use_amp) {
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::Tanh(), nn::Linear(64, 8)};
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.05});
  amp::GradScaler scaler({.init_scale = 1024, .enabled = use_amp});
  const Tensor input = randn({64, 16}, {.device = device});
  const Tensor target = sin(narrow(input, 1, 0, 8));

  Tensor loss, penalty;
  for (int step = 0; step < 40; ++step) {
    {
      const amp::Autocast autocast(device, DType::f16, {.enabled = use_amp});
      loss = mse_loss(net(input), target);
    }
    // The gradient of the scaled loss, so that it does not vanish in f16, with its own history.
    const std::vector<Tensor> scaled_loss{scaler.scale(loss)};
    Tensors gradients = grad(scaled_loss, net.parameters(), {}, {.create_graph = true});
    // No optimizer owns it, so it is unscaled by a product, which is differentiated like everything else. The
    // factor stays on the device; 1 / scaler.get_scale() would wait for it.
    for (Tensor& gradient : gradients) gradient = gradient * scaler.inv_scale_tensor();
    {
      const amp::Autocast autocast(device, DType::f16, {.enabled = use_amp});
      Tensor squares = zeros({}, {.device = device});
      for (const Tensor& gradient : gradients) squares = squares + sum(square(gradient));
      penalty = sqrt(squares);
      loss = loss + penalty * weight;
    }
    scaler.scale(loss).backward();  // scaled as ever: the penalty's gradient has the same factor
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  return {(loss - penalty * weight).item(), penalty.item()};
}

Result show(const char* name, const Result& result) {
  std::printf("%s: loss %.5f gradient %.5f\n", name, result.loss, result.penalty);
  return result;
}

int run(Device device) {
  const Result none = show("no penalty, f16", train(device, 0, true));
  const Result f32 = show("penalty, f32", train(device, 1, false));
  const Result f16 = show("penalty, f16", train(device, 1, true));
  // The penalty makes the gradient shorter, and f16, whose rounding unit is 2^-11, finds the same as f32.
  if (f16.penalty < 0.8 * none.penalty && std::abs(f16.penalty - f32.penalty) < 4 * 0x1p-11 * f32.penalty &&
      std::abs(f16.loss - f32.loss) < 4 * 0x1p-11 * f32.loss)
    return 0;
  std::fprintf(stderr, "gradient_penalty: expected a shorter gradient, the same in f16 as in f32\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("gradient_penalty", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
