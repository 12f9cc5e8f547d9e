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
    refused.npz: an array of each kind that is refused."""
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
               "complex": counted((2,), "c8"), "unsigned": counted((2,), "u2"), "long": counted((2,), "longdouble"),
               "date": np.array(["2026-01-01"], "M8[D]"), "raw": np.zeros(2, "V3")}
    archive("refused.npz", {name: saved(array) for name, array in refused.items()})


PARTS = {"gzip": make_gzip, "npy": make_npy}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
