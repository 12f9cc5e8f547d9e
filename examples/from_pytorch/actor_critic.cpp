// actor_critic: a policy learns to balance a pole on a cart, and a critic what to expect of it.
#include <mezzo/mezzo.h>

#include <algorithm>
#include <cstdio>

#include "twin.h"

using namespace mezzo;

// A cart of 1 kg with a pole of 0.1 kg and 1 m, which is pushed by 10 N to either side every 20 ms.
struct CartPole {
  double x, speed, angle, turning;

  void reset() {
    for (double* value : {&x, &speed, &angle, &turning}) *value = 0.1 * twin::next() - 0.05;
  }

  bool step(int action) {
    const double force = action == 1 ? 10.0 : -10.0;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double push = (force + 0.05 * turning * turning * sine) / 1.1;
    const double turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
    x += 0.02 * speed;
    speed += 0.02 * (push - 0.05 * turn * cosine / 1.1);
    angle += 0.02 * turning;
    turning += 0.02 * turn;
    return std::abs(x) > 2.4 || std::abs(angle) > 0.2095;
  }

  Tensor state() const { return tensor({x, speed, angle, turning}); }
};

struct Policy final : nn::Module {
  nn::Child<nn::Linear> affine1{*this, "affine1", nn::Linear(4, 128)};
  nn::Child<nn::Linear> action_head{*this, "action_head", nn::Linear(128, 2)};
  nn::Child<nn::Linear> value_head{*this, "value_head", nn::Linear(128, 1)};

  std::pair<Tensor, Tensor> forward(const Tensor& state) {
    const Tensor x = relu(affine1(state));
    return {softmax(action_head(x), -1), value_head(x)};
  }
};

// What an episode leaves to learn from.
struct Episode {
  std::vector<Tensor> log_probs, values;
  std::vector<double> rewards;
};

Episode play(const twin::Args& args, Policy& model, CartPole& cart) {
  Episode episode;
  cart.reset();
  bool done = false;
  while (!done && episode.rewards.size() < 200) {
    const auto [probs, value] = call(model, cart.state().to(args.device));
    const int action = twin::next() < probs[0].item() ? 0 : 1;
    episode.log_probs.push_back(log(probs[action]));
    episode.values.push_back(value);
    done = cart.step(action);
    episode.rewards.push_back(1.0);
  }
  return episode;
}

// The sum of all later rewards, each worth 1 % less per step, without mean and spread.
Tensor returns_of(const Episode& episode) {
  std::vector<double> values;
  double sum = 0;
  for (auto reward = episode.rewards.rbegin(); reward != episode.rewards.rend(); ++reward) {
    sum = *reward + 0.99 * sum;
    values.push_back(sum);
  }
  std::reverse(values.begin(), values.end());
  const Tensor returns = tensor(values);
  return (returns - returns.mean()) / (returns.std() + 1e-6);
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 40});
  CartPole cart{};
  Policy model;
  twin::init(model);
  model.to(args.device);
  optim::Adam optimizer(model, {.lr = 1e-2});
  for (int step = 0; step < args.steps; ++step) {
    const Episode episode = play(args, model, cart);
    const Tensor returns = returns_of(episode).to(args.device);
    const Tensor values = cat(episode.values);
    const Tensor advantage = returns - values.detach();
    const Tensor policy_loss = -(stack(episode.log_probs) * advantage).sum();
    const Tensor loss = policy_loss + smooth_l1_loss(values, returns, Reduction::sum);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::printf("step %d loss %.6g length %d\n", step, loss.item(), static_cast<int>(episode.rewards.size()));
  }
}
