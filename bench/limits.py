"""The time that a machine needs for a training step at least: its products, and the bytes of its parameters."""
import math
import re

ATTENTION = "scaled_dot_product_attention"


def numbers(shapes):
    return [[int(size) for size in re.findall(r"\d+", shape)] for shape in re.findall(r"\[([^]]*)\]", shapes)]


class Work:
    """The lines of the command `work` (bench/worker.h): FLOP of products, of 3 x 3 convolutions of stride 1, and bytes."""

    def __init__(self, lines):
        self.moved = sum(int(line.split()[1]) for line in lines if line.startswith("moved "))
        self.flop, self.windowed, self.planes = 0, 0, set()
        rows = [line.split("\t") for line in lines if "\t" in line]
        for op, shapes, calls, flop in sorted(rows, key=lambda row: row[0] != "conv2d"):  # first what fills self.planes
            if self.has_windows(op, numbers(shapes), int(flop) // int(calls)):
                self.windowed += int(flop)
            else:
                self.flop += int(flop) * self.needed(op)

    @staticmethod
    def needed(op):
        """The part of an op's FLOP that has to be: the models' attention is causal, which leaves half, and its backward
        computes one of its five products again."""
        return 1 if not op.startswith(ATTENTION) else 0.5 if op == ATTENTION else 0.4

    def has_windows(self, op, shapes, flop):
        """Whether Winograd's F(4 x 4, 3 x 3) could take it, with a fourth of the multiplications."""
        if op == "conv2d" and shapes[1][2:] == [3, 3]:
            plane = flop // (2 * shapes[0][0] * math.prod(shapes[1]))
            if 2 * plane < math.prod(shapes[0][2:]):  # stride 2
                return False
            self.planes.add((plane, *shapes[1]))
            return True
        if not op.startswith("convolution_backward_"):
            return False
        weight = shapes[1] if op.endswith("_input") else [shapes[0][1], shapes[1][1], 3, 3]
        of_weight = 2 * math.prod(shapes[0]) * math.prod(weight[1:])
        return flop == of_weight and (math.prod(shapes[0][2:]), *weight) in self.planes

    def seconds(self, mode, ceilings):
        """`mode`: "f32", "bf16", ...: f16 is multiplied in f32, and so are windows by Winograd."""
        f32, own = (1e9 * ceilings[f"GEMM {name}"] for name in ("f32", "bf16" if mode == "bf16" else "f32"))
        windowed = min(self.windowed / own, self.windowed / 4 / f32)
        return self.flop / own + windowed + self.moved / (1e9 * ceilings["copy 48 MiB"])
