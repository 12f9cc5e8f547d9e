"""A link between two network namespaces that delays frames and loses some: two TAP devices and this relay between them.

usage: relay.py NAMESPACE NAMESPACE [--delay MS] [--loss PERCENT]
"""
import argparse
import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def open_tap(namespace):
    """A TAP device of the name link0 in the namespace. The process returns to its own one."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/" + namespace, os.O_RDONLY)
    set_namespace(there)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", b"link0", IFF_TAP | IFF_NO_PI))
    set_namespace(home)
    return tap


def set_namespace(descriptor):
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("namespaces", nargs=2)
    parser.add_argument("--delay", type=float, default=0, help="milliseconds, each way")
    parser.add_argument("--loss", type=float, default=0, help="percent of frames")
    arguments = parser.parse_args()
    taps = [open_tap(name) for name in arguments.namespaces]
    queues = {tap: collections.deque() for tap in taps}  # frames for this device: (time, frame)
    while True:
        now = time.monotonic()
        due = [queue[0][0] for queue in queues.values() if queue]
        readable, _, _ = select.select(taps, [], [], max(0, min(due) - now) if due else None)
        for tap in readable:
            other = taps[1 - taps.index(tap)]
            try:
                for _ in range(64):
                    frame = os.read(tap, 65536)
                    if random.random() * 100 >= arguments.loss:
                        queues[other].append((time.monotonic() + arguments.delay / 1000, frame))
            except BlockingIOError:
                pass
        now = time.monotonic()
        for tap, queue in queues.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(tap, queue.popleft()[1])
                except (BlockingIOError, OSError):
                    pass  # lost, as in a full buffer


if __name__ == "__main__":
    main()
