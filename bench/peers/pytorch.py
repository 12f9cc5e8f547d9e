"""The peer PyTorch, by its Python interface: the cases of bench/cases under the same names, and the protocol of bench/worker.h."""
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CASES = {}
ELEMENTS, ROWS, COLS = 4 << 20, 4096, 1024
PRODUCTS = {"512x1024x1024": (512, 1024, 1024), "512x4096x4096": (512, 4096, 4096),
            "128x512x512": (128, 512, 512), "32x64x64": (32, 64, 64)}
SIZES = {"128x512": (128, 512), "512x1024": (512, 1024), "512x4096": (512, 4096)}


def normal(shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


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
    for batch in (1, 512):
        CASES[f"mlp_8_16_16_1_step_batch_{batch}"] = lambda batch=batch: mlp((8, 16, 16, 1), batch, torch.float32, False)


def with_gradient(function, x, grad_output=None):
    return lambda: torch.autograd.grad(function(x), x, grad_output)


def add_kernels(name, dtype):
    CASES[f"add/{name}"] = lambda: plain(torch.add, normal(ELEMENTS, dtype), normal(ELEMENTS, dtype))
    for op in (torch.relu, torch.exp, torch.tanh, F.gelu, torch.sigmoid):
        CASES[f"{op.__name__}/{name}"] = lambda op=op: plain(op, normal(ELEMENTS, dtype))

    def softmax(x):
        return F.softmax(x, -1)

    def rows():
        return normal((ROWS, COLS), dtype)

    def classes():
        return torch.randint(COLS, (ROWS,))
    CASES[f"softmax/{name}"] = lambda: plain(softmax, rows())
    CASES[f"softmax_backward/{name}"] = lambda: with_gradient(softmax, leaf(rows()), rows())
    CASES[f"sum/{name}"] = lambda: plain(torch.sum, rows())
    CASES[f"sum_backward/{name}"] = lambda: with_gradient(torch.sum, leaf(rows()))
    CASES[f"cross_entropy/{name}"] = lambda: plain(F.cross_entropy, rows(), classes())

    def cross_entropy_backward():
        target = classes()
        return with_gradient(lambda x: F.cross_entropy(x, target), leaf(rows()))
    CASES[f"cross_entropy_backward/{name}"] = cross_entropy_backward
    if name != "f16":  # a product of f16 matrices takes PyTorch a minute on this kind of CPU
        for product, (m, k, n) in PRODUCTS.items():
            CASES[f"gemm_{product}/{name}"] = (
                lambda m=m, k=k, n=n: plain(torch.matmul, normal((m, k), dtype), normal((k, n), dtype)))


def mlp(sizes, batch, dtype, scaled):
    torch.manual_seed(0)
    layers = []
    for i in range(len(sizes) - 1):
        layers += ([torch.nn.ReLU()] if i else []) + [torch.nn.Linear(sizes[i], sizes[i + 1])]
    net = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    x, target = normal((batch, sizes[0])), normal((batch, sizes[-1]))

    def step():
        with torch.autocast("cpu", dtype=dtype if dtype != torch.float32 else torch.bfloat16,
                            enabled=dtype != torch.float32):
            output = net(x)
        loss = F.mse_loss(output.float(), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    def plain_step():
        F.mse_loss(net(x), target).backward()
        optimizer.step()
        optimizer.zero_grad()
    return plain_step if dtype == torch.float32 else step


def add_training():
    for size, (batch, width) in SIZES.items():
        CASES[f"mlp_{size}/f32"] = lambda b=batch, w=width: mlp((w,) * 4, b, torch.float32, False)
        CASES[f"mlp_{size}/bf16"] = lambda b=batch, w=width: mlp((w,) * 4, b, torch.bfloat16, False)
        CASES[f"mlp_{size}/bf16_scaler"] = lambda b=batch, w=width: mlp((w,) * 4, b, torch.bfloat16, True)


class Timer:
    """The clockwork of bench::Worker."""

    def __init__(self):
        self.name, self.body, self.seconds_per_call = None, None, 0.0

    def repeat(self, calls):
        body = self.body
        start = time.perf_counter()
        for _ in range(calls):
            body()
        return time.perf_counter() - start

    def time(self, name, seconds):
        if name != self.name:
            self.body = None
            self.body = CASES[name]()
            self.name, self.seconds_per_call = name, 0.0
            self.repeat(2)
            calls = 1
            while calls * self.seconds_per_call < seconds / 4:
                self.seconds_per_call = self.repeat(calls) / calls
                calls *= 2
        calls = 1 + int(seconds / self.seconds_per_call) if self.seconds_per_call else 1
        self.seconds_per_call = self.repeat(calls) / calls
        return 1e9 * self.seconds_per_call


def main():
    add_engine()
    for name, dtype in FLOATS.items():
        add_kernels(name, dtype)
    add_training()
    timer = Timer()
    for line in sys.stdin:
        command, *arguments = line.split() or [""]
        try:
            if command == "about":
                print(f"PyTorch {torch.__version__} (Python), {torch.get_num_threads()} thread(s)", flush=True)
            elif command == "list":
                print("\n".join(sorted(CASES)) + "\n", flush=True)
            elif command == "time":
                print(timer.time(arguments[0], float(arguments[1])), flush=True)
        except Exception as error:  # the driver shows it and goes on
            print("error", str(error).replace("\n", " "), flush=True)


main()
