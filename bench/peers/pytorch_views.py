"""The cases of views and rounded quotients in bench/cases/ops.cpp, for pytorch.py."""
import torch

INTEGERS = {"i32": torch.int32, "i64": torch.int64}


def view_cases(device, floats):
    on_cpu = device.type == "cpu"
    batch, size, elements = (32, 2048, 4 << 20) if on_cpu else (512, 8192, 64 << 20)

    def normal(*shape):
        return torch.randn(shape, device=device)

    def square():
        return normal(size, size)

    def images():
        return normal(batch, 64, 56, 56)

    def images_channels_last():
        return images().contiguous(memory_format=torch.channels_last)

    def heads():
        return normal(batch, 128, 8, 64)

    def volumes():
        return normal(8 * batch, 8, 56 * 56)
    copies = {
        "copy": (square, lambda x: x.clone()),
        "copy_transposed": (square, lambda x: x.transpose(0, 1).contiguous()),
        "copy_to_channels_last": (images, lambda x: x.contiguous(memory_format=torch.channels_last)),
        "copy_from_channels_last": (images_channels_last, lambda x: x.contiguous()),
        "copy_permuted_0213": (heads, lambda x: x.permute(0, 2, 1, 3).contiguous()),
        "copy_permuted_0231": (heads, lambda x: x.permute(0, 2, 3, 1).contiguous()),
        "copy_permuted_201": (volumes, lambda x: x.permute(2, 0, 1).contiguous())}
    sums = {
        "sum_transposed": (square, lambda x: x.transpose(0, 1).sum()),
        "sum_dim_0": (square, lambda x: x.sum(0)),
        "sum_dim_0_transposed": (square, lambda x: x.transpose(0, 1).sum(0)),
        "sum_dim_1_transposed": (square, lambda x: x.transpose(0, 1).sum(1)),
        "sum_middle": (volumes, lambda x: x.sum(1)),
        "sum_middle_transposed": (volumes, lambda x: x.transpose(1, 2).sum(1)),
        "sum_permuted": (volumes, lambda x: x.permute(1, 2, 0).sum()),
        "sum_channels": (images, lambda x: x.sum((0, 2, 3))),
        "sum_channels_last": (images_channels_last, lambda x: x.sum((0, 2, 3)))}
    cases = {}

    def add(case, make, op, dtype):
        def body():
            x = make().to(dtype)

            def call():
                with torch.no_grad():
                    op(x)
            return call
        cases[case] = body

    def add_quotient(case, op, dtype):
        def body():
            a, b = (normal(elements) * 1000).to(dtype), (normal(elements).abs() * 100 + 1).to(dtype)

            def call():
                with torch.no_grad():
                    op(a, b)
            return call
        cases[case] = body
    for name, dtype in {**floats, "u8": torch.uint8}.items():
        for case, (make, op) in {**copies, **(sums if name != "u8" else {})}.items():
            add(f"{case}/{name}", make, op, dtype)
    for name, dtype in {**floats, **INTEGERS}.items():
        add_quotient(f"div_floor/{name}", lambda a, b: torch.div(a, b, rounding_mode="floor"), dtype)
        add_quotient(f"div_trunc/{name}", lambda a, b: torch.div(a, b, rounding_mode="trunc"), dtype)
        add_quotient(f"remainder/{name}", torch.remainder, dtype)
    return cases
