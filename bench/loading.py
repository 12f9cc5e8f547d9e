#!/usr/bin/env python3
"""Times batches of a DataLoader, and loading and saving 1 GiB of weights, in turns with PyTorch and cat."""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

PYTORCH = '''
import sys, time, torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
name, path = sys.argv[1:]
ROWS, MIB = 1_000_000, 1024
class Rows(Dataset):
    def __init__(self, x, y): self.x, self.y = x, y
    def __len__(self): return len(self.x)
    def __getitem__(self, i): return self.x[i], self.y[i]
class Slow(Dataset):
    def __len__(self): return 200
    def __getitem__(self, i):
        time.sleep(0.005)
        return 1.0
def epoch(loader, step=None):
    begin = time.perf_counter()
    for _ in loader:
        if step: step()
    return time.perf_counter() - begin
def timed(work):
    begin = time.perf_counter()
    kept = work()
    return time.perf_counter() - begin
x, y = torch.ones(ROWS, 4), torch.arange(ROWS)
if name.startswith("batches_of_64"):
    result = epoch(DataLoader(TensorDataset(x, y), 64, shuffle=True, num_workers=2 if "workers" in name else 0))
elif name == "samples_one_by_one":
    result = epoch(DataLoader(Rows(x, y), 64, shuffle=True))
elif name == "batches_of_1":
    result = epoch(DataLoader(TensorDataset(x[:100_000], y[:100_000])))
elif name == "5_ms_batches_2_workers":
    result = epoch(DataLoader(Slow(), num_workers=2), lambda: time.sleep(0.005))
else:
    from safetensors.torch import load_file, save_file
    if name == "save":
        tensors = {f"layer.{i}": torch.full((2048, 2048), float(i)) for i in range(MIB // 16)}
        result = timed(lambda: save_file(tensors, path))
    elif name == "load":  # into memory of its own
        result = timed(lambda: {k: v.clone() for k, v in load_file(path).items()})
    else:
        result = timed(lambda: load_file(path))
print(result)
'''
# Name, what one is, how many of them are in a reading.
CASES = [("batches_of_64", "sample", 1_000_000), ("batches_of_64_2_workers", "sample", 1_000_000),
         ("samples_one_by_one", "sample", 1_000_000), ("batches_of_1", "batch", 100_000),
         ("5_ms_batches_2_workers", "batch and step of 5 ms", 200), ("save", "GiB", 1), ("load", "GiB", 1),
         ("load_mapped", "GiB", 1)]


def run(command):
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def cat(path):
    return run(["bash", "-c", f"TIMEFORMAT=%R; {{ time cat '{path}' >/dev/null; }} 2>&1"])


def unit(seconds):
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with the benchmark programs")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch and safetensors")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    times = {}
    with tempfile.TemporaryDirectory(prefix="mezzo-loading-") as folder:
        path = f"{folder}/weights.safetensors"
        for _ in range(options.rounds):
            for name, _, count in CASES:
                for library, command in (("mezzo", [f"{options.build}/bench/mezzo_loading"]),
                                         ("pytorch", [options.python, "-c", PYTORCH])):
                    times.setdefault((name, library), []).append(run(command + [name, path]) / count)
                if name.startswith("load"):
                    times.setdefault((name, "cat"), []).append(cat(path))
    print("| case | of one | mezzo | PyTorch | mezzo / PyTorch (least to most) | cat |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, what, _ in CASES:
        ours, theirs = times[name, "mezzo"], times[name, "pytorch"]
        ratios = sorted(a / b for a, b in zip(ours, theirs))
        disk = times.get((name, "cat"))
        print(f"| {name} | {what} | {unit(statistics.median(ours))} | {unit(statistics.median(theirs))} | "
              f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) | "
              f"{unit(statistics.median(disk)) if disk else ''} |")


if __name__ == "__main__":
    main()
