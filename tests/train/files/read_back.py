"""Reads what python_test.cpp has written into a folder, checks it, and writes the same by the library that is named.

usage: python read_back.py numpy|safetensors|torch|tensorboard FOLDER; status 77 where the library is not there
"""
import sys

kind, folder = sys.argv[1:]


def check(good, what):
    if not good:
        sys.exit(f"{kind}: {what}")


def check_tensors(tensors, name_of):
    check(sorted(tensors) == ["flags", "half", "numbers", "reals"], sorted(tensors))
    check([list(tensors[name].shape) for name in ("flags", "half", "numbers", "reals")] == [[3], [2, 2], [4], [2, 3]],
          "shapes")
    check([name_of(tensors[name].dtype) for name in ("flags", "half", "numbers", "reals")] ==
          ["bool", "float16", "int64", "float32"], "dtypes")
    check(tensors["flags"].tolist() == [True, False, True], "flags")
    check(tensors["half"].tolist() == [[0.0, 0.5], [1.0, 1.5]], "half")
    check(tensors["numbers"].tolist() == [0, 1, 2, 3], "numbers")
    check(tensors["reals"].tolist() == [[0.0, 0.25, 0.5], [0.75, 1.0, 1.25]], "reals")


try:
    if kind == "numpy":
        import numpy
        for name in ("plain.npz", "packed.npz"):
            with numpy.load(f"{folder}/{name}") as arrays:
                check_tensors(dict(arrays), str)
                numpy.savez_compressed(f"{folder}/back_{name}", **dict(arrays))
    elif kind == "safetensors":
        from safetensors.torch import load_file, save_file
        tensors = load_file(f"{folder}/tensors.safetensors")
        check_tensors(tensors, lambda dtype: str(dtype).split(".")[1])
        save_file(tensors, f"{folder}/back.safetensors", {"who": "python"})
    elif kind == "torch":
        import torch
        tensors = torch.load(f"{folder}/tensors.pt", weights_only=True)
        check_tensors(tensors, lambda dtype: str(dtype).split(".")[1])
        torch.save(tensors, f"{folder}/back.pt")
    else:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        events = EventAccumulator(folder).Reload()
        check([(event.step, event.value) for event in events.Scalars("loss")] ==
              [(step, 1.0 / 2**step) for step in range(10)], "scalars")
except ImportError:
    sys.exit(77)
