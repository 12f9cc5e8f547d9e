#!/usr/bin/env python3
"""Writes the files of this folder with the programs they come from: gzip and zip of Python, NumPy, PyTorch, safetensors.

usage: make.py [PART...]      parts: gzip npy torch; all without one
What the values are is said beside each file in the tests that read it.
"""
import gzip
import os
import sys

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def make_gzip():
    """images.idx.gz: u8 [2, 3, 4], value i at place i. members.gz: "hello " and "world", a member each."""
    idx = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 3, 4)) + bytes(range(24))
    with open("images.idx.gz", "wb") as f:
        f.write(gzip.compress(idx, mtime=0))
    with open("members.gz", "wb") as f:
        f.write(gzip.compress(b"hello ", mtime=0) + gzip.compress(b"world", 0, mtime=0))
    # A name, a comment and an extra field in the header, which gzip writes and Python does not.
    plain = gzip.compress(b"named", mtime=0)
    with open("named.gz", "wb") as f:
        f.write(plain[:3] + b"\x1c" + plain[4:10] + b"\x02\x00ab" + b"file\x00" + b"comment\x00" + plain[10:])
    # 100 KB of zeros in 133 bytes: the format's largest ratio is 1032.
    with open("zeros.gz", "wb") as f:
        f.write(gzip.compress(bytes(100_000), mtime=0))


def counted(shape, dtype):
    """Value 3 i - 5 at place i, as dtype."""
    import numpy as np

    return (np.arange(int(np.prod(shape))) * 3 - 5).reshape(shape).astype(dtype)


def make_npy():
    """arrays.npz (stored) and packed.npz (compressed): what mezzo has. forms.npz: the same values written otherwise.
    refused.npz: an array of each kind that is refused. unsigned.npz: integers that become wider ones, "x" readable."""
    import io
    import zipfile

    import numpy as np

    dtypes = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1"}
    arrays = {name: counted((2, 3), code) for name, code in dtypes.items()}
    arrays["bool"] = counted((2, 3), "i4") % 2 == 0
    shapes = {"scalar": (), "one": (7,), "none": (0, 3), "eight": (1, 2, 1, 3, 1, 2, 1, 2), "large": (1234, 3)}
    arrays.update({name: counted(shape, "f4") for name, shape in shapes.items()})
    with open("arrays.npz", "wb") as f:
        np.savez(f, **arrays)
    with open("packed.npz", "wb") as f:
        np.savez_compressed(f, **arrays)

    def archive(path, entries):
        with zipfile.ZipFile(path, "w") as z:
            for name, content in entries.items():
                z.writestr(zipfile.ZipInfo(name + ".npy"), content)

    def saved(array, version=None):
        out = io.BytesIO()
        np.lib.format.write_array(out, array, version)
        return out.getvalue()

    x = counted((2, 3, 4), "f4")
    archive("forms.npz", {
        "fortran": saved(np.asfortranarray(x)), "big": saved(x.astype(">f4")), "version2": saved(x, (2, 0)),
        "version3": saved(x, (3, 0)), "big_fortran": saved(np.asfortranarray(x.astype(">f8"))),
        "big_short": saved(x.astype(">i2"))})
    record = np.zeros(2, [("a", "<f4"), ("b", "<i4")])
    refused = {"object": np.array([{}, 1], object), "text": np.array(["ab"]), "bytes": np.array([b"ab"]), "record": record,
               "complex": counted((2,), "c8"), "long": counted((2,), "longdouble"),
               "date": np.array(["2026-01-01"], "M8[D]"), "raw": np.zeros(2, "V3")}
    archive("refused.npz", {name: saved(array) for name, array in refused.items()})
    unsigned = {"u2": np.array([0, 1, 2**16 - 1], "<u2"), "u4": np.array([0, 1, 2**32 - 1], "<u4"),
                "u8": np.array([0, 1, 2**63 - 1], "<u8"), "big": np.array([0, 1, 2**16 - 1], ">u2"),
                "beyond": np.array([1, 2**63], "<u8"), "x": counted((2, 3), "f4")}
    archive("unsigned.npz", {name: saved(array) for name, array in unsigned.items()})


def make_torch():
    """Files of torch.save: dtypes.pt, values.pt, views.pt, training.pt (a model and Adam after a step), in protocols 2, 4 and
    5; deflated.pt and big_endian.pt, changed by hand; script.pt and refused_*.pt, which are refused.
    unsigned.pt: integers that become wider ones. mixed.pt: what mezzo has and what it has not. legacy.pt, legacy_views.pt
    (mixed.pt's and views.pt's values) and legacy4.pt (protocol 4): as before PyTorch 1.6."""
    import zipfile
    from collections import Counter, OrderedDict

    import torch

    dtypes = dict(f16="float16", bf16="bfloat16", f32="float32", f64="float64", i8="int8", i16="int16", i32="int32",
                  i64="int64", u8="uint8", f8_e4m3="float8_e4m3fn", f8_e5m2="float8_e5m2")
    tensors = {name: torch.from_numpy(counted((2, 3), "i4")).to(getattr(torch, torch_name))
               for name, torch_name in dtypes.items()}
    tensors["bool"] = torch.from_numpy(counted((2, 3), "i4")) % 2 == 0
    torch.save(tensors, "dtypes.pt")

    torch.save({
        "none": None, "true": True, "false": False, "small": 7, "byte": 255, "short": 65535, "negative": -7,
        "int": 2**31 - 1, "wide": -(2**40), "widest": 2**63 - 1, "beyond": 2**64, "float": 0.1, "string": "text \u00e4",
        "list": [1, [2.5, "x"], ()], "tuple": (1, 2, 3, 4), "size": torch.Size([2, 3]), "device": torch.device("cuda:0"),
        "cpu": torch.device("cpu"), "dtype": torch.float16, "ordered": OrderedDict([("b", 1), ("a", 2)]),
        "counter": Counter([3, 3]), "set": {5}, 3: "number", "empty": {}}, "values.pt")

    x = torch.from_numpy(counted((4, 6), "f4"))
    shared = torch.from_numpy(counted((5,), "f4"))
    parameter = torch.nn.Parameter(torch.from_numpy(counted((3,), "f4")))
    with_attribute = torch.nn.Parameter(torch.from_numpy(counted((2,), "f4")))
    with_attribute.note = "attribute"
    torch.save({
        "whole": x, "transposed": x.t(), "part": x[1:3, 2:5], "stepped": x[:, ::2], "expanded": x[0, :1].expand(5),
        "scalar": torch.tensor(2.5), "none": torch.zeros(0, 3), "tied": [shared, shared], "view": shared[1:],
        "parameter": parameter, "with_attribute": with_attribute, "frozen": torch.nn.Parameter(shared, requires_grad=False),
        "channels_last": x.reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)}, "views.pt")

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.from_numpy(counted(tuple(p.shape), "f4")) / 4)
    adam = torch.optim.Adam(net.parameters(), lr=0.5)
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    adam.step()
    for protocol in (2, 4, 5):
        name = "training.pt" if protocol == 2 else f"training{protocol}.pt"
        torch.save({"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 3}, name, pickle_protocol=protocol)

    with zipfile.ZipFile("dtypes.pt") as z, zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as packed, \
            zipfile.ZipFile("big_endian.pt", "w") as big:
        sizes = dict(enumerate((2, 2, 4, 8, 1, 2, 4, 8, 1, 1, 1, 1)))
        for info in z.infolist():
            content = z.read(info)
            packed.writestr(zipfile.ZipInfo(info.filename), content, zipfile.ZIP_DEFLATED)
            if info.filename.endswith("byteorder"):
                content = b"big"
            elif "/data/" in info.filename:
                n = sizes[int(info.filename.split("/")[-1])]
                content = b"".join(content[i:i + n][::-1] for i in range(0, len(content), n))
            big.writestr(zipfile.ZipInfo(info.filename), content)

    torch.save(shared, "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"training": {"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 3}, "part": x[1:3, 2:5],
                "transposed": x.t(), "tied": [shared, shared], "view": shared[1:], "parameter": parameter,
                "half": x.half(), "flags": x > 0, "u16": torch.tensor([1, 65535], dtype=torch.uint16),
                "c": torch.ones(3, dtype=torch.complex64), "none": torch.zeros(0, 3)}, "legacy_views.pt",
               _use_new_zipfile_serialization=False)
    torch.save({"x": x}, "legacy4.pt", _use_new_zipfile_serialization=False, pickle_protocol=4)
    torch.jit.save(torch.jit.trace(torch.nn.ReLU(), x), "script.pt")
    torch.save({"net": torch.nn.ReLU()}, "refused_module.pt")
    torch.save({"x": torch.zeros(2, dtype=torch.complex64)}, "refused_complex.pt")
    u64 = torch.tensor([0, 1, 2**63 - 1], dtype=torch.uint64)
    u16 = torch.tensor([0, 1, 2**16 - 1, 7], dtype=torch.uint16)
    torch.save({"u16": u16, "view": u16[1::2], "u32": torch.tensor([0, 1, 2**32 - 1], dtype=torch.uint32), "u64": u64},
               "unsigned.pt")
    torch.save({"beyond": torch.tensor([1, 2**63], dtype=torch.uint64)}, "refused_uint64.pt")
    mixed = {"net": OrderedDict([("weight", x), ("bias", shared)]), "c": torch.ones(3, dtype=torch.complex64), "lr": 0.5}
    torch.save(mixed, "mixed.pt")
    torch.save({"x": torch.zeros(2, 2).to_sparse()}, "refused_sparse.pt")


PARTS = {"gzip": make_gzip, "npy": make_npy, "torch": make_torch}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
