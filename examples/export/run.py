"""Runs the files of the program export in onnxruntime and compares with what mezzo computed.

usage: python3 run.py FOLDER     needs: pip install numpy onnxruntime
"""
import sys

import numpy
import onnxruntime

for name, tolerance in (("digits.f32", 1e-5), ("digits.f16", 1e-2)):
    path = f"{sys.argv[1]}/{name}"
    values = numpy.load(path + ".npz")
    session = onnxruntime.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"image": values["image"]})
    error = abs(scores.astype("f8") - values["scores"].astype("f8")) / (1 + abs(values["scores"].astype("f8")))
    print(f"{name}: largest error {error.max():.1e}, allowed {tolerance}")
    if not error.max() <= tolerance:
        sys.exit(1)
