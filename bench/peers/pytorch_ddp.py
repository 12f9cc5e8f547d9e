"""The networks of bench/cases/data_parallel.cpp under PyTorch's DistributedDataParallel, by gloo: one process per rank on
this machine. Rank 0, which starts the others, reads the commands of bench/worker.h.
usage: pytorch_ddp.py RANKS [THREADS]"""
import contextlib
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import pytorch_models


def make_net(name):
    """The net, its input and target, and whether AdamW trains it."""
    if name.startswith("mlp_"):
        width = int(name.split("_")[1])
        return pytorch_models.mlp([width] * 4), torch.randn(256, width), torch.randn(256, width), False
    if name == "gpt_4x128":
        return (pytorch_models.Gpt(4, 128, 4, 128), torch.randint(0, 256, (8, 128)), torch.randint(0, 256, (8 * 128,)), True)
    return pytorch_models.resnet18(16), torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)), False


class Training:
    def __init__(self, name, dtype, way):
        self.net, self.input, self.target, with_adamw = make_net(name)
        self.dtype = torch.bfloat16 if dtype == "bf16" else None
        if way != "alone":
            self.net = DistributedDataParallel(self.net, gradient_as_bucket_view=True)
            if way == "compressed":
                from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
                self.net.register_comm_hook(None, bf16_compress_hook)
        kind, options = (torch.optim.AdamW, {}) if with_adamw else (torch.optim.SGD, {"momentum": 0.9})
        if way == "sharded":
            from torch.distributed.optim import ZeroRedundancyOptimizer
            self.optimizer = ZeroRedundancyOptimizer(self.net.parameters(), optimizer_class=kind, lr=1e-3, **options)
        else:
            self.optimizer = kind(self.net.parameters(), lr=1e-3, **options)

    def forward_backward(self):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", self.dtype) if self.dtype else contextlib.nullcontext():
            y = self.net(self.input)
            loss = (F.mse_loss(y, self.target) if self.target.is_floating_point() else
                    F.cross_entropy(y.reshape(-1, y.shape[-1]), self.target))
        loss.backward()

    def step(self):
        self.forward_backward()
        self.optimizer.step()


def make(name):
    words = name.split("/")
    if words[0] == "all_reduce":
        values = torch.ones(int(words[1]) // 4)
        return lambda: dist.all_reduce(values, op=dist.ReduceOp.MAX)
    training = Training(*words[:3])
    return training.forward_backward if len(words) == 4 else training.step


def seconds_of(body, calls):
    start = time.perf_counter()
    for _ in range(calls):
        body()
    return time.perf_counter() - start


class Server:
    def __init__(self):
        self.bodies = {}

    def time(self, name, seconds):
        if name not in self.bodies:
            if len(self.bodies) == 2:
                self.bodies.clear()
            self.bodies[name] = make(name)
            seconds_of(self.bodies[name], 3)
        body = self.bodies[name]
        dist.barrier()
        calls = [1 + int(seconds / (seconds_of(body, 2) / 2))]
        dist.broadcast_object_list(calls, src=0)
        dist.barrier()
        return 1e9 * seconds_of(body, calls[0]) / calls[0]

    def serve(self):
        is_first = dist.get_rank() == 0
        while True:
            line = [(sys.stdin.readline().strip() or "end") if is_first else ""]
            dist.broadcast_object_list(line, src=0)
            words = line[0].split()
            if words[0] == "end":
                return
            if words[0] == "time":
                nanoseconds = self.time(words[1], float(words[2]))
                if is_first:
                    print(nanoseconds, flush=True)
            elif is_first:
                print(f"PyTorch {torch.__version__}, gloo, {dist.get_world_size()} ranks" if words[0] == "about" else "", flush=True)


def main():
    ranks, threads = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(29500 + os.getpid() % 1000))
    os.environ.setdefault("WORLD_SIZE", str(ranks))
    others = []
    if "RANK" not in os.environ:
        others = [subprocess.Popen([sys.executable] + sys.argv, env=dict(os.environ, RANK=str(rank)), stdin=subprocess.DEVNULL)
                  for rank in range(1, ranks)]
        os.environ["RANK"] = "0"
    torch.set_num_threads(threads)
    dist.init_process_group("gloo")
    Server().serve()
    dist.destroy_process_group()
    for other in others:
        other.wait()


if __name__ == "__main__":
    main()
