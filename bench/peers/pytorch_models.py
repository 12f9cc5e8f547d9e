"""The networks of bench/cases/models.h, most of which are the examples', and their training steps for the peer PyTorch,
eager and by torch.compile."""
import contextlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions[:x.shape[1]])))


class CheckpointedGpt(Gpt):
    def forward(self, x):
        x = self.tokens(x) + self.positions
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


class LstmNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 256), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][-1])


class ResidualBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv_1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm_1 = nn.BatchNorm2d(out)
        self.conv_2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm_2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or into != out:
            self.shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norm_1(self.conv_1(x)))
        return F.relu(self.norm_2(self.conv_2(y)) + self.shortcut(x))


def resnet18(width=64):
    parts, into = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for out in (width, 2 * width, 4 * width, 8 * width):
        parts += [ResidualBlock(into, out, 1 if out == width else 2), ResidualBlock(out, out, 1)]
        into = out
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


def resnet9(width=64):
    parts, into = [], 3
    for out in (width, 2 * width, 4 * width, 8 * width):
        parts += [nn.Conv2d(into, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if out != width else []
        parts += [ResidualBlock(out, out, 1)] if out in (2 * width, 8 * width) else []
        into = out
    return nn.Sequential(*parts, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


def conv_net():
    parts = []
    for into, out in ((1, 16), (16, 32)):
        parts += [nn.Conv2d(into, out, 3, padding=1), nn.GroupNorm(4, out), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def mlp(sizes):
    parts = []
    for into, out in zip(sizes, sizes[1:]):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Training:
    """A model with what a step of it needs. mode: f32, bf16, f16_scaler, each also with _compiled."""

    def __init__(self, net, inputs, target, with_adamw, mode, device):
        net = net.to(device)
        self.optimizer = (torch.optim.AdamW(net.parameters(), lr=1e-3) if with_adamw else
                          torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9))
        self.net = torch.compile(net) if mode.endswith("_compiled") else net
        self.input, self.target, self.device = inputs, target, device
        self.dtype = torch.bfloat16 if mode.startswith("bf16") else torch.float16 if mode.startswith("f16") else None
        self.scaler = torch.amp.GradScaler(device.type, enabled="scaler" in mode)

    def step(self):
        with torch.autocast(self.device.type, self.dtype) if self.dtype else contextlib.nullcontext():
            y = self.net(self.input)
            loss = (F.mse_loss(y, self.target) if self.target.is_floating_point() else
                    F.cross_entropy(y.reshape(-1, y.shape[-1]), self.target))
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


class SequenceLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(128, 128)

    def forward(self, x):
        return self.lstm(x)[0]


def sequences(batch):
    """Training on sequences of 20 to 399 places."""
    def step(net, optimizer, i):
        net(torch.randn(20 + 97 * i % 380, batch, 128)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


@torch.no_grad()
def images(net, _optimizer, i):
    pixels = 20 + 337 * i % 1000
    net(torch.randn(1, 3, pixels, pixels))


class VaryingSizes:
    """Steps whose sizes vary, for the memory. A call is 80."""

    def __init__(self, net, step):
        self.net, self.step, self.i = net, step, 0
        self.optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def steps(self):
        for _ in range(80):
            self.step(self.net, self.optimizer, self.i)
            self.i += 1


class Loop:
    """A model of the examples trained from a DataLoader, as a loop is written. A call is 8 steps."""

    def __init__(self, net, inputs, targets, batch, mode, device):
        self.training = Training(net, None, None, True, mode, device)
        self.loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=batch, shuffle=True)
        self.batches = iter(self.loader)

    def step(self, images, targets):
        training = self.training
        training.optimizer.zero_grad()
        if images.dim() == 4:
            images = images.to(memory_format=torch.channels_last)
        images, targets = images.to(training.device), targets.to(training.device)
        with torch.autocast(training.device.type, training.dtype) if training.dtype else contextlib.nullcontext():
            y = training.net(images)
            loss = F.cross_entropy(y.reshape(-1, y.shape[-1]), targets.reshape(-1))
        training.scaler.scale(loss).backward()
        training.scaler.unscale_(training.optimizer)
        torch.nn.utils.clip_grad_norm_(training.net.parameters(), 1.0)
        training.scaler.step(training.optimizer)
        training.scaler.update()

    def run(self):
        for _ in range(8):
            try:
                batch = next(self.batches)
            except StopIteration:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            self.step(*batch)


def loop_cases(device):
    """Of bench/cases/trainer.cpp those with the names of examples."""
    def tokens():
        return torch.randint(256, (32 * 8, 128))

    def last(net):
        return net.to(memory_format=torch.channels_last)

    def classes(count):
        return torch.randint(10, (count,))

    parts = {"mnist_cnn": lambda: (last(conv_net()), torch.randn(32 * 64, 1, 28, 28), classes(32 * 64), 64),
             "char_gpt": lambda: (Gpt(4, 128, 4, 128), tokens(), tokens(), 8),
             "cifar_resnet": lambda: (last(resnet18()), torch.randn(32 * 16, 3, 32, 32), classes(32 * 16), 16)}
    return {f"{name}_loop/{mode}": lambda part=part, mode=mode: Loop(*part(), mode, device).run
            for name, part in parts.items()
            for mode in ("f32", "bf16", "f16_scaler", "f32_compiled", "bf16_compiled")}


def model_cases(device):
    """What makes the body of each case, by name."""
    def normal(*shape):
        return torch.randn(shape, device=device)

    def classes(count, *shape):
        return torch.randint(count, shape, device=device)

    def last(x):
        return x.to(memory_format=torch.channels_last)

    def mlp_parts(sizes, batch):
        return lambda: (mlp(sizes), normal(batch, sizes[0]), normal(batch, sizes[-1]), False)

    def gpt_parts(layers, width, heads, context, batch, make=Gpt):
        return lambda: (make(layers, width, heads, context), classes(256, batch, context), classes(256, batch * context), True)

    models = {"mlp_8_16_16_1": mlp_parts((8, 16, 16, 1), 512), "mlp_784_512_512_10": mlp_parts((784, 512, 512, 10), 128),
              "mlp_4096": mlp_parts((4096,) * 4, 128), "gpt_4x128": gpt_parts(4, 128, 4, 128, 8),
              "gpt_6x384": gpt_parts(6, 384, 6, 256, 4),
              "gpt_12x256": gpt_parts(12, 256, 8, 256, 8),
              "gpt_12x256_checkpointed": gpt_parts(12, 256, 8, 256, 8, CheckpointedGpt),
              "conv_net": lambda: (conv_net(), normal(128, 1, 28, 28), classes(10, 128), False),
              "conv_net_channels_last": lambda: (last(conv_net()), last(normal(128, 1, 28, 28)), classes(10, 128), False),
              "resnet18": lambda: (resnet18(), normal(16, 3, 32, 32), classes(10, 16), False),
              "resnet18_channels_last": lambda: (last(resnet18()), last(normal(16, 3, 32, 32)), classes(10, 16), False),
              "resnet18_batch_128": lambda: (resnet18(), normal(128, 3, 32, 32), classes(10, 128), False),
              "resnet9_channels_last": lambda: (last(resnet9()), last(normal(16, 3, 32, 32)), classes(10, 16), False),
              "lstm": lambda: (LstmNet(), normal(64, 32, 64), classes(10, 32), True)}
    varying = {"lstm_lengths": lambda: VaryingSizes(SequenceLstm(), sequences(16)),
               "transformer_lengths": lambda: VaryingSizes(nn.TransformerEncoderLayer(128, 4), sequences(4)),
               "convolutions_sizes": lambda: VaryingSizes(nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)), images)}
    for batch in (1, 8, 32):
        models[f"policy_batch_{batch}"] = mlp_parts((8, 64, 64, 4), batch)
    return {f"{name}/{mode}": lambda parts=parts, mode=mode: Training(*parts(), mode, device).step
            for name, parts in models.items()
            for mode in ("f32", "bf16", "f16_scaler", "f32_compiled", "bf16_compiled", "f16_scaler_compiled")} | {
                f"{name}/f32": lambda make=make: make().steps for name, make in varying.items()}
