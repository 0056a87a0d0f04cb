"""DLPack capsules that say what cannot be: an error or the right numbers, and each tensor given back once."""

import gc

import numpy as np
import pytest
from children import child

import dnnl_graph_ops as dgo

from .capsules import CPU, CUDA, CUDA_HOST, ONE_API, Producer

HUGE = 2**62
DATA = np.arange(64, dtype=np.float32)
ADDRESS = DATA.ctypes.data
IMPORTS = {
    "NumPy": dgo.from_dlpack,
    "DeviceArray": lambda producer: dgo.DeviceArray.from_dlpack(producer).to_numpy(),
    "DeviceArray copy": lambda producer: dgo.DeviceArray.from_dlpack(producer, copy=True).to_numpy(),
}


@pytest.fixture(params=IMPORTS.values(), ids=IMPORTS)
def take(request):
    return request.param


# an address that nothing may read
ELSEWHERE = 0x7F00_DEAD_0000
REFUSED = {
    **{
        f"device {device}, {'nothing stated' if stated is None else 'CPU stated'}": (
            {"data": ELSEWHERE, "device": device, "stated": stated},
            "device type",
        )
        for device in (CUDA, CUDA_HOST, ONE_API, 0, -1, 99, 2**31 - 1)
        for stated in (None, (CPU, 0))
    },
    "no pair stated": ({"data": ADDRESS, "stated": 7}, "__dlpack_device__"),
    "words stated": ({"data": ADDRESS, "stated": ("cpu", 0)}, "__dlpack_device__"),
    "negative rank": ({"data": ADDRESS, "ndim": -1}, "axes"),
    "very negative rank": ({"data": ADDRESS, "ndim": -(2**31)}, "axes"),
    "huge rank": ({"data": ADDRESS, "ndim": 2**31 - 1}, "axes"),
    "rank 33": ({"data": ADDRESS, "shape": (1,) * 33}, "axes"),
    "null shape": ({"data": ADDRESS, "shape": None, "ndim": 2}, "no shape"),
    "null data": ({"data": None}, "null"),
    "null data without axes": ({"data": None, "shape": ()}, "null"),
    "negative size": ({"data": ADDRESS, "shape": (2, -3)}, "negative"),
    "sizes overflow": ({"data": ADDRESS, "shape": (HUGE, 4)}, "64 bits"),
    "sizes overflow to nothing": ({"data": ADDRESS, "shape": (2**32, 2**32)}, "64 bits"),
    "bytes overflow": ({"data": ADDRESS, "shape": (HUGE,)}, "64 bits"),
    "empty, sizes overflow": ({"data": ADDRESS, "shape": (HUGE, HUGE, 0)}, "64 bits"),
    "strides overflow": ({"data": ADDRESS, "shape": (4, 4), "strides": (HUGE, 1)}, "64 bits"),
    "strides sum up to an overflow": ({"data": ADDRESS, "shape": (2, 2), "strides": (2**60, 2**60)}, "64 bits"),
    "strides below zero": ({"data": ADDRESS, "shape": (4,), "strides": (-(2**60),)}, "64 bits"),
    "offset overflow": ({"data": ADDRESS, "byte_offset": 2**64 - 1}, "64 bits"),
    "end overflow": ({"data": 2**64 - 8}, "64 bits"),
    "lanes": ({"data": ADDRESS, "dtype": (2, 32, 4)}, "lanes|type code"),
    "no lanes": ({"data": ADDRESS, "dtype": (2, 32, 0)}, "lanes|type code"),
    "unknown code": ({"data": ADDRESS, "dtype": (200, 32, 1)}, "type code"),
    "no bits": ({"data": ADDRESS, "dtype": (2, 0, 1)}, "type code"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(take, fields, message):
    producer = Producer(**fields)
    with pytest.raises(dgo.Error, match=message):
        take(producer)
    gc.collect()
    assert producer.deleted == producer.given


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"shape": (4,)}, DATA[:4]),
        ({"shape": ()}, DATA[0]),
        ({"shape": (2, 3), "strides": (8, 2)}, DATA[:16].reshape(2, 8)[:, :6:2]),
        ({"shape": (3,), "strides": (0,)}, np.zeros(3, np.float32)),
        ({"shape": (3,), "byte_offset": 8}, DATA[2:5]),
        ({"shape": (3, 0)}, np.zeros((3, 0), np.float32)),
        ({"shape": (0,), "data": None}, np.zeros(0, np.float32)),
        ({"shape": (0, 4), "strides": (2**62, 2**62)}, np.zeros((0, 4), np.float32)),
        ({"shape": (1,), "strides": (5,)}, DATA[:1]),
    ],
)
def test_taken(take, fields, expected):
    producer = Producer(**{"data": ADDRESS, **fields})
    found = take(producer)
    assert found.shape == expected.shape and np.array_equal(found, expected)
    del found
    gc.collect()
    assert producer.deleted == producer.given == 1


def test_negative_strides_and_odd_addresses():
    """NumPy has them, DeviceArray refuses."""
    backwards = {"data": ADDRESS + 12, "shape": (4,), "strides": (-1,)}
    assert np.array_equal(dgo.from_dlpack(Producer(**backwards)), DATA[3::-1])
    odd = {"data": ADDRESS + 2, "shape": (3,)}
    expected = np.frombuffer(DATA.tobytes()[2:14], np.float32)
    assert np.array_equal(dgo.from_dlpack(Producer(**odd)), expected)
    for fields, message in ((backwards, "negative"), (odd, "item size")):
        with pytest.raises(dgo.Error, match=message):
            dgo.DeviceArray.from_dlpack(Producer(**fields))


AFTER_THE_END = """
import ctypes, sys
import numpy as np
import dnnl_graph_ops as dgo
from frontends.capsules import Managed

# what a library in C does that keeps a tensor until it is unloaded, by exit() or later
array = np.ones((4, 5), np.float32)
source = {source}
capsule = source.__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
managed = pointer(capsule, b"dltensor")
ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
used = b"used_dltensor"
ctypes.pythonapi.PyCapsule_SetName(capsule, used)
deleter = ctypes.cast(Managed.from_address(managed).deleter, ctypes.c_void_p).value
libc = ctypes.CDLL(None)
# __cxa_atexit(function, argument, handle): called as deleter(managed) when the process ends
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
{register}
# the bytes of the name must outlive the capsule
ctypes.pythonapi.Py_IncRef(ctypes.py_object(used))
"""


@pytest.mark.child
@pytest.mark.parametrize("source", ["array", "dgo.to_dlpack(array)", "dgo.DeviceArray.from_numpy(array)"])
@pytest.mark.parametrize(
    "register",
    ["libc.__cxa_atexit(deleter, managed, None)", "libc.__cxa_atexit(deleter, managed, None); array = source = None"],
)
def test_a_tensor_dropped_when_the_interpreter_is_gone(source, register):
    done = child("-c", AFTER_THE_END.format(source=source, register=register))
    assert done.returncode == 0, done.stderr[-2000:]
