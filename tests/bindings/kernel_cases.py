"""Random strided arrays for the tests of the native kernels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dnnl_graph_ops import dtypes


def code(name: str) -> int:
    return dtypes.CODES[name]


def random_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Values that every pair of number types can convert without leaving the range of the destination."""
    low = 0 if dtype == "u8" else -100
    values = rng.integers(low, 120, shape)
    if dtype in ("f32", "bf16", "f16"):
        return (values + rng.random(shape)).astype(np.float32).astype(dtypes.numpy_dtype(dtype))
    return values.astype(dtypes.numpy_dtype(dtype))


def random_strides(rng: np.random.Generator, shape: tuple[int, ...]) -> list[int]:
    """Element strides of a layout in random axis order with random gaps, without overlap."""
    strides = [0] * len(shape)
    step = int(rng.choice([1, 1, 1, 2, 3]))
    for axis in rng.permutation(len(shape)):
        strides[axis] = step
        step *= shape[axis] + int(rng.choice([0, 0, 0, 1, 5]))
    return strides


def many_strides(rng: np.random.Generator, shape: tuple[int, ...]) -> list[list[int]]:
    """Of contiguous layouts in four orders of axes, and eight random ones."""
    orders = [tuple(rng.permutation(len(shape))) for _ in range(4)]
    layouts = [element_strides(np.empty([shape[a] for a in o]).transpose(np.argsort(o))) for o in orders]
    return layouts + [random_strides(rng, shape) for _ in range(8)]


def view(buffer: np.ndarray[Any, Any], shape: tuple[int, ...], strides: list[int]) -> np.ndarray[Any, Any]:
    """The strided view that starts at the buffer's first element; strides count elements."""
    item = buffer.itemsize
    return np.lib.stride_tricks.as_strided(buffer, shape, [stride * item for stride in strides])


def span(shape: tuple[int, ...], strides: list[int]) -> int:
    """Elements from the first to the last of a strided view."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def blank(elements: int, dtype: str) -> np.ndarray[Any, Any]:
    """A buffer full of bytes that no test writes, to show what a kernel leaves alone."""
    buffer = np.empty(elements, dtypes.numpy_dtype(dtype))
    buffer.view(np.uint8)[...] = 0xA5
    return buffer


def element_strides(array: np.ndarray[Any, Any]) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bit patterns, for comparisons that tell NaNs and zeros apart."""
    return np.ascontiguousarray(array).view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def total(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def met_denormals(run: Callable[[], object]) -> bool:
    """Whether a call reads a denormal number as an operand, by the sticky flag of the calling thread's MXCSR."""
    libm, environment, flag = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)(), 2
    assert libm.fesetenv(ctypes.c_void_p(-1)) == 0
    run()
    assert libm.fegetenv(environment) == 0
    return bool(environment[7] & flag)
