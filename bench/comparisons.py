"""What is compared with what, on the CPU and on a GPU, and which ratios are goals: at most this, median of the pairs."""

LAYERS = ["engine", "kernels", "norms", "ops", "conv", "optimizers", "training", "trainer", "models", "footprint"]
LAYERS_ON_GPU = ["training", "models", "engine", "kernels", "norms", "ops", "conv", "optimizers"]  # what matters most comes first: there may be a limit of time
COMPARISONS, COMPARISONS_ON_GPU = [], []
chosen = COMPARISONS  # the list that compare() adds to


def compare(layer, subject, baseline, at_most=None, **more):
    """Time of `subject` over time of `baseline`, each a pair of library and case. `more`: at_most_us, a goal for the time of
    the subject itself; unit="bytes", peak memory in place of time."""
    chosen.append({"layer": layer, "subject": subject, "baseline": baseline, "at_most": at_most, **more})


def against(layer, case, goals):
    """mezzo's case beside the same case of other libraries: goals maps library to the largest ratio, or None."""
    for library, at_most in goals.items():
        compare(layer, ("mezzo", case), (library, case), at_most)


def engine():
    against("engine", "add_4x4", {"libtorch": 0.25, "pytorch": None})
    against("engine", "add_4x4_recorded", {"libtorch": 0.25, "pytorch": None})
    against("engine", "matmul_16x16", {"libtorch": None, "pytorch": None})
    against("engine", "mul_chain_10_backward", {"libtorch": None, "pytorch": None})
    compare("engine", ("mezzo", "add_80000_profiled"), ("mezzo", "add_80000"), 1.05)
    against("engine", "mlp_8_16_16_1_step_batch_512", {"libtorch": 1 / 3, "pytorch": None})
    against("engine", "mlp_8_16_16_1_step_batch_1", {"libtorch": 0.2, "pytorch": None})
    for case, batches in (("mlp_8_16_16_1", (1, 32, 512, 4096)), ("mlp_8_64_64_4", (1, 32))):
        for step in (f"{case}_step_batch_{batch}" for batch in batches):
            for way in ("bf16", "bf16_scaler", "f16", "f16_scaler"):
                compare("engine", ("mezzo", f"{step}/{way}"), ("mezzo", step), 1.3)
                against("engine", f"{step}/{way}", {"pytorch": None})


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
            if op != "sum":
                against("kernels", f"{case}_50257/f32", {"pytorch": 1.0})
            for dtype in ("f16", "bf16"):
                against("kernels", f"{case}/{dtype}", {"pytorch": None})


ROW_NORMS = ("layer_norm_4096x1024", "layer_norm_512x4096", "rms_norm_4096x1024", "rms_norm_512x4096")
IMAGE_NORMS = ("group_norm", "batch_norm", "group_norm_channels_last", "batch_norm_channels_last")


def norms():
    for op in ROW_NORMS + IMAGE_NORMS:
        for case in (op, op + "_backward"):
            against("norms", f"{case}/f32", {"libtorch": None, "pytorch": 1.0})
            for dtype in ("f16", "bf16"):
                compare("norms", ("mezzo", f"{case}/{dtype}"), ("mezzo", f"{case}/f32"), 1.2)
                against("norms", f"{case}/{dtype}", {"pytorch": None})
    for op in ROW_NORMS[:2]:
        for dtype in ("f16", "bf16"):
            low = ("mezzo", f"{op}_low_precision_backward/{dtype}")
            for way in ("casts", "autocast"):
                compare("norms", low, ("mezzo", f"{op}_{way}_backward/{dtype}"))
            compare("norms", low, ("pytorch", f"{op}_autocast_backward/{dtype}"))


TRANSCENDENTAL = ("expm1", "log", "log2", "log10", "log1p", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
                  "erf", "erfinv", "silu", "mish", "elu", "softplus", "pow_scalar", "pow", "atan2")
CELLS = ("lstm_cell", "gru_cell", "lstm_layer", "gru_layer")
POOLS = tuple(f"{op}{layout}{what}" for op in ("max_pool2d", "max_pool2d_2x2", "max_pool2d_2x2_28", "max_pool2d_2x2_14",
                                               "avg_pool2d")
              for layout in ("", "_channels_last") for what in ("", "_backward"))
COPIES = ("copy", "copy_transposed", "copy_to_channels_last", "copy_from_channels_last", "copy_permuted_0213",
          "copy_permuted_0231", "copy_permuted_201")
SUMS_OF_VIEWS = ("sum_dim_0", "sum_middle", "sum_channels", "sum_channels_last", "sum_transposed", "sum_dim_0_transposed",
                 "sum_dim_1_transposed", "sum_middle_transposed", "sum_permuted")
QUOTIENTS = ("div_floor", "div_trunc", "remainder")
SAMPLING = ("interpolate", "interpolate_backward", "grid_sample", "grid_sample_backward")
ATTENTION = ("attention", "attention_backward", "attention_causal", "attention_causal_backward")
ATTENTION_SIZES = tuple(f"attention{causal}{sizes}{what}" for sizes in ("_64x32", "_128x64", "_2048x128")
                        for causal in ("", "_causal") for what in ("", "_backward"))
REARRANGEMENTS = ("cumsum", "sort", "sort_rows", "index", "index_backward", "scatter", "scatter_add")


def ops():
    for op in ("abs", "floor", "clamp", "leaky_relu"):
        compare("ops", ("mezzo", f"{op}/f32"), ("bare", "copy_32MiB"), 1.25)
    compare("ops", ("mezzo", "addcmul/f32"), ("bare", "copy_64MiB"), 1.25)
    for op in TRANSCENDENTAL:
        against("ops", f"{op}/f32", {"pytorch": 1.0})
    for op in POOLS + SAMPLING:
        against("ops", f"{op}/f32", {"libtorch": None, "pytorch": 1.0})
        for dtype in ("f16", "bf16"):
            against("ops", f"{op}/{dtype}", {"pytorch": None})
    for op in ATTENTION:
        against("ops", f"{op}/f32", {"libtorch": None, "pytorch": 1.0})
        against("ops", f"{op}/bf16", {"pytorch": None})
    for op in ATTENTION_SIZES:
        for dtype in ("f32", "bf16"):
            against("ops", f"{op}/{dtype}", {"pytorch": 1.0})
    for op in COPIES:
        for dtype in ("f32", "bf16", "u8"):
            against("ops", f"{op}/{dtype}", {"pytorch": 1.0})
    compare("ops", ("mezzo", "copy_transposed/f32"), ("mezzo", "copy/f32"), 2.0)
    for op in SUMS_OF_VIEWS:
        for dtype in ("f32", "bf16"):
            against("ops", f"{op}/{dtype}", {"pytorch": 1.0})
    for op in QUOTIENTS:
        for dtype in ("f32", "i64"):
            against("ops", f"{op}/{dtype}", {"pytorch": 1.0})
    for op in REARRANGEMENTS + CELLS:
        against("ops", f"{op}/f32", {"libtorch": None, "pytorch": 1.0})
    for op in ("abs", "clamp", "addcmul") + TRANSCENDENTAL + ATTENTION + REARRANGEMENTS + CELLS:
        for dtype in ("f16", "bf16"):
            compare("ops", ("mezzo", f"{op}/{dtype}"), ("mezzo", f"{op}/f32"), 1.2)


CONVOLUTIONS = tuple(name + suffix for name in ("conv2d_3x3", "conv2d_depthwise", "conv2d_1x1") for suffix in ("", "_backward"))


def convolutions():
    for case in CONVOLUTIONS:
        # oneDNN on the same row-major images; and in its own layout, as if the images lay in it.
        blocked = case.replace("_backward", "") + "_blocked" + ("_backward" if case.endswith("_backward") else "")
        eigen = case.replace("_backward", "") + "_eigen" + ("_backward" if case.endswith("_backward") else "")
        compare("conv", ("mezzo", f"{case}/f32"), ("bare", f"{case}/f32"), 1 / 0.9)
        compare("conv", ("mezzo", f"{case}/f32"), ("bare", f"{blocked}/f32"))
        compare("conv", ("mezzo", f"{eigen}/f32"), ("bare", f"{case}/f32"), 1 / 0.5)
        against("conv", f"{case}/f32", {"libtorch": 1.0, "pytorch": 1.0})
        for dtype in ("f16", "bf16"):
            compare("conv", ("mezzo", f"{case}/{dtype}"), ("mezzo", f"{case}/f32"), 1.2)


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


def narrow_parameters(size):
    compare("optimizers", ("mezzo", f"adamw_{size}_8bit/f32"), ("mezzo", f"adamw_{size}/f32"), 1.5)
    compare("optimizers", ("mezzo", f"adamw_{size}_split/bf16"), ("mezzo", f"adamw_{size}_masters/bf16"), 1.05)
    compare("optimizers", ("mezzo", f"adamw_{size}_stochastic/bf16"), ("mezzo", f"adamw_{size}/bf16"), 1.15)


def optimizers():
    # AdamW reads four arrays of 50 Mi numbers and writes three, SGD with momentum reads three and writes two.
    compare("optimizers", ("mezzo", "adamw_large/f32"), ("bare", "copy_1400MiB"), 1.25)
    compare("optimizers", ("mezzo", "adamw_large/f32"), ("pytorch", "adamw_large_fused/f32"), 1.0)
    compare("optimizers", ("mezzo", "adamw_1000x100/f32"), ("libtorch", "adamw_1000x100/f32"), 1 / 5)
    compare("optimizers", ("mezzo", "adamw_1000x100/f32"), ("pytorch", "adamw_1000x100_fused/f32"))
    compare("optimizers", ("mezzo", "sgd_momentum_large/f32"), ("bare", "copy_1000MiB"))
    for size in ("large", "1000x100"):
        compare("optimizers", ("mezzo", f"sgd_momentum_{size}/f32"), ("pytorch", f"sgd_momentum_{size}_fused/f32"))
        compare("optimizers", ("mezzo", f"adamw_{size}_scaler/f32"), ("pytorch", f"adamw_{size}_fused_scaler/f32"))
        compare("optimizers", ("mezzo", f"adamw_{size}_scaler_reads_gradients/f32"), ("mezzo", f"adamw_{size}_scaler/f32"))
        against("optimizers", f"clip_grad_norm_{size}/f32", {"libtorch": None, "pytorch": None})
        narrow_parameters(size)


def training():
    for size in ("128x512", "512x1024", "512x4096"):
        goal = size.startswith("512")
        case = f"mlp_{size}"
        against("training", f"{case}/f32", {"libtorch": 1.0 if goal else None, "pytorch": 1.0 if goal else None})
        for mode in ("f16", "f16_scaler", "bf16", "bf16_scaler"):
            compare("training", ("mezzo", f"{case}/{mode}"), ("mezzo", f"{case}/f32"), 1.2 if goal else None)
        for mode in ("bf16", "bf16_scaler"):
            against("training", f"{case}/{mode}", {"pytorch": None})


def trainer():
    # 64 steps by a Trainer, beside the loop that a user would write.
    for net in ("mlp_8_64_64_4", "mlp_784_512_512_10"):
        for mode in ("f32", "bf16", "f16_scaler"):
            compare("trainer", ("mezzo", f"{net}_trainer/{mode}"), ("mezzo", f"{net}_by_hand/{mode}"), 1.02)
    # Models of the examples from a loader, beside PyTorch's loop.
    for name in ("mnist_cnn", "char_gpt", "cifar_resnet"):
        against("trainer", f"{name}_loop/f32", {"pytorch": 0.8})
        compare("trainer", ("mezzo", f"{name}_loop/f32"), ("pytorch", f"{name}_loop/f32_compiled"), 1.0)
        against("trainer", f"{name}_loop/bf16", {"pytorch": 0.7})
        compare("trainer", ("mezzo", f"{name}_loop/bf16"), ("pytorch", f"{name}_loop/bf16_compiled"))
        for mode in ("f32", "bf16"):
            compare("trainer", ("mezzo", f"{name}_loop/{mode}"), ("pytorch", f"{name}_loop/{mode}"), 0.7, unit="resident")


POLICIES = tuple(f"policy_batch_{batch}" for batch in (1, 8, 32))
IMAGE_NETS = tuple(name + layout for name in ("conv_net", "resnet18") for layout in ("", "_channels_last")) + (
    "resnet9_channels_last",)
MODELS = ("mlp_8_16_16_1", "mlp_784_512_512_10", "mlp_4096") + POLICIES + ("gpt_4x128", "gpt_6x384") + IMAGE_NETS + ("lstm",)
NORM_MODELS = ("gpt_4x128", "gpt_6x384", "conv_net", "conv_net_channels_last")
# From which width on float8 pays on a GPU.
FLOAT8_MODELS = tuple(f"mlp_{width}_batch_4096" for width in (1024, 2048, 4096, 8192)) + ("gpt_6x384", "gpt_6x2048")
SMALL = ("mlp_8_16_16_1",) + POLICIES
# PyTorch takes seconds on a CPU for a step of the others under f16 autocast.
QUICK_IN_F16 = SMALL + ("mlp_784_512_512_10", "gpt_4x128", "lstm")


def models():
    for name in MODELS:
        policy = name in POLICIES
        against("models", f"{name}/f32", {"pytorch": 0.2 if policy else 0.8})
        compare("models", ("mezzo", f"{name}/f32"), ("pytorch", f"{name}/f32_compiled"), 1.0)
        against("models", f"{name}/bf16", {"pytorch": 0.2 if policy else 0.7})
        compare("models", ("mezzo", f"{name}/bf16"), ("pytorch", f"{name}/bf16_compiled"))
        if name in QUICK_IN_F16:
            against("models", f"{name}/f16_scaler", {"pytorch": 0.2 if policy else 0.7})
        for mode in ("bf16", "f16_scaler"):
            compare("models", ("mezzo", f"{name}/{mode}"), ("mezzo", f"{name}/f32"), 1.3 if name in SMALL else 1.1)
    # On a CPU float8 is emulated: it costs time and saves what backward keeps.
    for name in ("mlp_4096", "gpt_6x384"):
        compare("models", ("mezzo", f"{name}/fp8"), ("mezzo", f"{name}/bf16"), 1.25)
        compare("models", ("mezzo", f"{name}/fp8"), ("mezzo", f"{name}/bf16"), 1.0, unit="resident")
    for name in NORM_MODELS:
        for mode in ("bf16", "f16_scaler"):
            compare("models", ("mezzo", f"{name}_low_norms/{mode}"), ("mezzo", f"{name}/{mode}"), 1.0)
    # Half of a ResNet's memory at 16 images is f32 with autocast and without: weights, their gradients and momentum.
    for name in ("gpt_4x128", "gpt_6x384", "resnet18_batch_128") + IMAGE_NETS:
        for mode in ("f32", "bf16"):
            compare("models", ("mezzo", f"{name}/{mode}"), ("pytorch", f"{name}/{mode}"), 0.7, unit="resident")
        heavy = name.startswith(("conv_net", "resnet18_batch_128"))
        compare("models", ("mezzo", f"{name}/bf16"), ("mezzo", f"{name}/f32"), 0.65 if heavy else None, unit="resident")
    # 160 steps of sizes that vary.
    for name in ("lstm_lengths", "transformer_lengths", "convolutions_sizes"):
        compare("models", ("mezzo", f"{name}/f32"), ("pytorch", f"{name}/f32"), 1.0, unit="resident")
    # Forward is a third of a step, and what runs again ends before its last product.
    plain, checkpointed = "gpt_12x256", "gpt_12x256_checkpointed"
    for mode in ("f32", "bf16"):
        case = ("mezzo", f"{checkpointed}/{mode}")
        compare("models", case, ("mezzo", f"{plain}/{mode}"), 1.33)
        compare("models", case, ("mezzo", f"{plain}/{mode}"), 0.5 if mode == "f32" else 0.65, unit="resident")
        compare("models", case, ("pytorch", f"{checkpointed}/{mode}"), 0.8)
        compare("models", case, ("pytorch", f"{checkpointed}/{mode}"), 0.7, unit="resident")


def footprint():
    # cases/loop.cpp, compiled without a cache; and its program from start to end.
    compare("footprint", ("mezzo", "compile"), ("libtorch", "compile"), 0.1)
    compare("footprint", ("mezzo", "start"), ("libtorch", "start"))


# On a GPU. The peer is PyTorch; mezzo's own other precisions and its captured step are compared too.

GPU_SIZES = ("512x4096", "128x4096", "2048x4096")


def training_on_gpu():
    for size in GPU_SIZES:
        seed = size == "512x4096"  # the workload that the goals are about
        case = f"mlp_{size}"
        for mode in ("f16_scaler", "f32", "tf32", "f16", "bf16"):
            against("training", f"{case}/{mode}", {"pytorch": 1 / 1.3 if seed and mode == "f16_scaler" else None})
        for mode in ("f16_scaler_fused", "f16_scaler_compiled")[:2 if seed else 1]:  # a compilation takes long
            compare("training", ("mezzo", f"{case}/f16_scaler"), ("pytorch", f"{case}/{mode}"))
        captured = ("mezzo", f"{case}/f16_scaler_captured")
        compare("training", captured, ("pytorch", f"{case}/f16_scaler"), 1 / 1.75 if seed else None)
        compare("training", captured, ("mezzo", f"{case}/f16_scaler"))
        compare("training", ("mezzo", f"{case}/f16_scaler"), ("mezzo", f"{case}/f16_scaler_without_epilogues"))
        for mode, goal in (("f32", 1 / 5), ("tf32", None)):
            compare("training", ("mezzo", f"{case}/f16_scaler"), ("mezzo", f"{case}/{mode}"), goal if seed else None)
        compare("training", ("mezzo", f"{case}/f16_scaler"), ("pytorch", f"{case}/f16_scaler"), 1.0 if seed else None,
                unit="bytes")


def models_on_gpu():
    for name in MODELS:
        for mode in ("f32", "bf16", "f16_scaler"):
            against("models", f"{name}/{mode}", {"pytorch": None})
    for name in NORM_MODELS:
        compare("models", ("mezzo", f"{name}_low_norms/f16_scaler"), ("mezzo", f"{name}/f16_scaler"), 1.0)
    for name in FLOAT8_MODELS:
        compare("models", ("mezzo", f"{name}/fp8"), ("mezzo", f"{name}/bf16"), 1.0)


def engine_on_gpu():
    compare("engine", ("mezzo", "add_4x4"), ("pytorch", "add_4x4"), at_most_us=3)
    for case in ("add_4x4_recorded", "matmul_16x16", "mul_chain_10_backward"):
        against("engine", case, {"pytorch": None})
    case = "mlp_8_16_16_1_step_batch_512"
    compare("engine", ("mezzo", case), ("pytorch", case), 1 / 4)
    compare("engine", ("mezzo", f"{case}_captured"), ("pytorch", case), 1 / 10)
    compare("engine", ("mezzo", f"{case}_captured"), ("pytorch", f"{case}_captured"))


def kernels_on_gpu():
    # 64 M elements: add moves three arrays, relu two.
    for case, mib in (("add/f32", 768), ("relu/f32", 512), ("add/f16", 384), ("relu/f16", 256), ("add/bf16", 384),
                      ("relu/bf16", 256)):
        compare("kernels", ("mezzo", case), ("pytorch", f"copy_{mib}MiB"))
    for product in ("512x4096x4096", "2048x4096x4096", "8192x8192x8192"):
        for dtype in ("f32", "tf32", "f16", "bf16"):
            against("kernels", f"gemm_{product}/{dtype}", {"pytorch": None})
    for op in ("softmax", "sum", "cross_entropy"):
        for case in (op, op + "_backward") + (() if op == "sum" else (op + "_50257", op + "_backward_50257")):
            for dtype in ("f32", "f16", "bf16"):
                against("kernels", f"{case}/{dtype}", {"pytorch": None})
    for op in ("add", "relu", "exp", "tanh", "gelu", "sigmoid"):
        for dtype in ("f32", "f16", "bf16"):
            against("kernels", f"{op}/{dtype}", {"pytorch": None})


def norms_on_gpu():
    # 64 M elements. A forward moves two arrays, a backward three: 90 % and 80 % of a copy's rate are 1.11 of its time, and for
    # both one after the other (2 / 0.9 + 3 / 0.8) / 5 = 1.19 of it.
    for cols in (768, 4096, 16384):
        case = f"layer_norm_{cols}"
        for dtype, mib in (("f32", 256), ("f16", 128), ("bf16", 128)):
            for op in (case, f"rms_norm_{cols}"):
                compare("norms", ("mezzo", f"{op}/{dtype}"), ("pytorch", f"copy_{2 * mib}MiB"), 1 / 0.9)
                compare("norms", ("mezzo", f"{op}_backward/{dtype}"), ("pytorch", f"copy_{5 * mib}MiB"), 1.19)
            for direction in ("", "_backward"):
                against("norms", f"{case}{direction}/{dtype}", {"pytorch": None})
            if dtype == "f32":
                continue
            low = ("mezzo", f"{case}_low_precision_backward/{dtype}")
            compare("norms", low, ("mezzo", f"{case}_casts_backward/{dtype}"), 1 / 3)
            compare("norms", low, ("mezzo", f"{case}_autocast_backward/{dtype}"), 1 / 1.3)
            compare("norms", low, ("pytorch", f"{case}_autocast_backward/{dtype}"), 1.0)
    for op in IMAGE_NORMS:
        for case in (op, op + "_backward"):
            for dtype in ("f32", "f16"):
                against("norms", f"{case}/{dtype}", {"pytorch": None})


def ops_on_gpu():
    for op in POOLS + SAMPLING + ATTENTION + REARRANGEMENTS + CELLS:
        for dtype in ("f32", "f16"):
            against("ops", f"{op}/{dtype}", {"pytorch": None})
    for op in TRANSCENDENTAL:
        against("ops", f"{op}/f32", {"pytorch": None})


def optimizers_on_gpu():
    compare("optimizers", ("mezzo", "adamw_large/f32"), ("pytorch", "copy_1400MiB"))
    for size in ("large", "1000x100"):
        for case in (f"adamw_{size}", f"sgd_momentum_{size}"):
            for way in ("", "_fused"):  # PyTorch's own choice is foreach
                compare("optimizers", ("mezzo", f"{case}/f32"), ("pytorch", f"{case}{way}/f32"))
        compare("optimizers", ("mezzo", f"adamw_{size}_scaler/f32"), ("pytorch", f"adamw_{size}_fused_scaler/f32"))
        compare("optimizers", ("mezzo", f"adamw_{size}_scaler_reads_gradients/f32"), ("mezzo", f"adamw_{size}_scaler/f32"))
        against("optimizers", f"clip_grad_norm_{size}/f32", {"pytorch": None})
        narrow_parameters(size)


def convolutions_on_gpu():
    for case in CONVOLUTIONS:
        for dtype in ("f32", "f16", "bf16"):
            against("conv", f"{case}/{dtype}", {"pytorch": None})


footprint()
engine()
pointwise()
rows()
products()
norms()
ops()
convolutions()
optimizers()
training()
trainer()
models()
chosen = COMPARISONS_ON_GPU
training_on_gpu()
models_on_gpu()
engine_on_gpu()
kernels_on_gpu()
norms_on_gpu()
ops_on_gpu()
convolutions_on_gpu()
optimizers_on_gpu()
