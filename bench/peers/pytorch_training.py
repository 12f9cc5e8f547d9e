"""Repeats in PyTorch a training that a program of the examples has recorded (--record FILE): from the same weights, with
the same batches, learning rates and options. Prints as JSON how far the losses are apart."""
import json
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F

import pytorch_models

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def load(path):
    """The tensors and the metadata of a safetensors file."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header, data = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        (begin, end), dtype = entry["data_offsets"], DTYPES[entry["dtype"]]
        values = torch.frombuffer(data, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=begin) if end > begin else (
            torch.empty(0, dtype=dtype))
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def make_model(text):
    """Of "conv_net", "resnet9 16", "Gpt 4 128 4 64 65": a name of pytorch_models and its arguments."""
    name, *arguments = text.split()
    return getattr(pytorch_models, name)(*map(int, arguments))


def make_optimizer(parameters, text):
    state = json.loads(text)
    options = state["param_groups"][0]
    if state["optimizer"] == "AdamW":
        return torch.optim.AdamW(parameters, lr=options["lr"], betas=(options["beta1"], options["beta2"]), eps=options["eps"],
                                 weight_decay=options["weight_decay"])
    return torch.optim.SGD(parameters, lr=options["lr"], momentum=options["momentum"], weight_decay=options["weight_decay"],
                           nesterov=options["nesterov"])


def train(tensors, metadata, dtype):
    """The losses of the recorded steps, in f32 or under autocast with `dtype`."""
    net = make_model(metadata["model"])
    weights = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    net.load_state_dict(weights)
    optimizer = make_optimizer(net.parameters(), metadata["optimizer"])
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    losses = []
    for step, rate in enumerate(tensors["lr"].tolist()):
        data, target = tensors[f"data.{step}"], tensors[f"target.{step}"]
        optimizer.param_groups[0]["lr"] = rate
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            scores = net(data)
            loss = F.cross_entropy(scores.flatten(0, -2), target.flatten(),
                                   label_smoothing=float(metadata.get("label_smoothing", 0)))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if "clip_norm" in metadata:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), float(metadata["clip_norm"]))
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    torch.set_num_threads(1)
    tensors, metadata = load(sys.argv[1])
    dtype = {"fp32": None, "amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}[metadata["precision"]]
    loss = tensors["loss"]
    peer = train(tensors, metadata, dtype)
    result = {"steps": len(loss), "first": loss[0].item(), "last": loss[-1].item(), "peer_last": peer[-1].item(),
              "difference": (loss - peer).abs().max().item()}
    if dtype:
        result["noise"] = (peer - train(tensors, metadata, None)).abs().max().item()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
