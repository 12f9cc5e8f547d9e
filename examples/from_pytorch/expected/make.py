#!/usr/bin/env python3
"""Writes what the twins print, NAME.txt beside this file, for the tests of the programs in C++.

usage: make.py [NAME...]            needs PyTorch

Behind each line stands, for each of its numbers, how far apart twins end that differ by rounding only: one that
computes in f64, and four whose first weights are off by up to one rounding of f32. That is the least that two programs
whose sums are rounded in another order can promise each other.
"""
import contextlib
import importlib
import io
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import twin  # noqa: E402

ROUNDED = 4


def printed(name, seed=None, dtype=torch.float32):
    """The lines that a twin prints; with a seed its first weights are disturbed."""
    plain = twin.init
    generator = torch.Generator().manual_seed(seed or 0)

    def disturbed(net):
        plain(net)
        for parameter in net.parameters():
            signs = torch.rand(parameter.shape, generator=generator) * 2 - 1
            parameter.data.mul_(1 + signs.to(parameter.dtype) * 2**-23)

    text = io.StringIO()
    twin.position = 0
    twin.init = plain if seed is None else disturbed
    torch.set_default_dtype(dtype)
    try:
        with contextlib.redirect_stdout(text):
            importlib.import_module(name).main()
    finally:
        twin.init = plain
        torch.set_default_dtype(torch.float32)
    return text.getvalue().splitlines()


def numbers(line):
    """The words of a line that are numbers."""
    result = []
    for word in line.split():
        with contextlib.suppress(ValueError):
            result.append(float(word))
    return result


def expected(name):
    """The twin's lines with their spreads."""
    lines = printed(name)
    others = [printed(name, dtype=torch.float64)] + [printed(name, seed) for seed in range(1, ROUNDED + 1)]
    for i, line in enumerate(lines):
        known = numbers(line)
        spreads = [max(abs(numbers(other[i])[n] - known[n]) for other in others) for n in range(len(known))]
        yield line + " # " + " ".join(f"{spread:.1e}" for spread in spreads)


def main():
    names = sys.argv[1:] or sorted(path.stem for path in HERE.parent.glob("*.cpp"))
    sys.argv = sys.argv[:1]
    torch.set_num_threads(1)
    for name in names:
        lines = list(expected(name))
        version = torch.__version__.split("+")[0]
        first = f"# examples/from_pytorch/expected/make.py {name}, with PyTorch {version} on a CPU"
        (HERE / f"{name}.txt").write_text("\n".join([first, *lines]) + "\n")
        print(f"{name}: {lines[-1]}")


if __name__ == "__main__":
    main()
