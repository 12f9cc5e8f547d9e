"""translation: a transformer learns a language whose sentences stand in reverse."""
import math

import torch
import torch.nn.functional as F
from torch import nn

import twin

PAD, BEGIN, END, WORDS, LENGTH, MODEL = 0, 1, 2, 20, 8, 32


class PositionalEncoding(nn.Module):
    def __init__(self):
        super().__init__()
        position = torch.arange(LENGTH + 1).to(torch.get_default_dtype()).unsqueeze(1)
        angle = position * torch.exp(torch.arange(0, MODEL, 2) * (-math.log(10000.0) / MODEL))
        self.register_buffer("table", torch.zeros(LENGTH + 1, MODEL))
        self.table[:, 0::2] = torch.sin(angle)
        self.table[:, 1::2] = torch.cos(angle)

    def forward(self, x):
        return x + self.table[:x.size(1)]


class Seq2SeqTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(
            MODEL, 4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=64, dropout=0, batch_first=True)
        self.generator = nn.Linear(MODEL, WORDS)
        self.src_tok_emb = nn.Embedding(WORDS, MODEL)
        self.tgt_tok_emb = nn.Embedding(WORDS, MODEL)
        self.positional_encoding = PositionalEncoding()

    def forward(self, src, tgt):
        src_emb = self.positional_encoding(self.src_tok_emb(src) * math.sqrt(MODEL))
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(tgt) * math.sqrt(MODEL))
        tgt_mask = torch.ones(tgt.size(1), tgt.size(1), device=tgt.device).triu(1).bool()
        output = self.transformer(
            src_emb, tgt_emb, tgt_mask=tgt_mask, src_key_padding_mask=src == PAD, tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD, tgt_is_causal=True)
        return self.generator(output)


def pairs(count):
    """Sentences of 3 to 7 words; their translations have other words, the last one first."""
    words = twin.randint(WORDS - 3, count, LENGTH)
    lengths = twin.randint(LENGTH - 3, count, 1) + 3
    position = torch.arange(LENGTH)
    reversed = words.gather(1, (lengths - 1 - position).clamp_min(0))
    translated = (reversed * 5 + 2) % (WORDS - 3) + 3
    tgt = translated.masked_fill(position == lengths, END).masked_fill(position > lengths, PAD)
    return (words + 3).masked_fill(position >= lengths, PAD), F.pad(tgt, (1, 0), value=BEGIN)


def train_step(args, model, optimizer, scaler):
    src, tgt = pairs(32)
    tgt_input, tgt_out = tgt[:, :-1], tgt[:, 1:]
    optimizer.zero_grad()
    with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
        logits = model(src.to(args.device), tgt_input.to(args.device))
        loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten().to(args.device), ignore_index=PAD)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


def greedy_decode(args, model, src):
    """Word after word, each the likeliest one."""
    words = torch.full((src.size(0), 1), BEGIN, device=args.device)
    for _ in range(LENGTH):
        logits = model(src.to(args.device), words)
        words = torch.cat([words, logits[:, -1:].argmax(-1)], dim=1)
    return words.cpu()


def main():
    args = twin.parse(steps=150, mixed=True)
    model = Seq2SeqTransformer()
    twin.init(model)
    model.to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-9)
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.dtype == torch.float16)
    for step in range(args.steps):
        loss = train_step(args, model, optimizer, scaler)
        if step % 6 == 0:
            print(f"step {step} loss {loss:.6g}")
    model.eval()
    with torch.no_grad():
        src, tgt = pairs(50)
        correct = (greedy_decode(args, model, src) == tgt)[tgt > BEGIN]
        print(f"words translated correctly {correct.float().mean().item():.3g}")


if __name__ == "__main__":
    main()
