"""Makes transforms.safetensors: what torchvision's functions give, for transforms_test.cpp.

usage: python transforms.py (with torch, torchvision and safetensors)
"""
import pathlib

import torch
import torchvision.transforms.v2.functional as F
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode as Mode

torch.manual_seed(1)
image = torch.rand(3, 7, 10)
bytes_ = (image * 255).round().to(torch.uint8)
images = torch.rand(2, 3, 6, 5)
out = {"image": image, "bytes": bytes_, "images": images}
for name, x in (("image", image), ("bytes", bytes_), ("images", images)):
    out[f"hflip.{name}"] = F.horizontal_flip(x)
    out[f"vflip.{name}"] = F.vertical_flip(x)
    out[f"crop.{name}"] = F.crop(x, -1, 2, 4, 5)
    for size in ((4, 4), (3, 6), (9, 8), (12, 13)):
        out[f"center_crop.{size[0]}x{size[1]}.{name}"] = F.center_crop(x, list(size))
    for mode in (Mode.NEAREST, Mode.NEAREST_EXACT, Mode.BILINEAR, Mode.BICUBIC):
        for size in ((3, 4), (14, 11)):
            out[f"resize.{mode.value}.{size[0]}x{size[1]}.{name}"] = F.resize(x, list(size), mode, antialias=True)
    out[f"resize.edge.{name}"] = F.resize(x, [4], Mode.BILINEAR, antialias=False)
    for degrees in (30.0, -77.5, 90.0):
        out[f"rotate.nearest.{degrees}.{name}"] = F.rotate(x, degrees, Mode.NEAREST)
        if x.is_floating_point():
            out[f"rotate.bilinear.{degrees}.{name}"] = F.rotate(x, degrees, Mode.BILINEAR)
    out[f"erase.{name}"] = F.erase(x, 1, 2, 3, 2, torch.tensor(1, dtype=x.dtype))
out["normalize.image"] = F.normalize(image, [0.5, 0.25, 0.125], [0.5, 1.0, 2.0])
out["f32.bytes"] = F.to_dtype(bytes_, torch.float32, scale=True)
out["u8.image"] = F.to_dtype(image, torch.uint8, scale=True)
out["i16.image"] = F.to_dtype(image, torch.int16, scale=True)
save_file({k: v.contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))
