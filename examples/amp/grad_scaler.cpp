// Autocast with GradScaler: gradients too small for f16 vanish on their way back through the network, unless
// the loss is scaled up before and the gradients are scaled down after.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

struct Result {
  double zeros;  ///< share of the first layer's gradients that are zero in the first step
  double first_loss, last_loss;
};

Result train(Device device, bool use_autocast, bool use_scaler) {
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device);
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2, .eps = 1e-15});
  const Tensor input = randn({64, 16}, {.device = device});
  const Tensor target = sin(narrow(input, 1, 0, 8));
  // One scaler for the whole training; a second training gets a scaler of its own. Where it is switched off,
  // everything passes through it.
  amp::GradScaler scaler({.enabled = use_scaler});

  Result result{};
  Tensor loss;
  for (int step = 0; step < 40; ++step) {
    {
      const amp::Autocast autocast(device, DType::f16, {.enabled = use_autocast});
      // The factor makes gradients as small as a mean over a million values does. f16 ends at 2^-24.
      loss = mse_loss(net(input), target) * 1e-6;
    }
    scaler.scale(loss).backward();  // the loss times the scale, and so is every gradient
    if (step == 0) {
      result.zeros = mean(eq(net.parameters()[0].grad(), 0).to(DType::f32)).item();
      result.first_loss = loss.item();
    }
    scaler.step(optimizer);  // divides by the scale; makes no step, on the device, with inf or NaN
    scaler.update();         // halves the scale after inf or NaN, doubles it after 2000 good steps
    optimizer.zero_grad();
  }
  result.last_loss = loss.item();
  if (use_scaler) std::printf("%s\n", scaler.report().c_str());
  return result;
}

Result show(const char* name, const Result& result) {
  std::printf("%s: zero_gradients %.3f loss %.3e -> %.3e\n", name, result.zeros, result.first_loss,
              result.last_loss);
  return result;
}

int run(Device device) {
  const Result f32 = show("f32", train(device, false, false));
  const Result unscaled = show("f16", train(device, true, false));
  const Result scaled = show("f16 and scaler", train(device, true, true));
  // Without the scaler most gradients are gone; with it training ends where it does in f32.
  if (unscaled.zeros > 0.9 && unscaled.last_loss > 2 * f32.last_loss && scaled.zeros == f32.zeros &&
      std::abs(scaled.last_loss - f32.last_loss) < 0.05 * f32.last_loss)
    return 0;
  std::fprintf(stderr, "grad_scaler: expected the loss of f32 with the scaler and a worse one without\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("grad_scaler", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
