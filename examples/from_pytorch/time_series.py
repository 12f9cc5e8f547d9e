"""time_series: LSTM cells learn sine waves, and go on with them alone."""
import torch
from torch import nn

import twin


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 16)
        self.lstm2 = nn.LSTMCell(16, 16)
        self.linear = nn.Linear(16, 1)

    def forward(self, input, future=0):
        outputs = []
        state1 = state2 = None

        def next(x):
            nonlocal state1, state2
            state1 = self.lstm1(x, state1)
            state2 = self.lstm2(state1[0], state2)
            outputs.append(self.linear(state2[0]))

        for x in input.split(1, dim=1):
            next(x)
        for _ in range(future):
            next(outputs[-1])
        return torch.cat(outputs, dim=1)


def waves(count, length):
    """Waves of one frequency that begin anywhere."""
    start = twin.rand(count, 1) * 80
    return torch.sin((torch.arange(length).to(start.dtype) + start) / 4)


def main():
    args = twin.parse(steps=40)
    data = waves(15, 41).to(args.device)
    input, target = data[3:, :-1], data[3:, 1:]
    test_input, test_target = data[:3, :20], data[:3, 1:]
    sequence = Sequence()
    twin.init(sequence)
    sequence.to(args.device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(sequence.parameters(), lr=1e-2)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = criterion(sequence(input), target)
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step} loss {loss.item():.6g}")
    with torch.no_grad():
        prediction = sequence(test_input, future=20)
        print(f"test loss {criterion(prediction, test_target).item():.6g}")


if __name__ == "__main__":
    main()
