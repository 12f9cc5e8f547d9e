#!/usr/bin/env python3
"""Predicts how data-parallel training scales, from a model of latency and bandwidth (alpha-beta), and checks the model
with what can be measured here: docs/scale.md. Without arguments: the predictions for 8 to 1,024 GPUs. With --measure: times
of all-reduces and training steps over MPI on this machine, the two numbers fitted to them, and the steps that these predict."""
import argparse
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
US, MB, GB = 1e-6, 1e6, 1e9

# --- published figures of NCCL

# NCCL's own cost model (src/graph/tuning.cc, commit 01afd20): latencies in microseconds of its ring for large messages
# and of its tree for small ones: base, per step over NVLink, per step over the network.
RING = (8.4, 3.4, 9.6)
TREE = (4.4, 1.2, 8.5)
# Bus bandwidths, GB/s: all-reduce of 8 GPUs through NVSwitch (nccl-tests issue 290), a ring there (issue 212), and one
# network card of 400 Gbit/s per GPU (issue 290: 46 to 48).
NVLINK_ALL_REDUCE, NVLINK_RING, NETWORK = 476, 370, 47
# Times of all-reduces between two machines with one H100 each (nccl-tests issue 232): MB, microseconds.
TWO_MACHINES = [(2.097152, 113.2), (4.194304, 154.4), (8.388608, 231.4), (16.777216, 420.5), (33.554432, 812.3)]
GPUS_PER_MACHINE = 8


def all_reduce(size, gpus, part=1.0):
    """Seconds of an all-reduce of `size` bytes; part = 1/2: of a reduce-scatter or an all-gather."""
    if gpus == 1:
        return 0.0
    machines = max(1, gpus // GPUS_PER_MACHINE)
    local = min(gpus, GPUS_PER_MACHINE)
    moved = 2 * part * (gpus - 1) / gpus * size
    if machines == 1:
        bandwidth = NVLINK_ALL_REDUCE if part == 1 else NVLINK_RING
    else:
        bandwidth = min(NVLINK_RING, local * NETWORK)
    steps, between = 2 * part * (gpus - 1), 2 * part * (machines - 1)
    ring = RING[0] + (steps - between) * RING[1] + between * RING[2]
    tree = TREE[0] + 2 * part * ((local - 1) * TREE[1] + math.log2(machines) * TREE[2])
    # The tree's bandwidth is 0.9 of the ring's in that model, and the better one of the two is chosen.
    return min(ring * US + moved / (bandwidth * GB), tree * US + moved / (0.9 * bandwidth * GB))


# --- a step

class Work:
    """What one GPU does in a step: seconds forward, backward and in the optimizer; parameters; bytes per gradient on the
    wire, and of a parameter that ZeRO-1 gathers."""

    def __init__(self, name, forward, backward, update, parameters, wire=4, gathered=4):
        self.name, self.forward, self.backward, self.update = name, forward, backward, update
        self.parameters, self.wire, self.gathered = parameters, wire, gathered

    def alone(self):
        return self.forward + self.backward + self.update


def buckets(parameters, wire):
    """Sizes in bytes, in the order of reduction: 1 MiB, then 25 MiB of f32 gradients each; on the wire they may be half."""
    rest, sizes, size = 4 * parameters, [], 1 << 20
    while rest > 0:
        sizes.append(min(rest, size))
        rest -= sizes[-1]
        size = 25 << 20
    return [s * wire / 4 for s in sizes]


def step(work, reduce, sharded=None):
    """Seconds of a step whose buckets become full at an even pace during backward and are reduced one after the other.
    reduce(bytes): seconds of one. sharded: (ranks, gather) for ZeRO-1, whose reduce is half of it."""
    sizes = buckets(work.parameters, work.wire)
    total, done, free = sum(sizes), 0.0, 0.0
    for size in sizes:
        done += size
        ready = work.forward + work.backward * done / total
        free = max(free, ready) + reduce(size)
    end = max(free, work.forward + work.backward)
    if sharded is None:
        return end + work.update
    ranks, gather = sharded
    return end + work.update / ranks + sum(gather(s * work.gathered / work.wire) for s in sizes)


def on_gpus(work, gpus, zero):
    if gpus == 1:
        return work.alone()
    if not zero:
        return step(work, lambda size: all_reduce(size, gpus))
    half = lambda size: all_reduce(size, gpus, 0.5)  # noqa: E731
    return step(work, half, (gpus, half))


def mlp(name, samples, wire):
    """Three Linear layers of 4096 under autocast in f16, of which the first passes no gradient on: products at 600 TFLOP/s;
    18 bytes per parameter (scaler and SGD, 16-bit copy) at 4.3 TB/s."""
    layer = 4096 ** 2
    product = 2 * layer * samples / 600e12
    return Work(name, 3 * product, 5 * product, 3 * layer * 18 / 4.3e12, 3 * layer, wire)


def transformer(name, layers, width, parameters, sequence, sequences, wire):
    """Forward, backward and AdamW of one GPU: 6 operations per parameter and token and attention's, at 45 % of 989
    TFLOP/s; 28 bytes per parameter at 4.3 TB/s."""
    tokens = sequence * sequences
    operations = 6 * parameters * tokens + 12 * layers * width * sequence * tokens
    seconds = operations / (0.45 * 989e12)
    return Work(name, seconds / 3, seconds * 2 / 3, 28 * parameters / 4.3e12, parameters, wire)


def cases():
    yield mlp("seed's MLP, batch 512, f32 gradients", 512, 4)
    yield mlp("the same, gradients in 16 bits", 512, 2)
    yield mlp("the same, batch 4096", 4096, 2)
    for wire, text in ((4, "f32 gradients"), (2, "gradients in 16 bits")):
        yield transformer(f"transformer of 1.3 B, 8 x 2048 tokens, {text}", 24, 2048, 1.3e9, 2048, 8, wire)
        yield transformer(f"transformer of 7 B, 1 x 4096 tokens, {text}", 32, 4096, 6.7e9, 4096, 1, wire)


def predictions():
    counts = (8, 64, 256, 1024)
    print("| one GPU's work | ms alone | " + " | ".join(f"{n} GPUs" for n in counts) + " | " +
          " | ".join(f"ZeRO-1, {n}" for n in counts) + " |")
    print("| --- |" + " --- |" * (1 + 2 * len(counts)))
    for work in cases():
        row = [100 * work.alone() / on_gpus(work, n, zero) for zero in (False, True) for n in counts]
        print(f"| {work.name} | {work.alone() * 1e3:.3g} | " + " | ".join(f"{e:.0f} %" for e in row) + " |")


def fit(points):
    """alpha, beta of seconds = alpha + beta * bytes, with the least squares of relative errors."""
    w = [1 / t ** 2 for _, t in points]
    s, sx, sy = sum(w), sum(a * n for a, (n, _) in zip(w, points)), sum(a * t for a, (_, t) in zip(w, points))
    sxx, sxy = sum(a * n * n for a, (n, _) in zip(w, points)), sum(a * n * t for a, (n, t) in zip(w, points))
    beta = (s * sxy - sx * sy) / (s * sxx - sx * sx)
    return (sy - beta * sx) / s, beta


def check_published():
    alpha, beta = fit([(n * MB, t * US) for n, t in TWO_MACHINES])
    print(f"\nTwo machines, one H100 each (nccl-tests issue 232): {alpha / US:.0f} us + {1 / beta / GB:.1f} GB/s; largest error "
          f"of the fit {max(abs((alpha + beta * n * MB) / (t * US) - 1) for n, t in TWO_MACHINES):.0%}")
    size = 512 * 2 ** 20
    seconds = all_reduce(size, 1984)
    bus = 2 * size / seconds / GB
    print(f"248 machines of 8 H200, 512 MiB: {bus:.0f} GB/s of bus bandwidth by the model; reported: about 350, at times below "
          "300 (nccl-tests issue 283)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="time all-reduces and steps over MPI on this machine")
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with the benchmarks")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2])
    options = parser.parse_args()
    if not options.measure:
        predictions()
        check_published()
        return
    import data_parallel  # bench/data_parallel.py
    for ranks in options.ranks:
        data_parallel.check_model(options.build, ranks, fit, step, Work)


if __name__ == "__main__":
    sys.exit(main())
