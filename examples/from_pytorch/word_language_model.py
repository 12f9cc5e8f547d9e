"""word_language_model: an LSTM learns which word follows."""
import torch
import torch.nn.functional as F
from torch import nn

import twin

WORDS, EMBEDDING, HIDDEN, LAYERS, BATCH, STEPS = 50, 32, 64, 2, 16, 20


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = twin.Dropout(0.2)
        self.encoder = nn.Embedding(WORDS, EMBEDDING)
        self.rnn = nn.LSTM(EMBEDDING, HIDDEN, num_layers=LAYERS)
        self.decoder = nn.Linear(HIDDEN, WORDS)

    def forward(self, input, hidden):
        embedded = self.drop(self.encoder(input))
        output, state = self.rnn(embedded, hidden)
        return self.decoder(self.drop(output)).view(-1, WORDS), state


def corpus(length):
    """Sentences: after each word three others may come, of which the first comes most often."""
    followers = twin.randint(WORDS, WORDS, 3).tolist()
    choices = twin.randint(6, length).tolist()
    words = [0]
    for choice in choices:
        words.append(followers[words[-1]][0 if choice < 4 else choice - 3])
    return torch.tensor(words)


def batchify(data):
    rows = data.numel() // BATCH
    return data.narrow(0, 0, rows * BATCH).view(BATCH, rows).t().contiguous()


def repackage_hidden(hidden):
    return tuple(state.detach() for state in hidden)


def main():
    args = twin.parse(steps=100, mixed=True)
    data = batchify(corpus(20000)).to(args.device)
    model = Model()
    twin.init(model)
    model.to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.dtype == torch.float16)
    hidden = None
    for step in range(args.steps):
        at = step * STEPS % (data.size(0) - STEPS)
        input = data[at:at + STEPS]
        target = data[at + 1:at + 1 + STEPS].flatten()
        optimizer.zero_grad()
        with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
            output, state = model(input, hidden)
            loss = F.cross_entropy(output, target)
            hidden = repackage_hidden(state)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        scaler.step(optimizer)
        scaler.update()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.6g} perplexity {loss.exp().item():.6g}")


if __name__ == "__main__":
    main()
