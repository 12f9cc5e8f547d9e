"""The protocol of bench/worker.h for the peer PyTorch."""
import gc
import sys
import time

import torch


def memory_of_process(entry):
    """In bytes, as Linux counts: "VmRSS" now, "VmHWM" at its peak."""
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(entry + ":"))


class Timer:
    """The clockwork of bench::Worker. `cases`: what makes the body of each case, by name."""

    def __init__(self, cases, device):
        self.cases, self.device, self.on_cpu = cases, device, device.type == "cpu"
        self.open, self.warmup = {}, 2 if self.on_cpu else 12

    def repeat(self, body, calls):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        if not self.on_cpu:
            torch.cuda.synchronize(self.device)
        return time.perf_counter() - start

    def make(self, name, seconds):
        """A body and the seconds that one call of it took last."""
        if len(self.open) == 2:
            del self.open[next(iter(self.open))]
        opened = [self.cases[name](), 0.0]
        self.repeat(opened[0], self.warmup)
        calls = 1
        while calls * opened[1] < seconds / 4:
            opened[1] = self.repeat(opened[0], calls) / calls
            calls *= 2
        return opened

    def time(self, name, seconds):
        if name not in self.open:
            self.open[name] = self.make(name, seconds)
        opened = self.open[name]
        calls = 1 + int(seconds / opened[1]) if opened[1] else 1
        if not self.on_cpu:
            self.repeat(opened[0], 1)
        opened[1] = self.repeat(opened[0], calls) / calls
        return 1e9 * opened[1]

    def peak(self, name):
        if self.on_cpu:
            raise RuntimeError("PyTorch has no count of its memory on the CPU")
        self.open.clear()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        self.repeat(self.cases[name](), self.warmup)
        return torch.cuda.max_memory_allocated(self.device)

    def resident(self, name):
        before = memory_of_process("VmRSS")
        self.repeat(self.cases[name](), self.warmup)
        return memory_of_process("VmHWM") - before


def answer(timer, about, command, *arguments):
    if command == "about":
        return about
    if command == "list":
        return "\n".join(sorted(timer.cases)) + "\n"
    if command == "time":
        return timer.time(arguments[0], float(arguments[1]))
    return {"peak": timer.peak, "resident": timer.resident}[command](*arguments)


def serve(cases, device, about):
    """Answers the commands on stdin to its end."""
    timer = Timer(cases, device)
    for line in sys.stdin:
        try:
            print(answer(timer, about, *line.split()), flush=True)
        except Exception as error:  # the driver shows it and goes on
            print("error", str(error).replace("\n", " "), flush=True)
