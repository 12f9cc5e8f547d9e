# Exchanges tensors with the extension module beside it by DLPack's capsules: with itself, and with NumPy and PyTorch
# where these are installed. usage: dlpack.py FOLDER, which holds mezzo_probe.so
import ctypes
import sys

probe = ctypes.PyDLL(sys.argv[1] + "/mezzo_probe.so")
for name in ("mezzo_probe_give", "mezzo_probe_give_unversioned"):
    getattr(probe, name).restype = ctypes.c_void_p
for name in ("mezzo_probe_double", "mezzo_probe_double_unversioned"):
    getattr(probe, name).restype = ctypes.c_double
    getattr(probe, name).argtypes = [ctypes.c_void_p]
probe.mezzo_probe_sum_of_given.restype = ctypes.c_double

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# A capsule keeps the address of its name, so the names must live as long.
NAMES = {False: (b"dltensor", b"used_dltensor"), True: (b"dltensor_versioned", b"used_dltensor_versioned")}


class FromMezzo:
    """A tensor of mezzo's as the array protocol of Python wants it."""

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        pointer = probe.mezzo_probe_give() if versioned else probe.mezzo_probe_give_unversioned()
        return api.PyCapsule_New(pointer, NAMES[versioned][0], None)


def double(capsule, versioned):
    """Hands a capsule to mezzo, which doubles the values in place and returns their sum."""
    pointer = api.PyCapsule_GetPointer(capsule, NAMES[versioned][0])
    api.PyCapsule_SetName(capsule, NAMES[versioned][1])
    return (probe.mezzo_probe_double if versioned else probe.mezzo_probe_double_unversioned)(pointer)


def check(what, got, expected):
    if got != expected:
        sys.exit(f"dlpack: {what}: expected {expected}, got {got}")


tried = ["itself"]
check("versioned", double(FromMezzo().__dlpack__(max_version=(1, 1)), True), 30)
check("unversioned", double(FromMezzo().__dlpack__(), False), 30)
check("the same memory", probe.mezzo_probe_sum_of_given(), 30)

try:
    import numpy
except ImportError:
    numpy = None
if numpy is not None and hasattr(numpy, "from_dlpack"):
    tried.append("NumPy " + numpy.__version__)
    array = numpy.from_dlpack(FromMezzo())
    check("NumPy's view", array.tolist(), [[0, 3], [1, 4], [2, 5]])
    mine = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)[:, ::2]
    check("NumPy's array", double(mine.__dlpack__(), False), 60)
    check("NumPy's memory", float(mine.sum()), 60)

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    tried.append("PyTorch " + torch.__version__)
    view = torch.from_dlpack(FromMezzo())
    check("PyTorch's view", view.tolist(), [[0, 3], [1, 4], [2, 5]])
    view += 1
    check("a write of PyTorch's", probe.mezzo_probe_sum_of_given(), 21)
    mine = torch.arange(12, dtype=torch.bfloat16).view(3, 4)[:, ::2]
    check("PyTorch's tensor", double(torch.utils.dlpack.to_dlpack(mine), False), 60)
    check("PyTorch's memory", mine.sum().item(), 60)
print("dlpack: exchanged with " + ", ".join(tried))
