"""Writes gpt2.safetensors: the weights of a small random GPT-2 as Hugging Face publishes them, tokens, and what PyTorch
makes of them: logits in f32 and in f64, the loss, and the gradients of some weights.

usage: gpt2.py [FILE]      needs torch and safetensors
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

VOCAB, CONTEXT, WIDTH, LAYERS, HEADS = 61, 16, 32, 2, 4
GRADIENTS = ("wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight", "h.1.attn.c_proj.bias",
             "h.1.mlp.c_fc.bias", "ln_f.bias")


def random_weights(generator):
    """Weights of a spread at which every part of the model counts: with GPT-2's own 0.02 attention is nearly even."""
    def normal(*shape, mean=0.0, std=0.3):
        return mean + std * torch.randn(*shape, generator=generator)

    weights = {"wte.weight": normal(VOCAB, WIDTH), "wpe.weight": normal(CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        for norm in ("ln_1", "ln_2"):
            weights[f"h.{layer}.{norm}.weight"] = normal(WIDTH, mean=1.0)
            weights[f"h.{layer}.{norm}.bias"] = normal(WIDTH)
        # Conv1D: [in, out].
        for name, inputs, outputs in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                      ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            weights[f"h.{layer}.{name}.weight"] = normal(inputs, outputs)
            weights[f"h.{layer}.{name}.bias"] = normal(outputs)
    weights["ln_f.weight"] = normal(WIDTH, mean=1.0)
    weights["ln_f.bias"] = normal(WIDTH)
    return weights


def logits_of(weights, tokens):
    """GPT-2's forward, op by op."""
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def conv1d(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    batch, length = tokens.shape
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:length]
    for layer in range(LAYERS):
        prefix = f"h.{layer}."
        parts = conv1d(norm(x, prefix + "ln_1"), prefix + "attn.c_attn").split(WIDTH, dim=-1)
        q, k, v = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).masked_fill(later, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + conv1d(mixed, prefix + "attn.c_proj")
        hidden = F.gelu(conv1d(norm(x, prefix + "ln_2"), prefix + "mlp.c_fc"), approximate="tanh")
        x = x + conv1d(hidden, prefix + "mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].t()


def main():
    generator = torch.Generator().manual_seed(23)
    weights = random_weights(generator)
    tokens = torch.randint(VOCAB, (2, CONTEXT), generator=generator)
    targets = torch.randint(VOCAB, (2, CONTEXT), generator=generator)
    leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    logits = logits_of(leaves, tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    file = {f"weights.{name}": weight for name, weight in weights.items()}
    for layer in range(LAYERS):  # which files of transformers hold besides
        file[f"weights.h.{layer}.attn.bias"] = torch.ones(CONTEXT, CONTEXT).tril().bool()[None, None]
        file[f"weights.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    file |= {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
    file["logits_f64"] = logits_of({name: weight.double() for name, weight in weights.items()}, tokens)
    file |= {f"gradients.{name}": leaves[name].grad for name in GRADIENTS}
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".safetensors")
    version = torch.__version__.split("+")[0]
    save_file({name: tensor.contiguous() for name, tensor in file.items()}, path,
              {"made_by": f"tests/examples/files/gpt2.py, PyTorch {version}"})
    worst = (logits.double() - file["logits_f64"]).abs().max()
    print(f"logits up to {logits.abs().max():.3g}, f32 off f64 by {worst:.2g}, loss {loss:.6g}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
