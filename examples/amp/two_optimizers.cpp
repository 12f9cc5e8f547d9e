// Two models, two losses and two optimizers share one GradScaler. When the gradients of one are not finite,
// that one alone makes no step; the scale goes down for both.
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

constexpr int kOutlier = 3;  // the step whose first loss overflows

int run(Device device) {
  manual_seed(0);
  nn::Linear base(16, 8);
  // This one learns what the other leaves over.
  nn::Sequential rest{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  base.to(device);
  rest.to(device);
  optim::SGD of_base(base.parameters(), {.lr = 0.1});
  optim::Adam of_rest(rest.parameters(), {.lr = 1e-2});
  amp::GradScaler scaler({.init_scale = 4096});

  int base_skipped = 0, rest_skipped = 0;
  bool as_promised = true;
  for (int step = 0; step < 6; ++step) {
    const Tensor input = randn({64, 16}, {.device = device});
    const Tensor target = sin(narrow(input, 1, 0, 8));
    Tensor base_loss, rest_loss;
    {
      const amp::Autocast autocast(device, DType::f16);
      const Tensor output = base(input);
      base_loss = mse_loss(output, target) * (step == kOutlier ? 1e5 : 1.0);
      rest_loss = mse_loss(rest(input), target - output.detach());
    }
    // Every loss is scaled, by the same factor. (Where losses share a graph, all backwards but the last take
    // {.retain_graph = true}.)
    scaler.scale(base_loss).backward();
    scaler.scale(rest_loss).backward();

    // For optimizers whose gradients are to be seen or clipped before the step; the other one does without.
    scaler.unscale_(of_base);
    optim::clip_grad_norm_(base.parameters(), 1.0);

    // Each skips for gradients of its own. Asking for it, here and below, reads from the device.
    const bool base_skips = scaler.step(of_base).skipped();
    const bool rest_skips = scaler.step(of_rest).skipped();
    const double scale = scaler.get_scale();
    scaler.update();  // once, after all: an iteration with inf or NaN anywhere lowers the scale once
    of_base.zero_grad();
    of_rest.zero_grad();

    std::printf("step %d: scale %g base %s rest %s\n", step, scale, base_skips ? "skipped" : "stepped",
                rest_skips ? "skipped" : "stepped");
    base_skipped += base_skips ? 1 : 0;
    rest_skipped += rest_skips ? 1 : 0;
    as_promised = as_promised && base_skips == (step == kOutlier);
  }
  std::printf("skipped: base %d rest %d, scale at the end %g\n", base_skipped, rest_skipped,
              scaler.get_scale());
  if (as_promised && rest_skipped == 0 && scaler.get_scale() == 2048) return 0;
  std::fprintf(stderr, "two_optimizers: expected one step of one of them to be skipped\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("two_optimizers", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
