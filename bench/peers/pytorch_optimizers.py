"""The cases of bench/cases/optimizers.cpp for the peer PyTorch, by its own choice of a way (a loop on the CPU, foreach on a GPU)
and fused."""
import torch

SHAPES = {"large": [(2048, 2048)] * 12 + [(2048, 1024)], "1000x100": [(100,)] * 1000}


def parameters_with_gradients(shapes, device):
    torch.manual_seed(0)
    parameters = [torch.randn(shape, device=device).requires_grad_() for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, device=device)
    return parameters


def scaled(optimizer, device):
    scaler, loss = torch.amp.GradScaler(device.type, init_scale=1 + 2**-20), torch.zeros((), device=device)

    def body():
        scaler.scale(loss)
        scaler.step(optimizer)
        scaler.update()
    return body


def optimizer_cases(device):
    """What makes the body of each case, by name."""
    cases = {}
    for size, shapes in SHAPES.items():
        def parameters(shapes=shapes):
            return parameters_with_gradients(shapes, device)

        def adamw(fused, parameters=parameters):
            return torch.optim.AdamW(parameters(), lr=1e-3, fused=fused)

        def sgd(fused, parameters=parameters):
            return torch.optim.SGD(parameters(), lr=1e-3, momentum=0.9, fused=fused)

        def clip(parameters=parameters):
            clipped = parameters()
            return lambda: torch.nn.utils.clip_grad_norm_(clipped, 1)
        for way, fused in (("", None), ("_fused", True)):
            cases[f"adamw_{size}{way}/f32"] = lambda adamw=adamw, fused=fused: adamw(fused).step
            cases[f"sgd_momentum_{size}{way}/f32"] = lambda sgd=sgd, fused=fused: sgd(fused).step
        cases[f"adamw_{size}_fused_scaler/f32"] = lambda adamw=adamw: scaled(adamw(True), device)
        cases[f"clip_grad_norm_{size}/f32"] = clip
    return cases
