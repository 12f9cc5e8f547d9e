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


PARTS = {"gzip": make_gzip}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
