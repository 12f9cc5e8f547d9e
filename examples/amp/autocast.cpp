// Training under autocast: products run in 16 bits, and what needs the range or the precision stays in f32.
// In f16 as in bf16; what f16 needs besides is in grad_scaler.cpp.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

/// Trains one network with autocast in `dtype`, or without it, and returns the last loss.
double train(Device device, DType dtype) {
  const bool use_autocast = dtype != DType::f32;
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device);  // the parameters are f32 and stay so
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor input =
      randn({64, 16}, {.device = device});  // so is the data: autocast converts where it must
  const Tensor target = sin(narrow(input, 1, 0, 8));

  Tensor output, loss, gradient;
  for (int step = 0; step < 40; ++step) {
    {
      // The region holds forward and loss. `enabled` turns it off without another version of the loop.
      const amp::Autocast autocast(device, dtype, {.enabled = use_autocast});
      output = net(input);              // 16 bits: linear is an op of lower precision
      loss = mse_loss(output, target);  // f32: autocast knows that squares and sums need it
    }
    // Backward stands outside: its ops run in the dtypes that autocast chose for the forward ones.
    loss.backward();
    gradient = net.parameters()[0].grad();
    optimizer.step();
    optimizer.zero_grad();
  }
  std::printf("%s: output %s loss %s gradient %s final_loss %.5f\n", to_string(dtype).c_str(),
              to_string(output.dtype()).c_str(), to_string(loss.dtype()).c_str(),
              to_string(gradient.dtype()).c_str(), loss.item());
  const bool as_promised =
      output.dtype() == dtype && loss.dtype() == DType::f32 && gradient.dtype() == DType::f32;
  return as_promised ? loss.item() : std::nan("");  // which is close to no number
}

int run(Device device) {
  const double f32 = train(device, DType::f32);
  const double f16 = train(device, DType::f16);
  const double bf16 = train(device, DType::bf16);
  // Rounding makes a relative error of 2^-11 in f16 and of 2^-8 in bf16; a few of them end up in the loss.
  const bool close = std::abs(f16 - f32) < 4 * 0x1p-11 * f32 && std::abs(bf16 - f32) < 4 * 0x1p-8 * f32;
  std::printf("difference f16 %.2f%% bf16 %.2f%%\n", 100 * (f16 / f32 - 1), 100 * (bf16 / f32 - 1));
  if (close) return 0;
  std::fprintf(stderr, "autocast: expected the dtypes of the policy table and the loss of f32\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("autocast", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
