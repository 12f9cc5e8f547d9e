"""Runs the ONNX files of test_onnx in onnxruntime: the same outputs as mezzo's, at each size of the batch.

usage: run.py TEST_ONNX    the program; it writes the files. Status 77: no onnx or no onnxruntime here.
"""
import glob
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

TOLERANCES = {"f32": 1e-5, "f16": 1e-2}  # as a part of 1 + the magnitude


def problems_of(path):
    """What is wrong with a file, a line each, and how many outputs were compared."""
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tolerance = TOLERANCES[path.split(".")[-2]]
    problems, compared = [], 0
    for name in sorted(glob.glob(glob.escape(path[: -len("onnx")]) + "*.npz")):
        values = numpy.load(name)
        feed = {one.name: values[f"in{i}"] for i, one in enumerate(session.get_inputs())}
        for i, got in enumerate(session.run(None, feed)):
            wanted = values[f"out{i}"]
            compared += 1
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                problems.append(f"{name}: output {i} is {got.dtype} {got.shape}, not {wanted.dtype} {wanted.shape}")
                continue
            got, wanted = got.astype("f8"), wanted.astype("f8")
            close = abs(got - wanted) <= tolerance * (1 + abs(wanted))
            if not numpy.all(close | (got == wanted) | (numpy.isnan(got) & numpy.isnan(wanted))):
                problems.append(f"{name}: output {i} is {numpy.nanmax(abs(got - wanted))} away")
    return problems, compared


def main():
    onnxruntime.set_default_logger_severity(3)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "--gtest_filter=Onnx.*HaveTheirNumbers"], check=True,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, MEZZO_ONNX_FOLDER=folder))
        paths = sorted(glob.glob(folder + "/*.onnx"))
        found, total = [], 0
        for path in paths:
            try:
                problems, compared = problems_of(path)
            except Exception as error:  # of any kind: each file is said
                problems, compared = [f"{path}: {error}"], 0
            found += problems
            total += compared
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {len(paths)} files, {total} outputs")
    print("\n".join(found))
    return 1 if found or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
