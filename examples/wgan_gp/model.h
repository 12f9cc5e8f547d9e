// A Wasserstein GAN with gradient penalty: generators and critics for points of the plane and for digits, and
// the critic's loss under autocast and GradScaler. Source: Gulrajani et al., "Improved training of
// Wasserstein GANs", 2017.
#pragma once

#include <mezzo/mezzo.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../training_options.h"

namespace wgan {

using namespace mezzo;

/// What a generator makes samples of, [batch, kNoise].
constexpr std::int64_t kNoise = 32;

struct Networks {
  std::shared_ptr<nn::Sequential> generator, critic;
};

/// Layers in the order in which they are made and so draw their first weights.
using Layers = std::vector<std::shared_ptr<nn::Layer>>;
using nn::make;

/// For points [batch, 2].
inline Networks point_networks(std::int64_t width) {
  return {make<nn::Sequential>(Layers{make<nn::Linear>(kNoise, width), make<nn::ReLU>(),
                                      make<nn::Linear>(width, width), make<nn::ReLU>(),
                                      make<nn::Linear>(width, 2)}),
          make<nn::Sequential>(Layers{make<nn::Linear>(2, width), make<nn::LeakyReLU>(0.2),
                                      make<nn::Linear>(width, width), make<nn::LeakyReLU>(0.2),
                                      make<nn::Linear>(width, width), make<nn::LeakyReLU>(0.2),
                                      make<nn::Linear>(width, 1)})};
}

/// For images [batch, 1, 28, 28] of values in [-1, 1]. The critic has no norms over the batch, in which the
/// gradient of one sample would depend on the others.
inline Networks digit_networks() {
  return {make<nn::Sequential>(Layers{
              make<nn::Linear>(kNoise, 64 * 7 * 7), make<nn::ReLU>(), make<nn::Unflatten>(1, Shape{64, 7, 7}),
              make<nn::ConvTranspose2d>(64, 32, 4, {.stride = 2, .padding = 1}), make<nn::ReLU>(),
              make<nn::ConvTranspose2d>(32, 1, 4, {.stride = 2, .padding = 1}), make<nn::Tanh>()}),
          make<nn::Sequential>(
              Layers{make<nn::Conv2d>(1, 32, 4, {.stride = 2, .padding = 1}), make<nn::LeakyReLU>(0.2),
                     make<nn::Conv2d>(32, 64, 4, {.stride = 2, .padding = 1}), make<nn::LeakyReLU>(0.2),
                     make<nn::Flatten>(), make<nn::Linear>(64 * 7 * 7, 1)})};
}

/// A point on the line between each real sample and a generated one, which requires a gradient.
inline Tensor interpolates(const Tensor& real, const Tensor& made,
                           Generator& generator = default_generator()) {
  Shape shape(static_cast<std::size_t>(real.dim()), 1);
  shape[0] = real.size(0);
  const Tensor share = rand(shape, {.device = real.device()}, generator);
  return (made + share * (real - made)).detach().requires_grad_();
}

/// In f32: a mean of f16 scores would be rounded to f16.
inline Tensor mean_score(nn::Sequential& critic, const Tensor& x) { return mean(critic(x).to(DType::f32)); }

/// The length of the critic's gradient at each sample of x: [batch], with a history if `create_graph`. The
/// gradient of the mean, which f16 holds at any usual scale; that of the sum would overflow at first.
inline Tensor gradient_norms(nn::Sequential& critic, const Tensor& x, amp::GradScaler& scaler,
                             const Setting& setting, bool create_graph) {
  Tensor score;
  {
    const amp::Autocast autocast = setting.autocast();
    score = mean_score(critic, x);
  }
  const std::vector<Tensor> scaled{scaler.scale(score)}, inputs{x};
  const Tensor gradient = grad(scaled, inputs, {}, {.create_graph = create_graph})[0];
  // No optimizer owns it, so it is unscaled by a product, which has a history like everything else.
  const Tensor unscaled = gradient.flatten(1) * (scaler.inv_scale_tensor() * static_cast<double>(x.size(0)));
  return sqrt(sum(square(unscaled), 1) + 1e-12);  // a root of 0 has no gradient
}

struct CriticLoss {
  Tensor loss;
  Tensor distance;       ///< mean score of real samples - that of generated ones
  Tensor gradient_norm;  ///< mean over the interpolates
};

/// penalty * mean((norm of the gradient - 1)^2) - distance.
inline CriticLoss critic_loss(nn::Sequential& critic, const Tensor& real, const Tensor& made, double penalty,
                              amp::GradScaler& scaler, const Setting& setting) {
  Tensor distance;
  {
    const amp::Autocast autocast = setting.autocast();
    distance = mean_score(critic, real) - mean_score(critic, made);
  }
  const Tensor norms = gradient_norms(critic, interpolates(real, made), scaler, setting, true);
  return {penalty * mean(square(norms - 1)) - distance, distance, mean(norms)};
}

}  // namespace wgan
