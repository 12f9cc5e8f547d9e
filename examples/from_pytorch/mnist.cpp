// mnist: a convolution net learns to read digits.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

struct Net final : nn::Layer {
  nn::Child<nn::Conv2d> conv1{*this, "conv1", nn::Conv2d(1, 8, 3)};
  nn::Child<nn::Conv2d> conv2{*this, "conv2", nn::Conv2d(8, 16, 3)};
  nn::Child<twin::Dropout> dropout1{*this, "dropout1", twin::Dropout(0.25)};
  nn::Child<twin::Dropout> dropout2{*this, "dropout2", twin::Dropout(0.5)};
  nn::Child<nn::Linear> fc1{*this, "fc1", nn::Linear(2304, 64)};
  nn::Child<nn::Linear> fc2{*this, "fc2", nn::Linear(64, 10)};

  Tensor forward(const Tensor& image) override {
    Tensor x = relu(conv1(image));
    x = max_pool2d(relu(conv2(x)), 2);
    x = flatten(dropout1(x), 1);
    x = dropout2(relu(fc1(x)));
    return log_softmax(fc2(x), 1);
  }
};

void train(const twin::Args& args, Net& net) {
  optim::Adadelta optimizer(net, {.lr = 0.5});
  optim::StepLR scheduler(optimizer, {.step_size = 20, .gamma = 0.7});
  amp::GradScaler scaler({.enabled = args.dtype == DType::f16});
  for (int step = 0; step < args.steps; ++step) {
    const Tensor target = twin::randint(10, {64});
    const Tensor data = twin::digits(target).to(args.device);
    optimizer.zero_grad();
    Tensor loss;
    {
      amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
      loss = nll_loss(net(data), target.to(args.device));
    }
    scaler.scale(loss).backward();
    scheduler.step(scaler.step(optimizer));
    scaler.update();
    if (step % 4 == 0) std::printf("step %d loss %.6g\n", step, loss.item());
  }
}

void test(const twin::Args& args, Net& net) {
  net.eval();
  NoGrad no_grad;
  const Tensor target = twin::randint(10, {200});
  const Tensor output = net(twin::digits(target).to(args.device)).cpu();
  const Tensor correct = (output.argmax(1) == target).sum();
  std::printf("test loss %.6g correct %g\n", nll_loss(output, target).item(), correct.item());
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 80, .mixed = true});
  Net net;
  twin::init(net);
  net.to(args.device);
  train(args, net);
  test(args, net);
}
