"""Makes transforms.safetensors: what torchvision's functions give, for transforms_test.cpp.

usage: python transforms.py (with torch, torchvision and safetensors)
"""
import pathlib

import torch
import torchvision.transforms.v2.functional as F
from safetensors.torch import save_file
from torchvision import tv_tensors
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
turns = {"turn": (25.0, [0, 0], 1.0, [0.0, 0.0]), "all": (-40.0, [2, -1], 1.3, [10.0, -7.0]), "move": (0.0, [3, 1], 1.0, [0.0, 0.0])}
boxes = torch.tensor([[1.0, 2.0, 4.0, 6.0], [0.0, 0.0, 10.0, 7.0], [7.5, 1.0, 9.0, 2.5]])
out["boxes"] = boxes
marked = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(7, 10))
for name, (angle, translate, scale, shear) in turns.items():
    out[f"affine.{name}.nearest"] = F.affine(bytes_, angle, translate, scale, shear, Mode.NEAREST)
    out[f"affine.{name}.bilinear"] = F.affine(image, angle, translate, scale, shear, Mode.BILINEAR)
    out[f"boxes.{name}"] = F.clamp_bounding_boxes(F.affine(marked, angle, translate, scale, shear)).as_subclass(torch.Tensor)
out["boxes.crop"] = F.clamp_bounding_boxes(F.crop(marked, 1, 2, 4, 5)).as_subclass(torch.Tensor)
out["boxes.resize"] = F.resize(marked, [14, 11]).as_subclass(torch.Tensor)
out["boxes.hflip"] = F.horizontal_flip(marked).as_subclass(torch.Tensor)
out["boxes.vflip"] = F.vertical_flip(marked).as_subclass(torch.Tensor)
for name, x in (("image", image), ("bytes", bytes_), ("images", images), ("gray", image[:1])):
    out[f"blur.{name}"] = F.gaussian_blur(x, [5, 3], [1.25, 1.25])
    for factor in (0.0, 0.5, 1.7):
        out[f"brightness.{factor}.{name}"] = F.adjust_brightness(x, factor)
        out[f"contrast.{factor}.{name}"] = F.adjust_contrast(x, factor)
        out[f"saturation.{factor}.{name}"] = F.adjust_saturation(x, factor)
    for factor in (-0.5, 0.1, 0.4):
        out[f"hue.{factor}.{name}"] = F.adjust_hue(x, factor)
save_file({k: v.clone().contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_suffix(".safetensors"))
