// vae: a variational autoencoder learns to draw digits.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

struct VAE final : nn::Module {
  nn::Child<nn::Linear> fc1{*this, "fc1", nn::Linear(784, 128)};
  nn::Child<nn::Linear> fc21{*this, "fc21", nn::Linear(128, 10)};
  nn::Child<nn::Linear> fc22{*this, "fc22", nn::Linear(128, 10)};
  nn::Child<nn::Linear> fc3{*this, "fc3", nn::Linear(10, 128)};
  nn::Child<nn::Linear> fc4{*this, "fc4", nn::Linear(128, 784)};

  std::pair<Tensor, Tensor> encode(const Tensor& x) {
    const Tensor h1 = relu(fc1(x));
    return {fc21(h1), fc22(h1)};
  }

  Tensor reparameterize(const Tensor& mu, const Tensor& logvar) {
    const Tensor std = exp(0.5 * logvar);
    const Tensor eps = twin::randn(std.shape()).to(std.device());
    return mu + eps * std;
  }

  Tensor decode(const Tensor& z) {
    const Tensor h3 = relu(fc3(z));
    return sigmoid(fc4(h3));
  }

  std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& x) {
    const auto [mu, logvar] = encode(x.view({-1, 784}));
    const Tensor z = reparameterize(mu, logvar);
    return {decode(z), mu, logvar};
  }
};

// How far the picture is from the one that was encoded, and the code from a normal one.
Tensor loss_function(const Tensor& recon_x, const Tensor& x, const Tensor& mu, const Tensor& logvar) {
  const Tensor bce = binary_cross_entropy(recon_x, x.view({-1, 784}), Reduction::sum);
  const Tensor kld = -0.5 * sum(1 + logvar - square(mu) - exp(logvar));
  return bce + kld;
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 60});
  VAE model;
  twin::init(model);
  model.to(args.device);
  optim::Adam optimizer(model, {.lr = 1e-3});
  for (int step = 0; step < args.steps; ++step) {
    const Tensor data = twin::digits(twin::randint(10, {32})).to(args.device);
    optimizer.zero_grad();
    const auto [recon, mu, logvar] = call(model, data);
    const Tensor loss = loss_function(recon, data, mu, logvar);
    loss.backward();
    optimizer.step();
    if (step % 3 == 0) std::printf("step %d loss %.6g\n", step, loss.item() / 32);
  }
}
