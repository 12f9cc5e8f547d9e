// physics_informed: a net becomes the solution of a differential equation, u'' + u' - 2 u = f on [0, 1] with
// u given at both ends, by its own second derivatives.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

constexpr double kPi = 3.141592653589793;

Tensor solution(const Tensor& x) { return sin(2 * kPi * x); }

Tensor right_side(const Tensor& x) {
  const Tensor angle = 2 * kPi * x;
  return -(4 * kPi * kPi + 2) * sin(angle) + 2 * kPi * cos(angle);
}

Tensor derivative(const Tensor& y, const Tensor& x) { return grad(y.sum(), x, {.create_graph = true})[0]; }

// How far the net is from solving the equation at these points.
Tensor residual(nn::Sequential& net, const Tensor& x) {
  const Tensor u = net(x);
  const Tensor u_x = derivative(u, x);
  const Tensor u_xx = derivative(u_x, x);
  return u_xx + u_x - 2 * u - right_side(x);
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 300});
  nn::Sequential net{nn::Linear(1, 32), nn::Tanh(), nn::Linear(32, 32), nn::Tanh(), nn::Linear(32, 1)};
  twin::init(net);
  net.to(args.device);
  optim::Adam optimizer(net, {.lr = 5e-3});
  const Tensor ends = tensor({{0.0}, {1.0}}).to(args.device);
  for (int step = 0; step < args.steps; ++step) {
    const Tensor x = twin::rand({64, 1}).to(args.device).requires_grad_();
    optimizer.zero_grad();
    const Tensor equation = residual(net, x).square().mean();
    const Tensor boundary = mse_loss(net(ends), solution(ends));
    const Tensor loss = equation + 100 * boundary;
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) std::printf("step %d loss %.6g boundary %.6g\n", step, loss.item(), boundary.item());
  }
  NoGrad no_grad;
  const Tensor x = (arange(101).to(DType::f32) / 100).view({-1, 1}).to(args.device);
  std::printf("error %.6g\n", (net(x) - solution(x)).abs().max().item());
}
