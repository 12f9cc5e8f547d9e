// lbfgs_regression: a small net learns a curve from noisy points by L-BFGS, from all of them at a time.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

Tensor curve(const Tensor& x) { return sin(3 * x) + 0.5 * x; }

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 12});
  const Tensor x = (twin::rand({100, 1}) * 4 - 2).to(args.device);
  const Tensor y = curve(x) + 0.1 * twin::randn({100, 1}).to(args.device);
  nn::Sequential net{nn::Linear(1, 20), nn::Tanh(), nn::Linear(20, 20), nn::Tanh(), nn::Linear(20, 1)};
  twin::init(net);
  net.to(args.device);
  nn::MSELoss criterion;
  optim::LBFGS optimizer(net, {.lr = 1.0, .max_iter = 4, .line_search_fn = optim::LineSearch::strong_wolfe});
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = criterion(net(x), y);
    loss.backward();
    return loss;
  };
  for (int step = 0; step < args.steps; ++step) {
    const Tensor loss = optimizer.step(closure);
    std::printf("step %d loss %.6g\n", step, loss.item());
  }
  NoGrad no_grad;
  const Tensor grid = (arange(81).to(DType::f32) / 20 - 2).view({-1, 1}).to(args.device);
  std::printf("test loss %.6g\n", criterion(net(grid), curve(grid)).item());
}
