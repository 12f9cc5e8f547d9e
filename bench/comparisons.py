"""What is compared with what, and which ratios are goals (issue 3 of the project: at most this, median of the pairs)."""

LAYERS = ["engine", "kernels", "training", "footprint"]
COMPARISONS = []


def compare(layer, subject, baseline, at_most=None):
    """Time of `subject` over time of `baseline`, each a pair of library and case."""
    COMPARISONS.append({"layer": layer, "subject": subject, "baseline": baseline, "at_most": at_most})


def against(layer, case, goals):
    """mezzo's case beside the same case of other libraries: goals maps library to the largest ratio, or None."""
    for library, at_most in goals.items():
        compare(layer, ("mezzo", case), (library, case), at_most)


def engine():
    against("engine", "add_4x4", {"libtorch": 0.25, "pytorch": None})
    against("engine", "add_4x4_recorded", {"libtorch": 0.25, "pytorch": None})
    against("engine", "matmul_16x16", {"libtorch": None, "pytorch": None})
    against("engine", "mul_chain_10_backward", {"libtorch": None, "pytorch": None})
    against("engine", "mlp_8_16_16_1_step_batch_512", {"libtorch": 1 / 3, "pytorch": None})
    against("engine", "mlp_8_16_16_1_step_batch_1", {"libtorch": 0.2, "pytorch": None})


def pointwise():
    # Bytes read and written: add moves three arrays of 4 M elements, relu two. 0.8 of a copy's rate is 1.25 of its time.
    for case, mib in (("add/f32", 48), ("relu/f32", 32), ("add/f16", 24), ("relu/f16", 16), ("add/bf16", 24),
                      ("relu/bf16", 16)):
        compare("kernels", ("mezzo", case), ("bare", f"copy_{mib}MiB"), 1.25)
    for op in ("add", "relu", "exp", "tanh", "gelu", "sigmoid"):
        goal = 1.0 if op in ("exp", "tanh", "gelu") else None
        against("kernels", f"{op}/f32", {"libtorch": goal, "pytorch": goal})
        for dtype in ("f16", "bf16"):
            compare("kernels", ("mezzo", f"{op}/{dtype}"), ("mezzo", f"{op}/f32"), 1.2)


def rows():
    for op in ("softmax", "sum", "cross_entropy"):
        for case in (op, op + "_backward"):
            against("kernels", f"{case}/f32", {"libtorch": 1.0, "pytorch": 1.0})
            for dtype in ("f16", "bf16"):
                against("kernels", f"{case}/{dtype}", {"pytorch": None})


def products():
    for size in ("512x1024x1024", "512x4096x4096", "128x512x512", "32x64x64"):
        goal = size.startswith("512")
        case = f"gemm_{size}"
        compare("kernels", ("mezzo", f"{case}/f32"), ("bare", f"{case}/f32"), 1 / 0.9 if goal else None)
        compare("kernels", ("mezzo", f"{case}/f32"), ("bare", f"{case}_sgemm/f32"), 1 / 0.9 if goal else None)
        compare("kernels", ("mezzo", f"{case}_eigen/f32"), ("bare", f"{case}/f32"), 1 / 0.7 if goal else None)
        for dtype in ("f16", "bf16"):
            compare("kernels", ("mezzo", f"{case}/{dtype}"), ("mezzo", f"{case}/f32"), 1 / 0.7 if goal else None)
        against("kernels", f"{case}/bf16", {"bare": None, "pytorch": None})
        against("kernels", f"{case}/f32", {"libtorch": None, "pytorch": None})


def training():
    for size in ("128x512", "512x1024", "512x4096"):
        goal = size.startswith("512")
        case = f"mlp_{size}"
        against("training", f"{case}/f32", {"libtorch": 1.0 if goal else None, "pytorch": 1.0 if goal else None})
        for mode in ("f16", "f16_scaler", "bf16", "bf16_scaler"):
            compare("training", ("mezzo", f"{case}/{mode}"), ("mezzo", f"{case}/f32"), 1.2 if goal else None)
        for mode in ("bf16", "bf16_scaler"):
            against("training", f"{case}/{mode}", {"pytorch": None})


def footprint():
    # cases/loop.cpp, compiled without a cache; and its program from start to end.
    compare("footprint", ("mezzo", "compile"), ("libtorch", "compile"), 0.1)
    compare("footprint", ("mezzo", "start"), ("libtorch", "start"))


footprint()
engine()
pointwise()
rows()
products()
training()
