"""The peer PyTorch, by its Python interface: the cases of bench/cases under the same names, and the protocol of bench/worker.h.
`--device D` is cpu (the default), cuda or cuda:N."""
import argparse
import warnings

warnings.filterwarnings("ignore")
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from pytorch_models import loop_cases, model_cases  # noqa: E402
from pytorch_optimizers import optimizer_cases  # noqa: E402
from pytorch_views import view_cases  # noqa: E402
from pytorch_worker import serve  # noqa: E402

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--device", type=torch.device, default=torch.device("cpu"))
DEVICE = PARSER.parse_args().device
ON_CPU = DEVICE.type == "cpu"
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CASES = {}
COLS = 1024
ELEMENTS = 4 << 20 if ON_CPU else 64 << 20  # as in cases/kernels.cpp
ROWS = ELEMENTS // COLS
MILLION = 1 << 20
PRODUCTS = {"512x1024x1024": (512, 1024, 1024), "512x4096x4096": (512, 4096, 4096),
            "2048x4096x4096": (2048, 4096, 4096), "8192x8192x8192": (8192, 8192, 8192),
            "128x512x512": (128, 512, 512), "32x64x64": (32, 64, 64)}
SIZES = {"128x512": (128, 512), "512x1024": (512, 1024), "128x4096": (128, 4096), "512x4096": (512, 4096),
         "2048x4096": (2048, 4096)}


# As in convolutions.h: batch, channels in and out, size, kernel, padding, groups.
CONVOLUTIONS = {"conv2d_3x3": (32, 64, 64, 56, 3, 1, 1), "conv2d_depthwise": (32, 64, 64, 56, 3, 1, 64),
                "conv2d_1x1": (32, 64, 256, 56, 1, 0, 1)}


def normal(shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).to(dtype)


def in_tf32(setup):
    """The same case with products of f32 matrices in TF32."""
    def made():
        body = setup()

        def step():
            torch.backends.cuda.matmul.allow_tf32 = True
            body()
            torch.backends.cuda.matmul.allow_tf32 = False
        return step
    return made


def leaf(x):
    return x.detach().requires_grad_(True)


def plain(op, *args):
    """A body that runs op(*args) without recording."""
    def body():
        with torch.no_grad():
            op(*args)
    return body


def add_engine():
    CASES["add_4x4"] = lambda: plain(torch.add, normal((4, 4)), normal((4, 4)))
    CASES["matmul_16x16"] = lambda: plain(torch.matmul, normal((16, 16)), normal((16, 16)))

    def recorded():
        x, y = leaf(normal((4, 4))), normal((4, 4))
        return lambda: x + y

    def chain():
        x = leaf(normal((1,)))

        def body():
            y = x
            for _ in range(10):
                y = y * x
            torch.autograd.grad(y, x)
        return body
    CASES["add_4x4_recorded"] = recorded
    CASES["mul_chain_10_backward"] = chain
    for sizes, batches in (((8, 16, 16, 1), (1, 32, 512, 4096)), ((8, 64, 64, 4), (1, 32))):
        for batch in batches:
            add_small_steps(f"mlp_{'_'.join(map(str, sizes))}_step_batch_{batch}", sizes, batch)


def add_small_steps(case, sizes, batch):
    CASES[case] = lambda: Mlp(sizes, batch).step
    if not ON_CPU:
        CASES[f"{case}_captured"] = lambda: Mlp(sizes, batch).captured()
    for name in ("f16", "bf16"):
        for scaled in (False, True):
            CASES[f"{case}/{name}{'_scaler' if scaled else ''}"] = (
                lambda dtype=FLOATS[name], scaled=scaled: Mlp(sizes, batch, dtype, scaled).mixed_step)


def with_gradient(function, x, grad_output=None):
    return lambda: torch.autograd.grad(function(x), x, grad_output)


def add_kernels(name, dtype):
    CASES[f"add/{name}"] = lambda: plain(torch.add, normal(ELEMENTS, dtype), normal(ELEMENTS, dtype))
    for op in (torch.relu, torch.exp, torch.tanh, F.gelu, torch.sigmoid):
        CASES[f"{op.__name__}/{name}"] = lambda op=op: plain(op, normal(ELEMENTS, dtype))

    def softmax(x):
        return F.softmax(x, -1)

    def rows(cols=COLS):
        return normal((ROWS * COLS // cols, cols), dtype)
    CASES[f"sum/{name}"] = lambda: plain(torch.sum, rows())
    CASES[f"sum_backward/{name}"] = lambda: with_gradient(torch.sum, leaf(rows()))
    for cols, of in ((COLS, ""), (50257, "_50257")):
        def classes(cols=cols):
            return torch.randint(cols, (ROWS * COLS // cols,), device=DEVICE)

        def cross_entropy_backward(cols=cols, classes=classes):
            target = classes()
            return with_gradient(lambda x: F.cross_entropy(x, target), leaf(rows(cols)))
        CASES[f"softmax{of}/{name}"] = lambda cols=cols: plain(softmax, rows(cols))
        CASES[f"softmax_backward{of}/{name}"] = lambda cols=cols: with_gradient(softmax, leaf(rows(cols)), rows(cols))
        CASES[f"cross_entropy{of}/{name}"] = lambda cols=cols, classes=classes: plain(F.cross_entropy, rows(cols), classes())
        CASES[f"cross_entropy_backward{of}/{name}"] = cross_entropy_backward
    if name != "f16" or not ON_CPU:  # a product of f16 matrices takes PyTorch a minute on a CPU
        for product, (m, k, n) in PRODUCTS.items():
            CASES[f"gemm_{product}/{name}"] = (
                lambda m=m, k=k, n=n: plain(torch.matmul, normal((m, k), dtype), normal((k, n), dtype)))
            if name == "f32" and not ON_CPU:
                CASES[f"gemm_{product}/tf32"] = in_tf32(CASES[f"gemm_{product}/f32"])


def norm_cases(name, dtype, case, function, shape, parameters, lay=lambda x: x):
    def inputs():
        return [lay(normal(shape, dtype)), normal((parameters,), dtype), normal((parameters,), dtype)]

    def backward():
        leaves, g = [leaf(x) for x in inputs()], lay(normal(shape, dtype))
        return lambda: torch.autograd.grad(function(*leaves), leaves, g)
    CASES[f"{case}/{name}"] = lambda: plain(function, *inputs())
    CASES[f"{case}_backward/{name}"] = backward


def add_ops(name, dtype):
    """As cases/ops.cpp."""
    def real():
        return torch.randn(ELEMENTS, device=DEVICE)

    def positive():
        return real().abs() + 0.01

    def unit():
        return real().tanh() * 0.99

    def add(case, op, *inputs):
        CASES[f"{case}/{name}"] = lambda: plain(op, *(make().to(dtype) for make in inputs))
    for op in ("abs", "floor", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "erf"):
        add(op, getattr(torch, op), real)
    for op in ("log", "log2", "log10", "log1p", "rsqrt"):
        add(op, getattr(torch, op), positive)
    for op in ("asin", "acos", "erfinv"):
        add(op, getattr(torch, op), unit)
    for op in (F.leaky_relu, F.silu, F.mish, F.elu, F.softplus):
        add(op.__name__, op, real)
    add("clamp", lambda x: torch.clamp(x, -0.5, 0.5), real)
    add("pow_scalar", lambda x: torch.pow(x, 2.5), positive)
    add("pow", torch.pow, positive, real)
    add("atan2", torch.atan2, real, real)
    add("addcmul", torch.addcmul, real, real, real)


def row_norm_cases(name, dtype, size, rows, cols):
    norm_cases(name, dtype, f"layer_norm_{size}", lambda x, w, b: F.layer_norm(x, (cols,), w, b), (rows, cols), cols)

    def rms(x, w):
        return F.rms_norm(x, (cols,), w)

    def inputs():
        return [normal((rows, cols), dtype), normal((cols,), dtype)]

    def backward():
        leaves, g = [leaf(x) for x in inputs()], normal((rows, cols), dtype)
        return lambda: torch.autograd.grad(rms(*leaves), leaves, g)
    CASES[f"rms_norm_{size}/{name}"] = lambda: plain(rms, *inputs())
    CASES[f"rms_norm_{size}_backward/{name}"] = backward
    if name == "f32":
        return

    def autocast_backward():
        x, w, b = leaf(normal((rows, cols), dtype)), leaf(normal((cols,))), leaf(normal((cols,)))
        g = normal((rows, cols), dtype)

        def body():
            with torch.autocast(DEVICE.type, dtype):
                y = F.layer_norm(x, (cols,), w, b).to(dtype)
            torch.autograd.grad(y, [x, w, b], g)
        return body
    CASES[f"layer_norm_{size}_autocast_backward/{name}"] = autocast_backward


def add_norms(name, dtype):
    """As cases/norms.cpp."""
    if ON_CPU:
        row_norm_cases(name, dtype, "4096x1024", 4096, 1024)
        row_norm_cases(name, dtype, "512x4096", 512, 4096)
    else:
        for cols in (768, 4096, 16384):
            row_norm_cases(name, dtype, str(cols), ELEMENTS // cols, cols)
    image = (32 if ON_CPU else 512, 64, 56, 56)
    for norm, function in (("group_norm", lambda x, w, b: F.group_norm(x, 32, w, b)),
                           ("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True))):
        norm_cases(name, dtype, norm, function, image, 64)
        norm_cases(name, dtype, f"{norm}_channels_last", function, image, 64,
                   lambda x: x.contiguous(memory_format=torch.channels_last))


def add_pools(name, dtype):
    images = 32 if ON_CPU else 512
    pools = {"max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (images, 64, 56, 56)),
             "max_pool2d_2x2": (lambda x: F.max_pool2d(x, 2), (images, 64, 56, 56)),
             "max_pool2d_2x2_28": (lambda x: F.max_pool2d(x, 2), (2 * images, 32, 28, 28)),
             "max_pool2d_2x2_14": (lambda x: F.max_pool2d(x, 2), (2 * images, 64, 14, 14)),
             "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (images, 64, 56, 56))}
    for op, (pool, shape) in pools.items():
        for layout, form in (("", torch.contiguous_format), ("_channels_last", torch.channels_last)):
            def image(form=form, shape=shape):
                return normal(shape, dtype).contiguous(memory_format=form)

            def backward(image=image, pool=pool):
                x = leaf(image())
                return with_gradient(pool, x, pool(x.detach()))
            CASES[f"{op}{layout}/{name}"] = lambda image=image, pool=pool: plain(pool, image())
            CASES[f"{op}{layout}_backward/{name}"] = backward


# As kAttention in cases/ops.cpp: samples, keys, numbers.
ATTENTION = {"": (8, 512, 64), "_64x32": (16, 64, 32), "_128x64": (8, 128, 64), "_2048x128": (1, 2048, 128)}


def add_attention(name, dtype):
    for sizes, (samples, keys, size) in ATTENTION.items():
        shape = (samples * (1 if ON_CPU else 8), 8, keys, size)

        def backward(causal, shape=shape):
            leaves, g = [leaf(normal(shape, dtype)) for _ in range(3)], normal(shape, dtype)
            return lambda: torch.autograd.grad(F.scaled_dot_product_attention(*leaves, is_causal=causal), leaves, g)
        for case, causal in (("attention", False), ("attention_causal", True)):
            CASES[f"{case}{sizes}/{name}"] = lambda causal=causal, shape=shape: plain(
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), *(normal(shape, dtype) for _ in range(3)))
            CASES[f"{case}{sizes}_backward/{name}"] = lambda causal=causal, backward=backward: backward(causal)


def add_convolutions(name, dtype):
    for case, (batch, channels, out, size, kernel, padding, groups) in CONVOLUTIONS.items():
        def function(x, w, b, padding=padding, groups=groups):
            return F.conv2d(x, w, b, padding=padding, groups=groups)

        def inputs(shapes=((batch, channels, size, size), (out, channels // groups, kernel, kernel), (out,))):
            return [normal(shape, dtype) for shape in shapes]

        def backward(function=function, inputs=inputs, shape=(batch, out, size, size)):
            leaves, g = [leaf(x) for x in inputs()], normal(shape, dtype)
            return lambda: torch.autograd.grad(function(*leaves), leaves, g)
        CASES[f"{case}/{name}"] = lambda function=function, inputs=inputs: plain(function, *inputs())
        CASES[f"{case}_backward/{name}"] = backward


def add_rearrangements(name, dtype):
    def million():
        return normal(MILLION, dtype)

    def places():
        return torch.randint(MILLION, (MILLION,), device=DEVICE)

    def index_backward():
        at = places()
        return with_gradient(lambda x: x[at], leaf(million()), million())
    CASES[f"cumsum/{name}"] = lambda: plain(lambda x: torch.cumsum(x, 0), million())
    CASES[f"sort/{name}"] = lambda: plain(torch.sort, million())
    CASES[f"sort_rows/{name}"] = lambda: plain(torch.sort, normal((MILLION // COLS, COLS), dtype))
    CASES[f"index/{name}"] = lambda: plain(lambda x, at: x[at], million(), places())
    CASES[f"index_backward/{name}"] = index_backward
    for op in ("scatter", "scatter_add"):
        CASES[f"{op}/{name}"] = lambda op=op: plain(lambda x, at, y: getattr(torch, op)(x, 0, at, y), million(), places(),
                                                    million())


def add_cells(name, dtype):
    """Loops of recurrent cells and the LSTM layer as cases/ops.cpp has them, in f32 or under autocast."""
    if name == "f16" and ON_CPU:
        return
    steps, batch, size = 64, 32, 256

    def loop(kind, step):
        cell = kind(size, size, device=DEVICE)
        inputs, start = [normal((batch, size)) for _ in range(steps)], (normal((batch, size)), normal((batch, size)))
        grad_output = normal((batch, size), dtype)

        def body():
            state = start
            with torch.autocast(DEVICE.type, dtype=dtype, enabled=dtype != torch.float32):
                for x in inputs:
                    state = step(cell, x, state)
            torch.autograd.grad(state[0], list(cell.parameters()), grad_output.to(state[0].dtype))
        return body
    CASES[f"lstm_cell/{name}"] = lambda: loop(torch.nn.LSTMCell, lambda cell, x, state: cell(x, state))
    CASES[f"gru_cell/{name}"] = lambda: loop(torch.nn.GRUCell, lambda cell, x, state: (cell(x, state[0]),))

    def layer(kind):
        recurrent = kind(size, size, device=DEVICE)
        x, grad_output = normal((steps, batch, size)), normal((steps, batch, size), dtype)

        def body():
            with torch.autocast(DEVICE.type, dtype=dtype, enabled=dtype != torch.float32):
                y = recurrent(x)[0]
            torch.autograd.grad(y, list(recurrent.parameters()), grad_output.to(y.dtype))
        return body
    CASES[f"lstm_layer/{name}"] = lambda: layer(torch.nn.LSTM)
    CASES[f"gru_layer/{name}"] = lambda: layer(torch.nn.GRU)


def add_sampling(name, dtype):
    batch = 8 if ON_CPU else 128

    def image(size=56):
        return normal((batch, 64, size, size), dtype)

    def places():
        return normal((batch, 56, 56, 2)).tanh().to(dtype)

    def enlarged(x):
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)

    def sampled(x, grid):
        return F.grid_sample(x, grid, align_corners=False)
    CASES[f"interpolate/{name}"] = lambda: plain(enlarged, image())
    CASES[f"interpolate_backward/{name}"] = lambda: with_gradient(enlarged, leaf(image()), image(112))
    CASES[f"grid_sample/{name}"] = lambda: plain(sampled, image(), places())

    def sample_backward():
        x, grid, g = leaf(image()), leaf(places()), image()
        return lambda: torch.autograd.grad(sampled(x, grid), (x, grid), g)
    CASES[f"grid_sample_backward/{name}"] = sample_backward


def add_copies():
    for mib in (256, 384, 512, 640, 768, 1024, 1280, 1400):
        CASES[f"copy_{mib}MiB"] = lambda count=mib << 17: plain(normal(count).copy_, normal(count))


class Mlp:
    """Linear layers with ReLU between them and SGD; in f32, or under autocast to `dtype`, with GradScaler when `scaled`."""

    def __init__(self, sizes, batch, dtype=torch.float32, scaled=False, fused=False, compiled=False):
        torch.manual_seed(0)
        layers = []
        for i in range(len(sizes) - 1):
            layers += ([torch.nn.ReLU()] if i else []) + [torch.nn.Linear(sizes[i], sizes[i + 1])]
        self.net = torch.nn.Sequential(*layers).to(DEVICE)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, fused=fused or None)
        if compiled:
            self.net = torch.compile(self.net)
        self.scaler = torch.amp.GradScaler(DEVICE.type, enabled=scaled)
        self.x, self.target = normal((batch, sizes[0])), normal((batch, sizes[-1]))
        self.dtype = dtype

    def step(self):
        F.mse_loss(self.net(self.x), self.target).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def mixed_step(self):
        with torch.autocast(DEVICE.type, dtype=self.dtype):
            loss = F.mse_loss(self.net(self.x), self.target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def captured(self):
        """The f32 step as one CUDA graph, recorded as PyTorch's notes on CUDA graphs say."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            F.mse_loss(self.net(self.x), self.target).backward()
            self.optimizer.step()
        return lambda keep=self: graph.replay()


def add_training():
    for size, (batch, width) in SIZES.items():
        def add(mode, *how, batch=batch, width=width, size=size):
            CASES[f"mlp_{size}/{mode}"] = lambda: Mlp((width,) * 4, batch, *how).mixed_step

        CASES[f"mlp_{size}/f32"] = lambda batch=batch, width=width: Mlp((width,) * 4, batch).step
        add("bf16", torch.bfloat16)
        add("bf16_scaler", torch.bfloat16, True)
        if not ON_CPU:
            CASES[f"mlp_{size}/tf32"] = in_tf32(CASES[f"mlp_{size}/f32"])
            add("f16", torch.float16)
            add("f16_scaler", torch.float16, True)
            add("f16_scaler_fused", torch.float16, True, True)
            add("f16_scaler_compiled", torch.float16, True, True, True)


def about():
    if ON_CPU:
        return f"PyTorch {torch.__version__} (Python), {torch.get_num_threads()} thread(s)"
    return (f"PyTorch {torch.__version__} (Python) on {torch.cuda.get_device_name(DEVICE)}, CUDA {torch.version.cuda}, "
            f"f32 without TF32 unless named tf32, cudnn.benchmark on")


def main():
    if not ON_CPU:
        torch.cuda.set_device(torch.device("cuda", DEVICE.index or 0))
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    add_engine()
    for name, dtype in FLOATS.items():
        add_kernels(name, dtype)
        add_norms(name, dtype)
        add_ops(name, dtype)
        add_pools(name, dtype)
        add_attention(name, dtype)
        add_rearrangements(name, dtype)
        add_cells(name, dtype)
        add_sampling(name, dtype)
        add_convolutions(name, dtype)
    add_training()
    CASES.update(optimizer_cases(DEVICE))
    CASES.update(model_cases(DEVICE))
    CASES.update(loop_cases(DEVICE))
    CASES.update(view_cases(DEVICE, FLOATS))
    if not ON_CPU:
        add_copies()
    serve(CASES, DEVICE, about())


main()
