"""Values that no call should get, by where they are put."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np


class Unhelpful:
    """Has the attributes of arrays and sequences, and lies."""

    shape = (2, 3)
    dtype = "float32"

    def __len__(self) -> int:
        return 2

    def __dlpack__(self, **_: Any) -> int:
        return 42

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __repr__(self) -> str:
        return "Unhelpful()"


def numbers() -> list[Any]:
    """For attributes that are an int or one int per axis."""
    huge = [2**40, 2**63 - 1, 2**63, 2**64 + 1, 10**30]
    return [
        *huge,
        *(-v for v in huge),
        *([1, v] for v in huge[:3]),
        None,
        True,
        -1,
        0,
        1.5,
        2.0,
        float("nan"),
        float("inf"),
        1j,
        "",
        "3",
        b"1",
        (),
        [],
        [1],
        [0],
        [1, -1],
        [1, 2, 3, 4],
        [[1]],
        [None],
        [1, "x"],
        [1.0, 1.0],
        [float("nan")],
        [0] * 100_000,
        {},
        {1: 2},
        {1, 2},
        range(2),
        iter([1, 2]),
        np.int64(-3),
        np.uint8(200),
        np.float32(2),
        np.array(3),
        np.array([1, 2]),
        np.array([1.5]),
        np.array([[1, 2]]),
        np.array(["a"]),
        np.array([2**63], np.uint64),
        object(),
        len,
        Unhelpful(),
        slice(1, 2),
        type,
    ]


def texts() -> list[Any]:
    """For attributes that are a choice of names."""
    return [
        "",
        "NCHW",
        "none ",
        "NXC\0",
        "\ud800",
        "é" * 9,
        "X" * 100_000,
        b"NXC",
        ["NXC"],
        3,
        -1,
        None,
        True,
        np.str_("XOI "),
        {},
        object(),
        Unhelpful(),
    ]


def shapes() -> list[Any]:
    """For arguments that are a whole shape."""
    return [
        *numbers(),
        (2**40, 2**40, 1),
        (1, 2**62, 4, 1),
        (1, -1, 3, 2),
        (0, 0, 0),
        (1, None, 3),
        (1,) * 13,
        np.array([1, 2, 3, 4], np.int16),
        np.array([1.0, 2.0, 3.0]),
    ]


def _unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    raw[...] = array
    return raw


def _flipped(array: np.ndarray) -> np.ndarray:
    return array[(slice(None), *(slice(None, None, -1),) * (array.ndim - 1))]


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


_FROM_ARRAY: list[Callable[[np.ndarray], Any]] = [
    lambda a: None,
    lambda a: a.tolist(),
    lambda a: a[..., 0],
    lambda a: a[None],
    lambda a: a.reshape(-1),
    lambda a: np.zeros((1,) * 7, a.dtype),
    lambda a: np.zeros((), a.dtype),
    lambda a: a[:0],
    lambda a: a[..., :0],
    lambda a: np.zeros((a.shape[0], *(0,) * (a.ndim - 1)), a.dtype),
    lambda a: np.concatenate([a, a], axis=-1),
    lambda a: np.concatenate([a, a], axis=min(1, a.ndim - 1)),
    lambda a: a.swapaxes(0, -1),
    lambda a: a.astype(np.float64),
    lambda a: a.astype(np.int8),
    lambda a: a.astype(np.complex64),
    lambda a: a.astype(object),
    lambda a: np.full(a.shape, "text"),
    lambda a: a.astype(bool),
    lambda a: a.astype(ml_dtypes.float8_e5m2),
    lambda a: a.astype(ml_dtypes.int4),
    lambda a: a.astype(np.float16),
    lambda a: a.astype(np.float32).astype(">f4"),
    lambda a: np.zeros(a.shape, [("x", "f4"), ("y", "f4")]),
    lambda a: np.zeros(a.shape, "datetime64[s]"),
    lambda a: np.ma.masked_array(a, mask=True),
    lambda a: np.broadcast_to(a.reshape(-1)[:1], a.shape),
    lambda a: np.lib.stride_tricks.as_strided(a, a.shape, (0,) * a.ndim),
    _unaligned,
    _flipped,
    _frozen,
    lambda a: memoryview(a.astype(np.float32)),
    lambda a: Unhelpful(),
    lambda a: "array",
    lambda a: 3.0,
    lambda a: np.float32(3),
    lambda a: a.dtype,
    lambda a: np.full(a.shape, np.nan, a.dtype),
]


def arrays(array: np.ndarray) -> list[Callable[[], Any]]:
    """Things to pass instead of an array, each made when it is chosen."""
    return [lambda make=make: make(array) for make in _FROM_ARRAY]


def outputs(out: np.ndarray, inputs: list[np.ndarray]) -> list[Callable[[], Any]]:
    """Things to pass as `out`: wrong ones, and views of the inputs' own memory."""

    def overlapping() -> np.ndarray:
        source = inputs[0]
        flat = np.lib.stride_tricks.as_strided(source, (source.size,), (source.itemsize,))
        return np.resize(flat, out.shape) if out.size > source.size else flat[: out.size].reshape(out.shape)

    return [*arrays(out), overlapping, lambda: inputs[0], lambda: inputs[-1]]
