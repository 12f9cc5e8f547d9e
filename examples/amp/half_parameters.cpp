// Parameters in 16 bits: the model is half as large, and the products need no casts. Updates too small for 16
// bits add up in f32 masters, whole or split, or on average, where parameters are rounded at random.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

/// How the optimizer keeps 16-bit parameters.
struct Way {
  const char* name;
  optim::MasterWeights masters = false;
  bool stochastic = false;
};
const Way kPlain{"without masters"}, kMasters{"with masters", true};
const Way kSplit{"with split masters", optim::MasterWeights::split}, kRandom{"at random", false, true};

/// The loss in the end of a training whose parameters are of `dtype`.
double train(Device device, DType dtype, const Way& way) {
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device).to(dtype);  // before the optimizer is made: it takes its masters from these
  optim::SGD optimizer(
      net.parameters(),
      {.lr = 1e-3, .momentum = 0.9, .master_weights = way.masters, .stochastic_rounding = way.stochastic});
  // f16 gradients need the scaler; the others have the range of f32 and do well without.
  amp::GradScaler scaler({.init_scale = 1024, .enabled = dtype == DType::f16});

  const Tensor input = randn({64, 16}, {.device = device});
  const Tensor target = sin(narrow(input, 1, 0, 8));
  Tensor loss;
  for (int step = 0; step < 60; ++step) {
    const Tensor output = net(input.to(dtype));      // all products in `dtype`, without autocast
    loss = mse_loss(output.to(DType::f32), target);  // the loss is better off in f32
    scaler.scale(loss).backward();                   // 16-bit gradients
    scaler.step(optimizer);  // unscales them, updates the f32 masters, and rounds these to the parameters
    scaler.update();
    optimizer.zero_grad();
  }
  std::printf("%s %s: loss %.5f\n", to_string(dtype).c_str(), way.name, loss.item());
  return loss.item();
}

/// f16 gradients without masters are refused: unscaled they would be rounded to f16 and partly vanish.
bool is_refused(Device device) {
  try {
    train(device, DType::f16, kPlain);
  } catch (const DTypeError& error) {
    std::printf("f16 without masters: %s\n", error.what());
    return true;
  }
  return false;
}

int run(Device device) {
  const double f32 = train(device, DType::f32, kPlain);
  const double f16 = train(device, DType::f16, kMasters);
  const double bf16 = train(device, DType::bf16, kMasters);
  const double split = train(device, DType::bf16, kSplit);
  const double random = train(device, DType::bf16, kRandom);
  const double rounded = train(device, DType::bf16, kPlain);
  const bool refused = is_refused(device);
  // With masters the loss is that of f32 up to the rounding of the dtype (2^-11, 2^-8), and near to it when
  // rounded at random; else bf16 rounds away updates smaller than half the distance to the next number, and
  // gets less far.
  const auto off = [&](double loss) { return std::abs(loss - f32) / f32; };
  if (refused && off(f16) < 0x1p-11 && off(bf16) < 0x1p-8 && off(split) < 0x1p-8 &&
      off(random) < 2 * 0x1p-8 && off(rounded) > 4 * 0x1p-8)
    return 0;
  std::fprintf(stderr, "half_parameters: expected the loss of f32 with masters, and another without\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("half_parameters", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
