"""The peer PyTorch of examples/gpt2: trains a random GPT-2 of the same sizes, generates greedily with a cache, and takes
turns with the program. Prints tokens per second of both, the best of all turns, and the ratios of times.

usage: pytorch_gpt2.py PROGRAM [--turns N] [--threads 1 2] [--precision fp32 amp_bf16] [--size 124m ...]
"""
import argparse
import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

# layers, heads, width, context, vocabulary, sequences per step, tokens of a sequence
SIZES = {"124m": (12, 12, 768, 1024, 50257, 1, 128), "small": (4, 4, 128, 128, 256, 8, 128)}
STEPS, TOKENS, PROMPT = 4, 32, "The cat sees a red bird. "


class Peer:
    """GPT-2 in torch's own modules."""

    def __init__(self, size, precision):
        import torch
        from torch.nn import functional
        self.torch, self.functional = torch, functional
        layers, self.heads, width, self.context, vocab, self.batch, self.block = SIZES[size]
        nn = torch.nn
        torch.manual_seed(0)
        self.net = nn.ModuleDict({"wte": nn.Embedding(vocab, width), "wpe": nn.Embedding(self.context, width),
                                  "ln_f": nn.LayerNorm(width), "h": nn.ModuleList(nn.ModuleDict({
                                      "ln_1": nn.LayerNorm(width), "c_attn": nn.Linear(width, 3 * width),
                                      "out": nn.Linear(width, width), "ln_2": nn.LayerNorm(width),
                                      "c_fc": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
                                      for _ in range(layers))})
        for parameter in self.net.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)
        self.dtype = torch.bfloat16 if precision == "amp_bf16" else torch.float32
        self.is_mixed = precision == "amp_bf16"

    def autocast(self):
        return self.torch.autocast("cpu", self.dtype) if self.is_mixed else contextlib.nullcontext()

    def features(self, tokens, caches=None, past=0):
        batch, length = tokens.shape
        x = self.net["wte"](tokens) + self.net["wpe"].weight[past:past + length]
        for i, block in enumerate(self.net["h"]):
            q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                       for part in block["c_attn"](block["ln_1"](x)).chunk(3, -1))
            if caches is not None:
                keys, values = caches[i]
                keys[:, :, past:past + length], values[:, :, past:past + length] = k, v
                k, v = keys[:, :, :past + length], values[:, :, :past + length]
            mixed = self.functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
            x = x + block["out"](mixed.transpose(1, 2).reshape(x.shape))
            x = x + block["down"](self.functional.gelu(block["c_fc"](block["ln_2"](x)), approximate="tanh"))
        return self.net["ln_f"](x)

    def train(self):
        """Tokens per second in the fastest step, and processor seconds of a step. The first step is not timed."""
        torch, functional = self.torch, self.functional
        decayed = [p for p in self.net.parameters() if p.dim() > 1]
        others = [p for p in self.net.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
        fastest = float("inf")
        for step in range(STEPS + 1):
            begin, used = time.perf_counter(), processor_seconds()
            if step == 1:
                start = used
            tokens = torch.randint(256, (self.batch, self.block + 1))
            with self.autocast():
                logits = functional.linear(self.features(tokens[:, :-1]), self.net["wte"].weight)
                loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            loss.item()
            if step > 0:
                fastest = min(fastest, time.perf_counter() - begin)
        return self.batch * self.block / fastest, (processor_seconds() - start) / STEPS

    def generate(self):
        """Tokens per second, and processor seconds of a token."""
        torch = self.torch
        tokens = list(PROMPT.encode())
        begin, used = time.perf_counter(), processor_seconds()
        with torch.inference_mode(), self.autocast():
            shape = (1, self.heads, self.context, self.net["wte"].weight.shape[1] // self.heads)
            caches = [[torch.empty(shape, dtype=self.dtype) for _ in range(2)] for _ in self.net["h"]]
            new, past = torch.tensor([tokens]), 0
            for _ in range(TOKENS):
                last = self.features(new, caches, past)[:, -1]
                past += new.shape[1]
                tokens.append(int(self.functional.linear(last, self.net["wte"].weight)[0, :256].argmax()))
                new = torch.tensor([tokens[-1:]])
        return TOKENS / (time.perf_counter() - begin), (processor_seconds() - used) / TOKENS


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_peer(size, precision, threads):
    command = [sys.executable, __file__, "-", "--size", size, "--precision", precision, "--threads", str(threads)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(number) for number in text.split()]


def run_program(program, size, precision, threads, text_file):
    layers, heads, width, context, vocab, batch, block = SIZES[size]
    options = {"layers": layers, "heads": heads, "width": width, "context": context, "vocab-size": vocab, "batch-size": batch,
               "block": block, "steps": STEPS + 1, "dropout": 0, "precision": precision, "generate": TOKENS,
               "prompt": PROMPT, "temperature": 0, "data": text_file, "device": "cpu"}
    command = [program] + [word for name, value in options.items() for word in (f"--{name}", str(value))]
    text = subprocess.run(command, check=True, capture_output=True, text=True,
                          env=os.environ | {"OMP_NUM_THREADS": str(threads)}).stdout
    trained = re.search(r"([\d.]+) in the fastest step, ([\d.]+) s", text)
    generated = re.search(r"tokens: ([\d.]+) per second, ([\d.]+) s", text)
    return [float(trained[1]), float(trained[2]) / STEPS, float(generated[1]), float(generated[2]) / TOKENS]


def compare(arguments, size, precision, threads, text_file):
    best = {}
    for _ in range(arguments.turns):
        for name, result in (("mezzo", run_program(arguments.program, size, precision, threads, text_file)),
                             ("PyTorch", run_peer(size, precision, threads))):
            best[name] = [pick(a, b) for pick, a, b in zip((max, min, max, min), best.get(name, result), result)]
    for i, label in enumerate(("training, tokens per second", "training, processor seconds per step",
                               "generating, tokens per second", "generating, processor seconds per token")):
        ours, theirs = best["mezzo"][i], best["PyTorch"][i]
        ratio = ours / theirs if i % 2 else theirs / ours
        print(f"| {size}, {precision}, {threads} thread{'s' * (threads > 1)} | {label} | {ours:.4g} | {theirs:.4g} | "
              f"{ratio:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="build/release/examples/gpt2")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precision", nargs="+", default=["fp32", "amp_bf16"], choices=["fp32", "amp_bf16"])
    parser.add_argument("--size", nargs="+", default=["124m"], choices=SIZES)
    arguments = parser.parse_args()
    if arguments.program == "-":  # one turn of the peer, in a process of its own
        import torch
        torch.set_num_threads(arguments.threads[0])
        peer = Peer(arguments.size[0], arguments.precision[0])
        print(*peer.train(), *peer.generate())
        return
    print("| sizes | what | mezzo | PyTorch | mezzo's time / PyTorch's |\n| --- | --- | --- | --- | --- |")
    with tempfile.NamedTemporaryFile("w") as text:
        text.write("The cat sees a red bird. A dog hears no ship. " * 60)
        text.flush()
        for size in arguments.size:
            for threads in arguments.threads:
                for precision in arguments.precision:
                    compare(arguments, size, precision, threads, text.name)


if __name__ == "__main__":
    main()
