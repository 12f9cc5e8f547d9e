#!/usr/bin/env python3
"""Lets mezzo and its peers take turns at the same work and prints one table. The protocol is in bench/README.md."""
# It runs in a source tree and in a bundle (preset cuda-bundle), and needs Python 3 only.
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

from comparisons import COMPARISONS, COMPARISONS_ON_GPU, LAYERS, LAYERS_ON_GPU
from footprint import COMPILE_PAIRS, Footprint
from limits import Work

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Seconds between two turns. The threads of OpenBLAS and of OpenMP spin for a while when their work is done, some for 30 ms,
# and would take a core from whoever comes next.
PAUSE = 0.04


class Failed(Exception):
    """A program of `library` refused a case or ended."""

    def __init__(self, library, reason):
        super().__init__(f"{library}: {reason}")
        self.library = library


class Worker:
    """A benchmark program that waits for commands; see bench/worker.h."""

    def __init__(self, library, command, environment):
        self.library = library
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)
        self.about = self.answer("about")
        self.cases = set(self.ask_lines("list"))

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, and the answer is empty
        return self.process.stdout.readline().strip()

    def ask_lines(self, command):
        line, lines = self.ask(command), []
        while line:
            if line.startswith("error"):  # nothing follows
                raise Failed(self.library, line)
            lines.append(line)
            line = self.process.stdout.readline().strip()
        return lines

    def answer(self, command):
        answer = self.ask(command)
        if not answer:
            self.close()
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines() or [f"status {self.process.returncode}"]
            raise Failed(self.library, f"the program ended: {lines[-1]}")
        if answer.startswith("error"):
            raise Failed(self.library, answer)
        return answer

    def time(self, case, seconds):
        return float(self.answer(f"time {case} {seconds}"))

    def peak(self, case):
        return float(self.answer(f"peak {case}"))

    def resident(self, case):
        return float(self.answer(f"resident {case}"))

    def work(self, case):
        """bench/limits.py's of a step; None where the program does not know it."""
        lines = self.ask_lines(f"work {case}")
        return Work(lines) if lines else None

    def plans(self):
        """What mezzo's products and convolutions on a GPU ran with, a line each."""
        return [] if self.library != "mezzo" or self.ended() else self.ask_lines("plans")

    def ended(self):
        return self.process.poll() is not None

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except OSError:
            self.process.wait()  # it had ended with a command unread
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Busy:
    """A process that computes while it lives, or none."""

    SPIN = [sys.executable, "-c", "while True: pass"]

    def __init__(self, nice, session):
        command = None if nice is None else (["nice", "-n", str(nice)] if nice else []) + self.SPIN
        self.process = None if command is None else subprocess.Popen(command, start_new_session=session)
        time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
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


def has_pytorch(device):
    needed = "import torch" if device == "cpu" else "import torch; assert torch.cuda.is_available()"
    return subprocess.run([sys.executable, "-c", needed], capture_output=True).returncode == 0


class Workers:
    """Every program once per number of threads, started when it is first needed."""

    def __init__(self, build, device, library_path=""):
        self.build, self.running, self.missing = build, {}, {}
        self.library_path = library_path
        self.device = [] if device == "cpu" else ["--device", device]
        self.pytorch = has_pytorch(device)

    def command(self, library, layer):
        if library == "pytorch":
            return [sys.executable, str(ROOT / "bench/peers/pytorch.py"), *self.device] if self.pytorch else None
        layer = "loop" if layer == "footprint" else layer
        program = self.build / "bench" / ("bare" if library == "bare" else f"{library}_{layer}")
        return [str(program), *(self.device if library != "bare" else [])] if program.exists() else None

    def get(self, library, layer, threads, anew=False):
        """`anew`: the program is started again, so that it holds no memory of other cases."""
        key = (library, layer if library in ("mezzo", "libtorch") else "", threads)
        if anew and key in self.running:
            self.running.pop(key).close()
        if key not in self.running:
            command = self.command(library, layer)
            if command is None:
                self.missing[library] = INSTALL[library]
                return None
            variables = environment(threads)
            if library == "mezzo" and self.library_path:  # PyTorch brings libraries of its own
                old = variables.get("LD_LIBRARY_PATH", "")
                variables["LD_LIBRARY_PATH"] = self.library_path + (f":{old}" if old else "")
            make = Footprint(self.build, library, variables) if layer == "footprint" else None
            self.running[key] = make or Worker(library, command, variables)
        return self.running[key]

    def forget_ended(self):
        """The next case of a program that has ended starts it again."""
        self.running = {key: worker for key, worker in self.running.items() if not worker.ended()}

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


def compare(row, workers, threads, chosen):
    """One comparison: turns of subject and baseline; the ratio of each turn; None when a side is missing. Throws Failed.
    On a GPU the subject is measured without its baseline too."""
    unit = row.get("unit", "ns")
    sides = [workers.get(library, row["layer"], threads) for library, _ in (row["subject"], row["baseline"])]
    names = [case for _, case in (row["subject"], row["baseline"])]
    there = [worker is not None and name in worker.cases for worker, name in zip(sides, names)]
    if not there[0] or not there[1] and not chosen.gpu_list:
        return None
    pairs = 1 if unit in ("bytes", "resident") else min(chosen.pairs, COMPILE_PAIRS) if "compile" in names else chosen.pairs
    values = [[], []]
    for _ in range(pairs):
        for side in (0, 1) if there[1] else (0,):
            if unit == "bytes":
                values[side].append(sides[side].peak(names[side]))
            elif unit == "resident":
                library = (row["subject"], row["baseline"])[side][0]
                values[side].append(workers.get(library, row["layer"], threads, anew=True).resident(names[side]))
            else:
                time.sleep(PAUSE if chosen.device == "cpu" else 0)
                values[side].append(sides[side].time(names[side], chosen.seconds))
    result = {**row, "threads": threads, "pairs": pairs, f"subject_{unit}": statistics.median(values[0]), "reached": None}
    if there[1]:
        result["ratio"] = summary([a / b for a, b in zip(*values)])
        result[f"baseline_{unit}"] = statistics.median(values[1])
    if row.get("at_most_us") is not None:
        result["reached"] = result["subject_ns"] <= 1e3 * row["at_most_us"]
    elif row["at_most"] is not None and there[1]:
        result["reached"] = result["ratio"]["median"] <= row["at_most"]
    return result


def human(value, unit):
    if unit in ("bytes", "resident"):
        return f"{value / 2**20:.4g} MiB"
    return human_time(value)


def human_time(nanoseconds):
    for unit, scale in (("s ", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


def title(row):
    return "{}  /  {}".format(*(" ".join(side) for side in (row["subject"], row["baseline"])))


def line(result):
    unit, verdict = result.get("unit", "ns"), ""
    if result["reached"] is not None:
        goal = f"{result['at_most_us']} us" if result.get("at_most_us") is not None else f"{result['at_most']:.2f}"
        verdict = f"<= {goal} {'ok' if result['reached'] else 'MISSED'}"
    subject = human(result[f"subject_{unit}"], unit)
    if "ratio" not in result:
        return f"{title(result):<84} {subject:>9}         -       -  (no baseline)  {verdict}"
    baseline, ratio = human(result[f"baseline_{unit}"], unit), result["ratio"]
    limit = f"; {result['limit_share']:.0%} of the limit, {human_time(result['limit_ns'])}" if "limit_ns" in result else ""
    return (f"{title(result):<84} {subject:>9} {baseline:>9}  {ratio['median']:6.3f}"
            f"  ({ratio['p10']:.3f} to {ratio['p90']:.3f})  {verdict}{limit}")


class Limits:
    """The least time of mezzo's steps of whole models on a CPU, by the best ceilings so far; each model looks for them."""

    def __init__(self, workers, device):
        self.workers, self.on_cpu, self.work, self.measured, self.best = workers, device == "cpu", {}, set(), {}

    def add_to(self, result):
        library, (model, _, mode) = result["subject"][0], result["subject"][1].partition("/")
        of_a_step = result["layer"] == "models" and library == "mezzo" and "subject_ns" in result
        if not self.on_cpu or not of_a_step or mode == "fp8":
            return
        threads = result["threads"]
        if model not in self.work:
            self.work[model] = self.workers.get("mezzo", "models", threads).work(model)
        if self.work[model] is None:
            return
        best = self.best.setdefault(threads, {})
        if (model, threads) not in self.measured:
            self.measured.add((model, threads))
            for _ in range(1 if best else 3):  # a program that has just begun is slow
                for name, rate in ceilings(self.workers, threads, "cpu").items():
                    best[name] = max(rate, best.get(name, 0))
        if {"GEMM f32", "GEMM bf16"} <= best.keys():
            result["limit_ns"] = 1e9 * self.work[model].seconds(mode, best)
            result["limit_share"] = result["limit_ns"] / result["subject_ns"]


def ceilings_on_gpu(workers, threads):
    found = {}
    for library in ("mezzo", "pytorch"):
        try:
            worker = workers.get(library, "kernels", threads)
            for name, case, amount in (("copy 1024 MiB", "copy_1024MiB", 1 << 30),
                                       ("GEMM bf16", "gemm_8192x8192x8192/bf16", 2 * 8192**3)):
                if worker is not None and case in worker.cases:
                    found[f"{library} {name}"] = amount / min(worker.time(case, 0.05) for _ in range(5))
        except Failed as reason:
            print(f"no ceilings of {reason}", flush=True)
            workers.forget_ended()
    return found


def ceilings(workers, threads, device):
    """Copy bandwidth and GEMM rate of this minute; measured at the start and at the end, for they drift."""
    if device != "cpu":
        return ceilings_on_gpu(workers, threads)
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
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "commit": commit(),
            "date": datetime.date.today().isoformat(), "load": os.getloadavg()[0]}


def commit():
    """Of the source tree, or what the bundle was built from."""
    if (ROOT / "COMMIT").exists():
        return (ROOT / "COMMIT").read_text().strip()
    try:
        described = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
        return described.stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def pattern(text):
    try:
        return re.compile(text)
    except re.error as reason:
        raise argparse.ArgumentTypeError(f"expected a regular expression, got '{text}': {reason}") from None


def options():
    parser = argparse.ArgumentParser(prog="mezzo.sh bench", description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"what to run, all by default: {', '.join(LAYERS)}")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N; a GPU has comparisons of its own (cpu)")
    parser.add_argument("--pairs", type=int, default=20, help="turns per comparison (20)")
    parser.add_argument("--seconds", type=float, default=0.03, help="length of one reading (0.03)")
    parser.add_argument("--threads", type=int, default=2, help="threads of kernels, ops and training (2)")
    parser.add_argument("--busy", action="store_true", help="beside a process of another session that takes one processor")
    parser.add_argument("--limit", type=float, default=0, help="no comparison begins after this many seconds (0: no limit)")
    parser.add_argument("--only", type=pattern, default="",
                        help="only comparisons in whose text this regular expression is found")
    parser.add_argument("--list", action="store_true", help="only say what would be compared")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file too")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where the programs were built")
    parser.add_argument("--library-path", default="", help="where mezzo's programs look for CUDA's libraries (A:B)")
    parser.add_argument("--gpu-list", action="store_true", help=argparse.SUPPRESS)  # a rehearsal of the GPU's list on the CPU
    chosen = parser.parse_args()
    if not re.fullmatch(r"cpu|cuda(:\d+)?", chosen.device):
        parser.error(f"expected --device cpu, cuda or cuda:N, got '{chosen.device}'")
    chosen.gpu_list = chosen.gpu_list or chosen.device != "cpu"
    layers = LAYERS_ON_GPU if chosen.gpu_list else LAYERS
    for name in chosen.layers:
        if name not in layers:
            parser.error(f"expected a layer ({', '.join(layers)}), got '{name}'")
    chosen.layers = chosen.layers or layers
    if chosen.pairs < 1 or chosen.threads < 1:
        parser.error(f"expected --pairs and --threads of at least 1, got {chosen.pairs} and {chosen.threads}")
    return chosen


def rows_of(chosen):
    """The comparisons that were asked for, by layer."""
    for layer in chosen.layers:
        rows = [row for row in (COMPARISONS_ON_GPU if chosen.gpu_list else COMPARISONS)
                if row["layer"] == layer and chosen.only.search(title(row))]
        if rows:
            yield layer, rows


def with_threads(layer, rows, chosen):
    """The rows with the number of threads to run each on: that of --threads, one, or one after the other for whole models.
    Memory is measured once."""
    counts = [chosen.threads]
    if chosen.device == "cpu" and layer in ("engine", "footprint"):
        counts = [1]
    elif chosen.device == "cpu" and layer in ("models", "trainer"):
        counts = sorted({1, chosen.threads})
    for threads in counts:
        print(f"\n{layer}, {threads} thread{'s' if threads > 1 else ''}")
        yield from ((threads, row) for row in rows if threads == counts[0] or row.get("unit", "ns") == "ns")


def run(chosen, workers):
    """The results, and how many comparisons were left out: those that failed, whose side is missing, or past the limit."""
    results, failed, missing, late, started = [], [], 0, 0, time.monotonic()
    limits = Limits(workers, chosen.device)
    for layer, rows in rows_of(chosen):
        for threads, row in with_threads(layer, rows, chosen):
            if chosen.limit and time.monotonic() - started > chosen.limit:
                late += 1
                continue
            try:
                result = compare(row, workers, threads, chosen)
                if result is not None:
                    limits.add_to(result)
            except Failed as reason:
                failed.append({**row, "library": reason.library, "failed": str(reason)})
                print(f"{title(row):<84} FAILED: {reason}", flush=True)
                workers.forget_ended()
                continue
            if result is None:
                missing += 1
                continue
            print(line(result), flush=True)
            results.append(result)
    return results, failed, missing, late


def main():
    chosen = options()
    if chosen.list:
        print(*(title(row) for _, rows in rows_of(chosen) for row in rows), sep="\n")
        return 0
    workers = Workers(chosen.build, chosen.device, chosen.library_path)
    facts = machine()
    print("{cpu}, {cores} cores, {system}; commit {commit}, {date}; load {load:.1f}".format(**facts))
    started = time.monotonic()
    before = ceilings(workers, chosen.threads, chosen.device)
    print("ceilings:", ceiling_text(before))
    print("time of subject and baseline, median ratio (10th to 90th percentile of"
          f" {chosen.pairs} pairs); below 1 is faster than the baseline")
    with Busy(0 if chosen.busy else None, session=True):
        results, failed, missing, late = run(chosen, workers)
    after = ceilings(workers, chosen.threads, chosen.device)
    print("\nceilings at the end:", ceiling_text(after))
    abouts = sorted({worker.about for worker in workers.running.values()})
    print("measured:", *abouts, sep="\n  ")
    for library, install in workers.missing.items():
        print(f"not measured: {library}; {install}")
    if failed or missing or late:
        print(f"left out: {len(failed)} failed, {missing} without a side, {late} for the limit of {chosen.limit:.0f} s")
    goals = [result for result in results if result["reached"] is not None]
    print(f"{sum(result['reached'] for result in goals)} of {len(goals)} goals reached, {time.monotonic() - started:.0f} s")
    plans = [] if chosen.device == "cpu" else [line for worker in workers.running.values() for line in worker.plans()]
    if plans:
        print("\nplans of mezzo's products and convolutions:", *plans, sep="\n  ")
    workers.close_all()
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": facts, "libraries": abouts, "ceilings": [before, after],
                                           "results": results, "failed": failed, "plans": plans}, indent=1) + "\n")
    return 1 if any(row["library"] == "mezzo" for row in failed) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
