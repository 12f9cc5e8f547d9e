#!/usr/bin/env python3
"""Lets mezzo and its peers take turns at the same work and prints one table. The protocol is in bench/README.md."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

from comparisons import COMPARISONS, LAYERS
from footprint import COMPILE_PAIRS, Footprint

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Seconds between two turns. The threads of OpenBLAS and of OpenMP spin for a while when their work is done, some for 30 ms,
# and would take a core from whoever comes next.
PAUSE = 0.04


class Worker:
    """A benchmark program that waits for commands; see bench/worker.h."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.about = self.ask("about")
        self.cases = set(self.ask_lines("list"))

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def ask_lines(self, command):
        line, lines = self.ask(command), []
        while line:
            lines.append(line)
            line = self.process.stdout.readline().strip()
        return lines

    def time(self, case, seconds):
        answer = self.ask(f"time {case} {seconds}")
        if not answer or answer.startswith("error"):
            raise RuntimeError(f"{case}: {answer or 'the program ended'}")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def openblas_core():
    """Debian's OpenBLAS takes new processors for a Prescott unless told."""
    flags = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    return "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else ""


def environment(threads):
    variables = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads),
                     OPENBLAS_NUM_THREADS=str(threads))
    variables.setdefault("OPENBLAS_CORETYPE", openblas_core())
    return variables


def has_pytorch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


class Workers:
    """Every program once per number of threads, started when it is first needed."""

    def __init__(self, build):
        self.build, self.running, self.missing = build, {}, {}
        self.pytorch = has_pytorch()

    def command(self, library, layer):
        if library == "pytorch":
            return [sys.executable, str(ROOT / "bench/peers/pytorch.py")] if self.pytorch else None
        layer = "loop" if layer == "footprint" else layer
        program = self.build / "bench" / ("bare" if library == "bare" else f"{library}_{layer}")
        return [str(program)] if program.exists() else None

    def get(self, library, layer, threads):
        key = (library, layer if library in ("mezzo", "libtorch") else "", threads)
        if key not in self.running:
            command = self.command(library, layer)
            if command is None:
                self.missing[library] = INSTALL[library]
                return None
            make = Footprint(self.build, library, environment(threads)) if layer == "footprint" else None
            self.running[key] = make or Worker(command, environment(threads))
        return self.running[key]

    def close_all(self):
        for worker in self.running.values():
            worker.close()
        self.running.clear()


INSTALL = {"libtorch": "apt-get install libtorch-dev libopenblas0-pthread, then configure again",
           "pytorch": "python3 -m pip install torch",
           "bare": "build the target benchmarks", "mezzo": "build the target benchmarks"}


def quantile(values, q):
    values = sorted(values)
    position = q * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (position - low)


def summary(values):
    return {"median": statistics.median(values), "p10": quantile(values, 0.1), "p90": quantile(values, 0.9)}


def compare(row, workers, threads, pairs, seconds):
    """One comparison: `pairs` turns of subject and baseline; the ratio of each turn; None when a side is missing."""
    sides = [workers.get(library, row["layer"], threads) for library, _ in (row["subject"], row["baseline"])]
    names = [case for _, case in (row["subject"], row["baseline"])]
    if any(worker is None or name not in worker.cases for worker, name in zip(sides, names)):
        return None
    pairs = min(pairs, COMPILE_PAIRS) if "compile" in names else pairs
    times = [[], []]
    for _ in range(pairs):
        for side in (0, 1):
            time.sleep(PAUSE)
            times[side].append(sides[side].time(names[side], seconds))
    ratio = summary([a / b for a, b in zip(*times)])
    goal = row.get("at_most")
    return {**row, "threads": threads, "pairs": pairs, "subject_ns": statistics.median(times[0]),
            "baseline_ns": statistics.median(times[1]), "ratio": ratio,
            "reached": None if goal is None else ratio["median"] <= goal}


def human(nanoseconds):
    for unit, scale in (("s ", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


def title(row):
    return "{}  /  {}".format(*(" ".join(side) for side in (row["subject"], row["baseline"])))


def line(result):
    ratio, goal = result["ratio"], result.get("at_most")
    verdict = "" if goal is None else f"<= {goal:.2f} {'ok' if result['reached'] else 'MISSED'}"
    return (f"{title(result):<84} {human(result['subject_ns']):>9} {human(result['baseline_ns']):>9}  {ratio['median']:6.3f}"
            f"  ({ratio['p10']:.3f} to {ratio['p90']:.3f})  {verdict}")


def ceilings(workers, threads):
    """Copy bandwidth and GEMM rate of this minute; measured at the start and at the end, for they drift."""
    bare = workers.get("bare", "", threads)
    found = {}
    if bare is not None:
        for mib in (16, 48):
            found[f"copy {mib} MiB"] = (mib << 20) / min(bare.time(f"copy_{mib}MiB", 0.05) for _ in range(5))
        for name in ("f32", "bf16"):
            case = f"gemm_512x1024x1024/{name}"
            if case in bare.cases:
                found[f"GEMM {name}"] = 2 * 512 * 1024 * 1024 / min(bare.time(case, 0.05) for _ in range(5))
    return found


def ceiling_text(found):
    return ", ".join(f"{name} {value:.0f} {'GB/s' if 'copy' in name else 'GFLOP/s'}" for name, value in found.items())


def machine():
    model = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        model = next((text.split(":", 1)[1].strip() for text in open("/proc/cpuinfo") if text.startswith("model name")), model)
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "commit": commit.stdout.strip() or "unknown",
            "date": datetime.date.today().isoformat(), "load": os.getloadavg()[0]}


def options():
    parser = argparse.ArgumentParser(prog="mezzo.sh bench", description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"what to run, all by default: {', '.join(LAYERS)}")
    parser.add_argument("--pairs", type=int, default=20, help="turns per comparison (20)")
    parser.add_argument("--seconds", type=float, default=0.03, help="length of one reading (0.03)")
    parser.add_argument("--threads", type=int, default=2, help="threads of kernels and training (2)")
    parser.add_argument("--only", default="", help="only comparisons whose text contains this")
    parser.add_argument("--list", action="store_true", help="only say what would be compared")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file too")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the programs were built")
    chosen = parser.parse_args()
    for name in chosen.layers:
        if name not in LAYERS:
            parser.error(f"expected a layer ({', '.join(LAYERS)}), got '{name}'")
    if chosen.pairs < 1 or chosen.threads < 1:
        parser.error(f"expected --pairs and --threads of at least 1, got {chosen.pairs} and {chosen.threads}")
    return chosen


def rows_of(chosen):
    """The comparisons that were asked for, by layer."""
    for layer in chosen.layers or LAYERS:
        rows = [row for row in COMPARISONS if row["layer"] == layer and chosen.only in title(row)]
        if rows:
            yield layer, rows


def run(chosen, workers):
    results = []
    for layer, rows in rows_of(chosen):
        threads = 1 if layer in ("engine", "footprint") else chosen.threads
        print(f"\n{layer}, {threads} thread{'s' if threads > 1 else ''}")
        for row in rows:
            result = compare(row, workers, threads, chosen.pairs, chosen.seconds)
            if result is not None:
                print(line(result), flush=True)
                results.append(result)
    return results


def main():
    chosen = options()
    if chosen.list:
        print(*(title(row) for _, rows in rows_of(chosen) for row in rows), sep="\n")
        return
    workers = Workers(chosen.build)
    facts = machine()
    print("{cpu}, {cores} cores, {system}; commit {commit}, {date}; load {load:.1f}".format(**facts))
    started = time.monotonic()
    before = ceilings(workers, chosen.threads)
    print("ceilings:", ceiling_text(before))
    print("time of subject and baseline, median ratio (10th to 90th percentile of"
          f" {chosen.pairs} pairs); below 1 is faster than the baseline")
    results = run(chosen, workers)
    after = ceilings(workers, chosen.threads)
    print("\nceilings at the end:", ceiling_text(after))
    abouts = sorted({worker.about for worker in workers.running.values()})
    print("measured:", *abouts, sep="\n  ")
    for library, install in workers.missing.items():
        print(f"not measured: {library}; {install}")
    goals = [result for result in results if result["reached"] is not None]
    print(f"{sum(result['reached'] for result in goals)} of {len(goals)} goals reached, {time.monotonic() - started:.0f} s")
    workers.close_all()
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": facts, "libraries": abouts, "ceilings": [before, after],
                                           "results": results}, indent=1) + "\n")


main()
