// A program that uses mezzo as a package; the three folders beside it build this file, each in its own way.
// It trains a small network under autocast with an op of its own, and fails unless that worked: the loss must
// fall, and a step that overflows f16 must be skipped. It prints the number of registered ops, which is
// smaller than the library's when linking has dropped some.
#include <cstdio>
#include <exception>

#include <mezzo/mezzo.h>
#include <mezzo/ops/forward.h>  // what the forward of an own op is made of

namespace {

using namespace mezzo;

struct CubeFn {
  template <class T>
  MEZZO_HD T operator()(T x) const {
    return x * x * x;
  }
};
Gradients cube_vjp(const VjpArgs<NoAttrs>& args) { return {args.grad() * args.in(0) * args.in(0) * 3.0}; }
std::vector<Sample<NoAttrs>> cube_samples() { return {{{op_samples::real({3, 4})}}}; }
constexpr Op<NoAttrs> cube_op{
    .info = {.name = "consumer_cube", .category = Category::passthrough, .elementwise = true},
    .samples = cube_samples,
    .forward = ops::unary<CubeFn>,
    .vjp = cube_vjp,
    .saves = save_inputs(0),
};
const Registered cube_registered{cube_op};
Tensor cube(const Tensor& x) { return bind(cube_op, {x}); }

/// One step on `input`, whose target is the first column of its cube. The loss, and whether it was skipped.
struct Step {
  double loss;
  bool skipped;
};

Step train(nn::Sequential& net, optim::SGD& optimizer, amp::GradScaler& scaler, const Tensor& input) {
  const Tensor target = narrow(input * input * input, 1, 0, 1);
  Tensor loss;
  {
    const amp::Autocast autocast(Device::cpu(), DType::f16);
    loss = mse_loss(net(cube(input)), target);
  }
  scaler.scale(loss).backward();
  const bool skipped = scaler.step(optimizer).skipped();
  scaler.update();
  optimizer.zero_grad();
  return {loss.item(), skipped};
}

int run() {
  manual_seed(1);
  nn::Sequential net{nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 1)};
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::GradScaler scaler({.init_scale = 1024});
  const auto batch = [] { return rand({64, 8}) * 2.0 - 1.0; };
  const double first = train(net, optimizer, scaler, batch()).loss;
  double last = first;
  for (int i = 0; i < 200; ++i) last = train(net, optimizer, scaler, batch()).loss;
  const bool skipped = train(net, optimizer, scaler, batch() * 1e3).skipped;  // cubes above 65504

  std::printf("loss %.4f -> %.4f\n", first, last);
  std::printf("step that overflows %s\n", skipped ? "skipped" : "taken");
  std::printf("ops %d\n", static_cast<int>(all_ops().size()));
  return last < first / 10 && skipped && find_op("consumer_cube") != nullptr ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
