// A Wasserstein GAN with gradient penalty in mixed precision: learns points of the plane, or MNIST's digits,
// and ends with a critic whose gradient is 1 long between real samples and generated ones.
#include <fmt/format.h>
#include <mezzo/data.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <string>
#include <vector>

#include "../command_line.h"
#include "model.h"

namespace {

using namespace mezzo;

struct Options {
  TrainingOptions run{.steps = 4000};
  std::string shape = "ring", samples;
  std::int64_t batch_size = 64, width = 64, critic_steps = 2;
  double lr = 1e-3, penalty = 0;
};

void add_options(CLI::App& app, Options& o) {
  add_training_options(app, o.run, "folder with MNIST's files, as they are or gzipped; else points");
  add_option(app, "--shape", o.shape, "of the points: ring (of eight Gaussians) or swiss_roll");
  add_option(app, "--batch-size", o.batch_size, "samples per step");
  add_option(app, "--width", o.width, "of the networks for points");
  add_option(app, "--critic-steps", o.critic_steps, "steps of the critic for one of the generator");
  add_option(app, "--lr", o.lr, "learning rate of both Adams");
  add_option(app, "--penalty", o.penalty, "weight of the gradient penalty; 0: 1 for points, 10 for digits");
  add_option(app, "--samples", o.samples, "write generated samples to this file, for numpy.load");
}

/// [count, 2], about 1 from the origin at most.
Tensor points(const std::string& shape, std::int64_t count) {
  Generator generator(1);
  const Tensor noise = randn({count, 2}, {}, generator);
  if (shape == "ring") {
    const Tensor angle = randint(0, 8, {count}, {.dtype = DType::f32}, generator) * (std::numbers::pi / 4);
    return stack({cos(angle), sin(angle)}, 1) + 0.05 * noise;
  }
  require(shape == "swiss_roll", "wgan_gp", "--shape ring or swiss_roll", shape, "choose one of them");
  const Tensor angle = 1.5 * std::numbers::pi * (1 + 2 * rand({count}, {}, generator));
  return stack({angle * cos(angle), angle * sin(angle)}, 1) / (4.5 * std::numbers::pi) + 0.02 * noise;
}

Tensor real_samples(const Options& o) {
  if (o.run.data.empty()) return points(o.shape, 8192);
  const auto has = [&](const char* name) { return std::filesystem::exists(o.run.data + name); };
  const bool train = has("/train-images-idx3-ubyte") || has("/train-images-idx3-ubyte.gz");
  return data::MNIST(o.run.data, {.train = train}).images().to(DType::f32) / 127.5 - 1;
}

/// Networks with what trains them.
struct Training {
  wgan::Networks nets;
  const Options& options;
  Setting setting;
  double penalty = options.penalty > 0 ? options.penalty : options.run.data.empty() ? 1 : 10;
  // The critic's loss has gradients of gradients in it: each network has a scale of its own.
  amp::GradScaler critic_scaler{{.enabled = setting.dtype == DType::f16}};
  amp::GradScaler generator_scaler{{.enabled = setting.dtype == DType::f16}};
  optim::Adam critic_optimizer{*nets.critic, {.lr = options.lr, .beta1 = 0, .beta2 = 0.9}};
  optim::Adam generator_optimizer{*nets.generator, {.lr = options.lr, .beta1 = 0, .beta2 = 0.9}};

  // Rates that fall to 0 let the game between the two come to rest.
  optim::PolynomialLR critic_schedule{critic_optimizer,
                                      {.total_iters = std::max<std::int64_t>(options.run.steps, 1)}};
  optim::PolynomialLR generator_schedule{generator_optimizer,
                                         {.total_iters = options.run.steps / options.critic_steps + 1}};

  [[nodiscard]] Tensor generated(std::int64_t count, Generator& random = default_generator()) const {
    const amp::Autocast autocast = setting.autocast();
    const Tensor noise = randn({count, wgan::kNoise}, {.device = setting.device}, random);
    return (*nets.generator)(noise).to(DType::f32);
  }

  [[nodiscard]] wgan::CriticLoss step_critic(const Tensor& real) {
    const Tensor made = generated(real.size(0)).detach();
    wgan::CriticLoss result = wgan::critic_loss(*nets.critic, real, made, penalty, critic_scaler, setting);
    critic_scaler.scale(result.loss).backward();
    critic_schedule.step(critic_scaler.step(critic_optimizer));
    critic_scaler.update();
    critic_optimizer.zero_grad();
    return result;
  }

  void step_generator() {
    nets.critic->requires_grad_(false);
    Tensor loss;
    {
      const amp::Autocast autocast = setting.autocast();
      loss = -wgan::mean_score(*nets.critic, generated(options.batch_size));
    }
    nets.critic->requires_grad_();
    generator_scaler.scale(loss).backward();
    generator_schedule.step(generator_scaler.step(generator_optimizer));
    generator_scaler.update();
    generator_optimizer.zero_grad();
  }
};

/// Measures in f32, prints, and returns the mean length of the critic's gradient. The energy distance is 0
/// for equal distributions: Szekely and Rizzo, "Energy statistics", 2013.
double print_state(const Training& training, const Tensor& samples, std::int64_t step) {
  Generator random(7);
  const NoGrad no_grad;
  const Tensor some = narrow(samples, 0, 0, std::min<std::int64_t>(samples.size(0), 1024));
  const Tensor real = some.to(training.setting.device), made = training.generated(some.size(0), random);
  const Tensor a = some.flatten(1), b = made.flatten(1).to(Device::cpu());
  const double energy = (2 * mean(cdist(a, b)) - mean(cdist(a, a)) - mean(cdist(b, b))).item();
  amp::GradScaler none({.enabled = false});
  const EnableGrad enable_grad;
  const Setting f32{training.setting.device, DType::f32};
  const double norm = mean(wgan::gradient_norms(*training.nets.critic, wgan::interpolates(real, made, random),
                                                none, f32, false))
                          .item();
  fmt::print("step {}: gradient norm {:.3f}, energy distance {:.4f}\n", step, norm, energy);
  return norm;
}

void run(const Options& o) {
  const Setting setting = setting_of("wgan_gp", o.run);
  require(o.critic_steps > 0, "wgan_gp", "--critic-steps of 1 or more", std::to_string(o.critic_steps),
          "pass 5");
  manual_seed(o.run.seed);
  const Tensor samples = real_samples(o);
  const wgan::Networks nets = o.run.data.empty() ? wgan::point_networks(o.width) : wgan::digit_networks();
  nets.generator->to(setting.device);
  nets.critic->to(setting.device);
  Training training{.nets = nets, .options = o, .setting = setting};
  const data::TensorDataset dataset(samples);
  data::DataLoader loader(dataset, {.batch_size = o.batch_size,
                                    .shuffle = true,
                                    .drop_last = true,
                                    .seed = o.run.seed,
                                    .device = setting.device});
  std::int64_t step = 0;
  TrainingRun run(o.run,
                  {{"generator", *nets.generator},
                   {"critic", *nets.critic},
                   {"generator_optimizer", training.generator_optimizer},
                   {"critic_optimizer", training.critic_optimizer},
                   {"generator_schedule", training.generator_schedule},
                   {"critic_schedule", training.critic_schedule},
                   {"generator_scaler", training.generator_scaler},
                   {"critic_scaler", training.critic_scaler},
                   {"loader", loader}},
                  step, "WGAN-GP");
  fmt::print("WGAN-GP: generator of {} parameters, critic of {}, {} samples of {}, {} on {}\n",
             nets.generator->num_parameters(), nets.critic->num_parameters(), samples.size(0),
             to_string(samples[0].shape()), o.run.precision, to_string(setting.device));
  print_state(training, samples, step);
  while (!run.is_done()) {
    for (const Tensor& real : loader) {
      const wgan::CriticLoss critic = training.step_critic(real);
      if ((step + 1) % o.critic_steps == 0) training.step_generator();
      run.end_step({{"critic_loss", critic.loss},
                    {"distance", critic.distance},
                    {"gradient_norm", critic.gradient_norm},
                    {"scale", training.critic_scaler.scale_tensor()}});
      if (run.is_done()) break;
    }
  }
  const double norm = print_state(training, samples, step);
  if (!o.samples.empty()) {
    const NoGrad no_grad;
    io::write_npy(o.samples, training.generated(1024));
  }
  if (run.is_stopped()) return;
  if (std::abs(norm - 1) > 0.15)
    throw StateError("wgan_gp", "a gradient norm of 1 +- 0.15 at the end", fmt::format("{:.3f}", norm),
                     "train for more --steps");
  fmt::print("reached: the critic's gradient norm is 1 +- 0.15\n");
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, "wgan_gp",
                     "Trains a Wasserstein GAN with gradient penalty on points of the plane or on digits.",
                     add_options, run);
}
