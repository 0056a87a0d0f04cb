"""DLPack capsules made by hand, honest and not, given to whatever takes them.

A capsule that promises more memory than there is cannot be told from a good one; its elements are not read here. All
else that it says may be wrong.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from hard.fuzz.choices import Choices


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    )  # fmt: skip


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# consumers may copy as many sizes as `ndim` says before they doubt it
AXES = 1 << 12
BYTES = 1 << 14
DEVICES = (1, 1, 1, 1, 2, 3, 8, 13, 14, 0, -1, 2**31 - 1)
TYPES = ((2, 32), (2, 32), (4, 16), (2, 16), (0, 8), (6, 8), (2, 64), (0, 64), (5, 64), (0, 4), (17, 4), (3, 64))
NAMES = (b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned", b"", None, b"other")
SIZES = (1, 2, 3, 4, 8)
# elements that a capsule may spread its memory to
MOST = 1 << 20


class Producer:
    """Hands over one capsule, by the protocol or not quite."""

    def __init__(self, c: Choices) -> None:
        self.deleted = 0
        self.memory = np.ones(BYTES, np.uint8)
        self.shape, self.strides = np.ones(AXES, np.int64), np.ones(AXES, np.int64)
        self.name = c.pick(NAMES) if c.rarely() else NAMES[c.below(2)]
        self.managed: Any = Versioned() if self.name == b"dltensor_versioned" else Managed()
        self.fill(c)
        self.capsule = None if c.rarely() else _new(ctypes.addressof(self.managed), self.name, None)
        self.device: Any = (self.managed.tensor.device_type, self.managed.tensor.device_id)
        if c.rarely():
            self.device = c.pick(((1, 0), (2, 0), (14, 0), c.odd(), (1,), ("cpu", 0), (c.number(), 0)))

    def fill(self, c: Choices) -> None:
        tensor = self.managed.tensor
        dims = [c.pick(SIZES) for _ in range(1 + (2 + c.below(5)) % 5)]
        tensor.ndim = len(dims)
        tensor.data = self.memory.ctypes.data
        tensor.device_type = c.pick(DEVICES)
        tensor.code, tensor.bits = c.pick(TYPES) if not c.rarely() else (c.byte(), c.byte())
        tensor.lanes = 1
        self.shape[: len(dims)] = dims
        self.strides[: len(dims)] = [int(np.prod(dims[axis + 1 :])) for axis in range(len(dims))]
        tensor.shape = self.shape.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        tensor.strides = self.strides.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)
        self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        if isinstance(self.managed, Versioned):
            self.managed.major = 1
            self.managed.flags = c.below(4)
        self.spoil(c)

    def spoil(self, c: Choices) -> None:
        tensor = self.managed.tensor
        for _ in range(c.below(4)):
            kind, axis = c.below(12), c.below(5)
            if kind == 0:
                self.shape[axis] = _int64(c.number())
            elif kind == 1:
                self.strides[axis] = _int64(c.number())
            elif kind == 2:
                # at most what lies in the arrays of sizes
                ndim = _int64(c.number())
                tensor.ndim = ndim if -(2**31) <= ndim <= AXES else -5
            elif kind == 3:
                tensor.byte_offset = c.number() % 2**64
            elif kind == 4:
                tensor.lanes = c.number() % 2**16
            elif kind == 5:
                tensor.strides = None
            elif kind == 6:
                tensor.shape = None
            elif kind == 7:
                tensor.data = None
            elif kind == 8:
                self.managed.deleter = None
            elif kind == 9 and isinstance(self.managed, Versioned):
                self.managed.major = c.number() % 2**32
            elif kind == 10:
                self.shape[axis] = 0
            else:
                tensor.data = self.memory.ctypes.data + c.below(64)

    def _delete(self, _: Any) -> None:
        self.deleted += 1

    @property
    def readable(self) -> bool:
        """Whether all elements are in the memory."""
        t = self.managed.tensor
        if not 0 <= t.ndim <= AXES or not t.shape or not t.data or t.lanes < 1:
            return False
        shape = [int(n) for n in self.shape[: t.ndim]]
        if 0 in shape:
            return True
        strides = [int(n) for n in self.strides[: t.ndim]]
        if not t.strides:
            strides = [int(np.prod([float(n) for n in shape[axis + 1 :]])) for axis in range(t.ndim)]
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        size = (t.bits * t.lanes + 7) // 8
        first = int(t.data) - self.memory.ctypes.data + t.byte_offset + size * sum(min(e, 0) for e in ends)
        return first >= 0 and min(shape, default=1) > 0 and first + size * (1 + sum(abs(e) for e in ends)) <= BYTES

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


class Silent(Producer):
    """One that does not say where its memory is."""

    __dlpack_device__ = property()  # type: ignore[assignment]


class Older(Producer):
    """One from before DLPack 1.0."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.capsule


def one(data: bytes) -> None:
    c = Choices(data)
    way = c.below(5)
    producer = c.pick((Producer, Older, Silent))(c)
    try:
        take(c, way, producer)
    finally:
        if producer.deleted > 1:
            raise AssertionError(f"deleted {producer.deleted} times")


def take(c: Choices, way: int, producer: Producer) -> None:
    t = producer.managed.tensor
    on_host = t.device_type in (1, 3)
    if way == 0:
        array = dgo.from_dlpack(producer, copy=c.pick((None, False, True)) if producer.readable else None)
        assert on_host, "memory of another device"
        assert producer.deleted == 0 or array.base is None, "deleted while it is used"
        if producer.readable:
            array.copy()
        managed = bool(producer.managed.deleter)
        del array
        assert producer.deleted == int(managed), f"deleted {producer.deleted} times after its only use"
    elif on_host and prod(max(int(n), 0) for n in producer.shape[: max(t.ndim, 0)]) > MOST:
        # work that finds nothing
        return
    elif not producer.readable and on_host and t.ndim >= 0 and (t.shape or not t.ndim):
        # these read the elements at once, and nothing tells that they are not there
        return
    elif way == 1:
        found = dgo.DeviceArray.from_dlpack(producer, copy=c.pick((None, False, True)))
        found.to_numpy()
    elif way == 2:
        dgo.conv_transpose(producer, np.ones((3, 3, 4, 4), np.float32))
    elif way == 3:
        graph = dgo.Graph()
        graph.compile(dgo.ops.relu(graph.input("x", (2, 3))))(producer)
    else:
        dgo.Graph().constant(producer)


def _int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
