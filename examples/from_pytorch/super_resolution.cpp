// super_resolution: a sub-pixel convolution net doubles the size of pictures.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

struct Net final : nn::Layer {
  explicit Net(int upscale_factor)
      : conv4{*this, "conv4", nn::Conv2d(16, upscale_factor * upscale_factor, 3, {.padding = 1})},
        pixel_shuffle{*this, "pixel_shuffle", nn::PixelShuffle(upscale_factor)} {}

  nn::Child<nn::Conv2d> conv1{*this, "conv1", nn::Conv2d(1, 32, 5, {.padding = 2})};
  nn::Child<nn::Conv2d> conv2{*this, "conv2", nn::Conv2d(32, 32, 3, {.padding = 1})};
  nn::Child<nn::Conv2d> conv3{*this, "conv3", nn::Conv2d(32, 16, 3, {.padding = 1})};
  nn::Child<nn::Conv2d> conv4;
  nn::Child<nn::PixelShuffle> pixel_shuffle;

  Tensor forward(const Tensor& image) override {
    Tensor x = relu(conv1(image));
    x = relu(conv2(x));
    x = relu(conv3(x));
    return pixel_shuffle(conv4(x));
  }
};

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 60, .mixed = true});
  Net net(2);
  twin::init(net);
  net.to(args.device);
  nn::MSELoss criterion;
  optim::Adam optimizer(net, {.lr = 1e-3});
  amp::GradScaler scaler({.enabled = args.dtype == DType::f16});
  for (int step = 0; step < args.steps; ++step) {
    const Tensor target = twin::digits(twin::randint(10, {16})).to(args.device);
    const Tensor input = avg_pool2d(target, 2);
    optimizer.zero_grad();
    Tensor loss;
    {
      amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
      loss = criterion(net(input), target);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    if (step % 3 == 0)
      std::printf("step %d loss %.6g psnr %.6g\n", step, loss.item(), -10 * std::log10(loss.item()));
  }
}
