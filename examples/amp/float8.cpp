// Training in float8: a region's products run on 8-bit codes with a scale each, which shows little in the
// loss. The first and the last layer stay in bf16, as users of float8 have them.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

constexpr int kSteps = 60;

/// Trains one network under bf16 autocast, in float8 where `fp8` says so, and returns the last loss.
double train(Device device, const amp::Fp8Option& fp8) {
  manual_seed(0);
  // Sizes are multiples of 16: other weights stay in 16 bits.
  nn::Sequential net{nn::Linear(32, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, 16)};
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-3});
  const Tensor input = randn({256, 32}, {.device = device}), target = sin(narrow(input, 1, 0, 16));
  Tensor loss;
  for (int step = 0; step < kSteps; ++step) {
    {
      const amp::Autocast autocast(device, DType::bf16, {.fp8 = fp8});
      loss = mse_loss(net(input), target);
    }
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return loss.item();
}

/// The scales that a tensor gets, and what is lost by its codes.
bool quantise(Device device) {
  const Tensor x = randn({64, 64}, {.device = device});
  const QuantizedF8 f8 = amp::quantize_f8(x);  // e4m3: 3 bits behind the leading one
  const Tensor error = amp::dequantize_f8(f8.codes, f8.inverse) - x;
  const double relative = std::sqrt((error * error).sum().item() / (x * x).sum().item());
  std::printf("codes %s scale %.1f relative_error %.4f\n", to_string(f8.codes.dtype()).c_str(),
              f8.scale.item(), relative);
  // Rounding to the nearest of 4 significant bits is off by 2^-4 at most.
  return relative > 0 && relative < 0x1p-4;
}

/// Whether something that is not finite shows: its float8 product is NaN, so a GradScaler skips the step.
bool overflow_shows(Device device) {
  const Tensor x = full({16, 16}, 1.0, {.device = device}), weight = randn({16, 16}, {.device = device});
  x.select(0, 0).select(0, 0).fill_(HUGE_VAL);
  const amp::Autocast autocast(device, DType::bf16, {.fp8 = true});
  const bool shows = all(isnan(linear(x, weight))).item<bool>();
  std::printf("product of an infinity: %s\n", shows ? "nan" : "finite");
  return shows;
}

int run(Device device) {
  const double bf16 = train(device, false);
  const double all_layers = train(device, true);
  const double inner_layer = train(device, amp::Fp8{.skip = {"0", "4"}});
  std::printf("loss after %d steps: bf16 %.4f all layers %.4f inner layer %.4f\n", kSteps, bf16, all_layers,
              inner_layer);
  const bool learns = std::abs(all_layers - bf16) < 0.02 && std::abs(inner_layer - bf16) < 0.02;
  if (quantise(device) && overflow_shows(device) && learns) return 0;
  std::fprintf(stderr, "float8: expected losses within 0.02 of bf16's, and an infinity that shows\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("float8", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
