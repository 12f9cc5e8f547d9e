"""siamese: two pictures through one net, which learns whether they show the same digit."""
import torch
from torch import nn

import twin


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, input1, input2):
        output1 = self.cnn(input1)
        output2 = self.cnn(input2)
        return self.fc(torch.cat([output1, output2], dim=1)).squeeze(1)


def main():
    args = twin.parse(steps=60)
    model = SiameseNetwork()
    twin.init(model)
    model.to(args.device)
    criterion = nn.BCELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        # Every other pair is of one digit.
        labels1 = twin.randint(3, 32)
        others = (labels1 + 1 + twin.randint(2, 32)) % 3
        target = (torch.arange(32) % 2 == 0).to(args.device, torch.get_default_dtype())
        labels2 = torch.where(target.cpu() == 1, labels1, others)
        images1 = twin.digits(labels1).to(args.device)
        images2 = twin.digits(labels2).to(args.device)
        optimizer.zero_grad()
        output = model(images1, images2)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(f"step {step} loss {loss.item():.6g}")


if __name__ == "__main__":
    main()
