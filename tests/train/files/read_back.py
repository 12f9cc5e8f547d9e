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

        def check_histogram(name, values):
            (event,) = events.Histograms(name)
            found = event.histogram_value
            check((event.step, found.num, found.min, found.max) == (10, len(values), min(values), max(values)), name)
            check(abs(found.sum - sum(values)) < 1e-9, f"{name}: sum")
            check(abs(found.sum_squares - sum(value * value for value in values)) < 1e-9, f"{name}: squares")
            # A bucket has what lies below its limit and not below the one before, as far as it is not empty.
            wanted = [sum(low <= value < high for value in values)
                      for low, high in zip([float("-inf")] + found.bucket_limit, found.bucket_limit)]
            check(found.bucket == wanted, f"{name}: buckets")

        check_histogram("weights", [(i - 50) / 8 for i in range(100)])
        check_histogram("gradients", [-1.0, 0.25, 0.25])
        check([(event.step, event.value) for event in events.Scalars("gradients/nonfinite")] == [(10, 2)], "nonfinite")

        import io

        from PIL import Image

        def pixels(name, height, width):
            (event,) = events.Images(name)
            check((event.step, event.height, event.width) == (11, height, width), f"{name}: size")
            image = Image.open(io.BytesIO(event.encoded_image_string))
            check(image.size == (width, height), f"{name}: size of the PNG")
            return list(image.getdata())

        check(pixels("picture", 3, 4) == list(range(12)), "picture")
        # Rows of 8 images of 2 x 2, with lines of 2 around each.
        wanted = [(0, 0, 0)] * (10 * 34)
        for i in range(9):
            for y in range(2):
                for x in range(2):
                    place = (2 + i // 8 * 4 + y) * 34 + 2 + i % 8 * 4 + x
                    wanted[place] = tuple(i * 12 + channel * 4 + y * 2 + x for channel in range(3))
        check(pixels("batch", 10, 34) == wanted, "batch")
except ImportError:
    sys.exit(77)
