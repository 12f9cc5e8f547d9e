"""lbfgs_regression: a small net learns a curve from noisy points by L-BFGS, from all of them at a time."""
import torch
from torch import nn

import twin


def curve(x):
    return torch.sin(3 * x) + 0.5 * x


def main():
    args = twin.parse(steps=12)
    x = (twin.rand(100, 1) * 4 - 2).to(args.device)
    y = curve(x) + 0.1 * twin.randn(100, 1).to(args.device)
    net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
    twin.init(net)
    net.to(args.device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        return loss

    for step in range(args.steps):
        loss = optimizer.step(closure)
        print(f"step {step} loss {loss.item():.6g}")
    with torch.no_grad():
        grid = (torch.arange(81).to(x.dtype) / 20 - 2).view(-1, 1).to(args.device)
        print(f"test loss {criterion(net(grid), curve(grid)).item():.6g}")


if __name__ == "__main__":
    main()
