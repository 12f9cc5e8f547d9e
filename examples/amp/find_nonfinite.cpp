// Where do inf and NaN come from? Switch autocast and the scaler off, one at a time, by `enabled`: what goes
// away with one of them is its doing, and what stays is the model's or the data's. (Which op it was,
// autograd::detect_anomaly says.)
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

/// An iteration of training, with something wrong in it.
struct Case {
  std::string name;
  double input_size = 1;
  double init_scale = 1024;
  bool takes_log = false;
  std::string expected;
};

/// Whether loss and gradients of the iteration are finite.
bool is_finite(const Case& one, Device device, bool use_autocast, bool use_scaler) {
  manual_seed(0);  // each look at it sees the same weights and data
  nn::Sequential net{nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 8)};
  net.to(device);
  const Tensor input = randn({64, 16}, {.device = device}) * one.input_size;
  amp::GradScaler scaler({.init_scale = one.init_scale, .enabled = use_scaler});
  Tensor loss;
  {
    const amp::Autocast autocast(device, DType::f16, {.enabled = use_autocast});
    const Tensor output = net(input);
    loss = mean(one.takes_log ? log(relu(output)) : square(output / one.input_size));
  }
  scaler.scale(loss).backward();
  bool finite = std::isfinite(loss.item());
  for (const Tensor& parameter : net.parameters())
    finite = finite && all(isfinite(parameter.grad())).item<bool>();
  return finite;
}

std::string verdict(const Case& one, Device device) {
  const bool both = is_finite(one, device, true, true);
  const bool no_autocast = is_finite(one, device, false, true);
  const bool no_scaler = is_finite(one, device, true, false);
  const auto said = [](bool finite) { return finite ? "finite" : "inf/NaN"; };
  std::string cause = "model or data";  // mixed precision has no part in it
  if (both)
    cause = "none";
  else if (no_scaler)
    cause = "scale";  // scaled gradients exceed 65504: the scaler lowers the scale by itself, skipping steps
  else if (no_autocast)
    cause = "f16";  // values exceed 65504 without a scale: make them smaller, or take bf16
  std::printf("%s: both %s, no autocast %s, no scaler %s -> %s\n", one.name.c_str(), said(both),
              said(no_autocast), said(no_scaler), cause.c_str());
  return cause;
}

int run(Device device) {
  bool right = true;
  for (const Case& one : {Case{.name = "a sound model", .expected = "none"},
                          Case{.name = "inputs around 100000", .input_size = 1e5, .expected = "f16"},
                          Case{.name = "a scale of 2^40", .init_scale = 0x1p40, .expected = "scale"},
                          Case{.name = "a log of 0", .takes_log = true, .expected = "model or data"}})
    right = (verdict(one, device) == one.expected) && right;
  if (right) return 0;
  std::fprintf(stderr, "find_nonfinite: expected each cause to be found\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("find_nonfinite", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
