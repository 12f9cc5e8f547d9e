"""physics_informed: a net becomes the solution of a differential equation by its own second derivatives."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import twin


def solution(x):
    return torch.sin(2 * math.pi * x)


def right_side(x):
    angle = 2 * math.pi * x
    return -(4 * math.pi * math.pi + 2) * torch.sin(angle) + 2 * math.pi * torch.cos(angle)


def derivative(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(net, x):
    """How far the net is from solving u'' + u' - 2 u = f at these points."""
    u = net(x)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_xx + u_x - 2 * u - right_side(x)


def main():
    args = twin.parse(steps=300)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    twin.init(net)
    net.to(args.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    ends = torch.tensor([[0.0], [1.0]]).to(args.device)
    for step in range(args.steps):
        x = twin.rand(64, 1).to(args.device).requires_grad_()
        optimizer.zero_grad()
        equation = residual(net, x).square().mean()
        boundary = F.mse_loss(net(ends), solution(ends))
        loss = equation + 100 * boundary
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.6g} boundary {boundary.item():.6g}")
    with torch.no_grad():
        x = (torch.arange(101).to(ends.dtype) / 100).view(-1, 1).to(args.device)
        print(f"error {(net(x) - solution(x)).abs().max().item():.6g}")


if __name__ == "__main__":
    main()
