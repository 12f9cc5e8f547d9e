"""mnist: a convolution net learns to read digits."""
import torch
import torch.nn.functional as F
from torch import nn

import twin


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout1 = twin.Dropout(0.25)
        self.dropout2 = twin.Dropout(0.5)
        self.fc1 = nn.Linear(2304, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, image):
        x = F.relu(self.conv1(image))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, net):
    optimizer = torch.optim.Adadelta(net.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.7)
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.dtype == torch.float16)
    for step in range(args.steps):
        target = twin.randint(10, 64)
        data = twin.digits(target).to(args.device)
        optimizer.zero_grad()
        with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
            loss = F.nll_loss(net(data), target.to(args.device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.6g}")


@torch.no_grad()
def test(args, net):
    net.eval()
    target = twin.randint(10, 200)
    output = net(twin.digits(target).to(args.device)).cpu()
    correct = (output.argmax(1) == target).sum()
    print(f"test loss {F.nll_loss(output, target).item():.6g} correct {correct.item():g}")


def main():
    args = twin.parse(steps=80, mixed=True)
    net = Net()
    twin.init(net)
    net.to(args.device)
    train(args, net)
    test(args, net)


if __name__ == "__main__":
    main()
