"""What the twins share with the programs in C++ (twin.h): flags, random numbers that both draw alike, first values of
parameters, and pictures of digits. So both train on the same numbers from the same start."""
import argparse
import math

import torch

position = 0


def parse(steps, mixed=False):
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--steps", type=int, default=steps)
    if mixed:
        parser.add_argument("--bf16", action="store_true")
        parser.add_argument("--f16", action="store_true")
    args = parser.parse_args()
    args.device = torch.device("cuda" if args.cuda else "cpu")
    args.amp = mixed and (args.bf16 or args.f16)
    args.dtype = torch.float16 if mixed and args.f16 else torch.bfloat16
    return args


def next_bits(count):
    """The next words of 32 bits of a sequence that is the same in both languages: positions, hashed."""
    global position
    x = torch.arange(position + 1, position + count + 1)
    position += count
    for _ in range(2):
        x = ((x >> 16) ^ x) * 0x45D9F3B & 0xFFFFFFFF
    return (x >> 16) ^ x


def next_numbers(count):
    """The next numbers in [0, 1), multiples of 2^-24, as f64."""
    return (next_bits(count) >> 8).double() * 2**-24


def next():
    """The next of them."""
    return next_numbers(1).item()


def rand(*shape):
    """Uniform in [0, 1)."""
    return next_numbers(math.prod(shape)).reshape(shape).to(torch.get_default_dtype())


def randn(*shape):
    """Close to normal: a sum of four."""
    sums = next_numbers(4 * math.prod(shape)).reshape(-1, 4).sum(1)
    return ((sums - 2) * math.sqrt(3)).reshape(shape).to(torch.get_default_dtype())


def randint(high, *shape):
    """Integers in [0, high)."""
    return (next_bits(math.prod(shape)) % high).reshape(shape)


@torch.no_grad()
def init(net):
    """Gives all parameters the values that the twin's have: matrices and kernels uniform within 1/sqrt(fan in) of 0,
    biases 0, weights of norms 1."""
    for name, parameter in net.named_parameters():
        if parameter.dim() > 1:
            fan_in = parameter.numel() // parameter.size(0)
            values = (2 * next_numbers(parameter.numel()) - 1) / math.sqrt(fan_in)
            parameter.copy_(values.reshape(parameter.shape))
        else:
            parameter.fill_(0 if "bias" in name else 1)


class Dropout(torch.nn.Module):
    """nn.Dropout with masks of the same random numbers."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        return x * (rand(*x.shape) >= self.p).to(x.device) / (1 - self.p)


SEGMENTS = [(5, 7, 9, 19), (5, 15, 9, 11), (5, 15, 17, 19), (13, 15, 9, 19), (13, 23, 9, 11), (13, 23, 17, 19),
            (21, 23, 9, 19)]
LIT = [0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110, 0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111]


def digits(labels):
    """Pictures [n, 1, 28, 28] of digits as seven segments show them, shifted by up to 3 pixels, with noise."""
    shifts = (randint(7, len(labels), 2) - 3).tolist()
    images = torch.zeros(len(labels), 1, 28, 28)
    for i, label in enumerate(labels.tolist()):
        image = torch.zeros(28, 28)
        for s, (top, bottom, left, right) in enumerate(SEGMENTS):
            if LIT[label] >> s & 1:
                image[top:bottom, left:right] = 1
        images[i, 0] = image.roll(shifts[i], (0, 1))
    return images * 0.75 + rand(*images.shape) * 0.25
