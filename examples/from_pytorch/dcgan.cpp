// dcgan: a generator learns to draw digits that a discriminator takes for real ones.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

constexpr int kBatch = 16, kLatent = 32, kFeatures = 8;

struct NetG final : nn::Layer {
  nn::Child<nn::Sequential> main{
      *this, "main",
      nn::Sequential{
          nn::ConvTranspose2d(kLatent, 2 * kFeatures, 7, {.bias = false}), nn::BatchNorm2d(2 * kFeatures),
          nn::ReLU(),  // 16 x 7 x 7
          nn::ConvTranspose2d(2 * kFeatures, kFeatures, 4, {.stride = 2, .padding = 1, .bias = false}),
          nn::BatchNorm2d(kFeatures), nn::ReLU(),  // 8 x 14 x 14
          nn::ConvTranspose2d(kFeatures, 1, 4, {.stride = 2, .padding = 1, .bias = false}), nn::Sigmoid()}};

  Tensor forward(const Tensor& noise) override { return main(noise); }
};

struct NetD final : nn::Layer {
  nn::Child<nn::Sequential> main{
      *this, "main",
      nn::Sequential{nn::Conv2d(1, kFeatures, 4, {.stride = 2, .padding = 1, .bias = false}),
                     nn::LeakyReLU(0.2),  // 8 x 14 x 14
                     nn::Conv2d(kFeatures, 2 * kFeatures, 4, {.stride = 2, .padding = 1, .bias = false}),
                     nn::BatchNorm2d(2 * kFeatures), nn::LeakyReLU(0.2),  // 16 x 7 x 7
                     nn::Conv2d(2 * kFeatures, 1, 7, {.bias = false})}};

  Tensor forward(const Tensor& image) override { return main(image).flatten(); }
};

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 40, .mixed = true});
  NetG generator;
  NetD discriminator;
  twin::init(generator);
  twin::init(discriminator);
  generator.to(args.device);
  discriminator.to(args.device);
  nn::BCEWithLogitsLoss criterion;
  optim::Adam optimizer_g(generator, {.lr = 2e-4, .beta1 = 0.5});
  optim::Adam optimizer_d(discriminator, {.lr = 2e-4, .beta1 = 0.5});
  amp::GradScaler scaler({.enabled = args.dtype == DType::f16});
  const Tensor real_label = ones({kBatch}, args.device), fake_label = zeros({kBatch}, args.device);

  for (int step = 0; step < args.steps; ++step) {
    // The discriminator: log(D(x)) + log(1 - D(G(z))) shall grow.
    const Tensor real = twin::digits(twin::randint(10, {kBatch})).to(args.device);
    const Tensor noise = twin::randn({kBatch, kLatent, 1, 1}).to(args.device);
    optimizer_d.zero_grad();
    Tensor fake, loss_d, loss_g;
    {
      amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
      fake = generator(noise);
      loss_d =
          criterion(discriminator(real), real_label) + criterion(discriminator(fake.detach()), fake_label);
    }
    scaler.scale(loss_d).backward();
    scaler.step(optimizer_d);

    // The generator: log(D(G(z))) shall grow.
    optimizer_g.zero_grad();
    {
      amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
      loss_g = criterion(discriminator(fake), real_label);
    }
    scaler.scale(loss_g).backward();
    scaler.step(optimizer_g);
    scaler.update();
    if (step % 2 == 0) std::printf("step %d loss_d %.6g loss_g %.6g\n", step, loss_d.item(), loss_g.item());
  }
}
