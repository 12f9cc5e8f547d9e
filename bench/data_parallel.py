#!/usr/bin/env python3
"""Lets data-parallel training by mezzo (over MPI) and by PyTorch's DistributedDataParallel (over gloo) take turns at the same
steps, with the same number of processes, and prints one table of ratios: bench/README.md, "Several processes"."""
import argparse
import pathlib
import statistics
import sys

import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETS = ["mlp_1024", "mlp_2048", "gpt_4x128", "resnet18_w16"]
# Way of mezzo and the peer's.
WAYS = [("alone", "alone"), ("parallel", "parallel"), ("deterministic", "parallel"), ("compressed", "compressed"),
        ("sharded", "sharded")]
SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 22, 25 << 20, 100 << 20]


def environment(threads):
    return dict(run.environment(threads), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def mezzo(build, ranks, threads=1):
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", f"{build}/bench/mezzo_data_parallel"]
    return run.Worker("mezzo", command, environment(threads))


def pytorch(python, ranks, threads):
    command = [python, str(ROOT / "bench/peers/pytorch_ddp.py"), str(ranks), str(threads)]
    return run.Worker("pytorch", command, environment(threads))


def compare(options):
    peers = [mezzo(options.build, options.ranks, options.threads), pytorch(options.python, options.ranks, options.threads)]
    print(f"{peers[0].about}; {peers[1].about}; {options.threads} threads each")
    print(f"| step | mezzo | ms | PyTorch | ms | ratio (10th to 90th percentile of {options.pairs}) |\n| --- | --- | --- | --- | --- | --- |")
    cases = [(f"{net}/{dtype}/{ours}", f"{net}/{dtype}/{theirs}") for net in NETS for dtype in options.dtypes
             for ours, theirs in WAYS]
    cases = [(f"all_reduce/{size}",) * 2 for size in SIZES] + cases
    for ours, theirs in (case for case in cases if options.only in case[0]):
        pairs = [(peers[0].time(ours, options.seconds), peers[1].time(theirs, options.seconds)) for _ in range(options.pairs)]
        ratios = [a / b for a, b in pairs]
        print(f"| {ours.split('/')[0]} {ours.split('/')[1]} | {ours.split('/')[-1]} | {statistics.median(a for a, _ in pairs) / 1e6:.3g} "
              f"| {theirs.split('/')[-1]} | {statistics.median(b for _, b in pairs) / 1e6:.3g} | {statistics.median(ratios):.2f} "
              f"({run.quantile(ratios, 0.1):.2f} to {run.quantile(ratios, 0.9):.2f}) |", flush=True)


def check_model(build, ranks, fit, step, work_class, seconds=0.5, repeats=5):
    """Fits latency and bandwidth to all-reduces, and compares measured steps with those that they predict."""
    worker = mezzo(build, ranks)

    def time(case):
        return statistics.median(worker.time(case, seconds) for _ in range(repeats)) * 1e-9

    points = [(size, time(f"all_reduce/{size}")) for size in SIZES]
    alpha, beta = fit(points)
    print(f"\n{ranks} processes on this machine: all_reduce takes {alpha * 1e6:.0f} us + size / {1 / beta / 1e9:.2f} GB/s")
    print("| bytes | measured ms | model ms |\n| --- | --- | --- |")
    for size, measured in points:
        print(f"| {size} | {measured * 1e3:.3f} | {(alpha + beta * size) * 1e3:.3f} |")
    print("\n| step, f32 | alone, ms | DataParallel: measured, ms | predicted, ms | predicted / measured |\n| --- | --- | --- | --- | --- |")
    for net, parameters in (("mlp_1024", 3 * 1024 * 1025), ("mlp_2048", 3 * 2048 * 2049)):
        alone, both = time(f"{net}/f32/alone"), time(f"{net}/f32/alone/forward_backward")
        work = work_class(net, both / 3, both * 2 / 3, max(0.0, alone - both), parameters)
        predicted, measured = step(work, lambda size: alpha + beta * size), time(f"{net}/f32/parallel")
        print(f"| {net} | {alone * 1e3:.1f} | {measured * 1e3:.1f} | {predicted * 1e3:.1f} | {predicted / measured:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with the benchmarks")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one reading")
    parser.add_argument("--dtypes", nargs="*", default=["f32", "bf16"])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    compare(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
