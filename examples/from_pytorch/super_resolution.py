"""super_resolution: a sub-pixel convolution net doubles the size of pictures."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import twin


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 16, 3, padding=1)
        self.conv4 = nn.Conv2d(16, upscale_factor * upscale_factor, 3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)

    def forward(self, image):
        x = F.relu(self.conv1(image))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x))
        return self.pixel_shuffle(self.conv4(x))


def main():
    args = twin.parse(steps=60, mixed=True)
    net = Net(2)
    twin.init(net)
    net.to(args.device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.dtype == torch.float16)
    for step in range(args.steps):
        target = twin.digits(twin.randint(10, 16)).to(args.device)
        input = F.avg_pool2d(target, 2)
        optimizer.zero_grad()
        with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
            loss = criterion(net(input), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 3 == 0:
            print(f"step {step} loss {loss.item():.6g} psnr {-10 * math.log10(loss.item()):.6g}")


if __name__ == "__main__":
    main()
