"""actor_critic: a policy learns to balance a pole on a cart, and a critic what to expect of it."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import twin


class CartPole:
    """A cart of 1 kg with a pole of 0.1 kg and 1 m, which is pushed by 10 N to either side every 20 ms."""

    def reset(self):
        self.x, self.speed, self.angle, self.turning = (0.1 * twin.next() - 0.05 for _ in range(4))

    def step(self, action):
        force = 10.0 if action == 1 else -10.0
        sine, cosine = math.sin(self.angle), math.cos(self.angle)
        push = (force + 0.05 * self.turning * self.turning * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
        self.x += 0.02 * self.speed
        self.speed += 0.02 * (push - 0.05 * turn * cosine / 1.1)
        self.angle += 0.02 * self.turning
        self.turning += 0.02 * turn
        return abs(self.x) > 2.4 or abs(self.angle) > 0.2095

    def state(self):
        return torch.tensor([self.x, self.speed, self.angle, self.turning])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.action_head = nn.Linear(128, 2)
        self.value_head = nn.Linear(128, 1)

    def forward(self, state):
        x = F.relu(self.affine1(state))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


class Episode:
    """What an episode leaves to learn from."""

    def __init__(self):
        self.log_probs, self.values = [], []
        self.rewards = []


def play(args, model, cart):
    episode = Episode()
    cart.reset()
    done = False
    while not done and len(episode.rewards) < 200:
        probs, value = model(cart.state().to(args.device))
        action = 0 if twin.next() < probs[0].item() else 1
        episode.log_probs.append(torch.log(probs[action]))
        episode.values.append(value)
        done = cart.step(action)
        episode.rewards.append(1.0)
    return episode


def returns_of(episode):
    """The sum of all later rewards, each worth 1 % less per step, without mean and spread."""
    values = []
    total = 0
    for reward in reversed(episode.rewards):
        total = reward + 0.99 * total
        values.append(total)
    values.reverse()
    returns = torch.tensor(values)
    return (returns - returns.mean()) / (returns.std() + 1e-6)


def main():
    args = twin.parse(steps=40)
    cart = CartPole()
    model = Policy()
    twin.init(model)
    model.to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        episode = play(args, model, cart)
        returns = returns_of(episode).to(args.device)
        values = torch.cat(episode.values)
        advantage = returns - values.detach()
        policy_loss = -(torch.stack(episode.log_probs) * advantage).sum()
        loss = policy_loss + F.smooth_l1_loss(values, returns, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6g} length {len(episode.rewards)}")


if __name__ == "__main__":
    main()
