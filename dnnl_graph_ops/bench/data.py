"""The numbers that problems are run on: small integers, so that every correct result is exact."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from ..dtypes import numpy_dtype
from . import quantized
from .problem import Problem

# sums of products of these stay far below 2^24 in random data, so that f32 holds them exactly
_LIMIT = 4


def operands(
    problem: Problem, direction: str, seed: int = 0, dtype: str = "f32", real: bool = False
) -> dict[str, np.ndarray]:
    """float32 operands, activations in NCX order: two of src, weights, diff_dst, and bias where there is one.

    The same problem, direction, seed and data type give the same numbers in every process. `real`: normal numbers,
    of which fewer bits lose something.
    """
    rng = np.random.default_rng([seed, zlib.crc32(f"{problem.name}/{direction}".encode())])

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        if real:
            return rng.standard_normal(shape, np.float32)
        return rng.integers(-_LIMIT, _LIMIT, shape, dtype=np.int8, endpoint=True).astype(np.float32)

    shapes = {"src": problem.src_shape(), "weights": problem.weights_shape, "diff_dst": problem.dst_shape()}
    needed = {"fwd": ("src", "weights"), "bwd_d": ("diff_dst", "weights"), "bwd_w": ("src", "diff_dst")}[direction]
    drawn = {name: draw(shapes[name]) for name in needed}
    if dtype == quantized.DTYPE:
        drawn["src"] = rng.integers(0, quantized.SRC_MOST, shapes["src"], endpoint=True).astype(np.float32)
    if problem.bias and direction == "fwd":
        drawn["bias"] = draw((problem.out_channels,))
    return drawn


def to_layout(array: np.ndarray, layout: str, dtype: str) -> np.ndarray:
    """An activation in NCX order as a dense array of `layout` and `dtype`."""
    if layout == "NXC":
        array = np.moveaxis(array, 1, -1)
    return np.ascontiguousarray(array, dtype=numpy_dtype(dtype))


def from_layout(array: np.ndarray, layout: str) -> np.ndarray:
    """The inverse of `to_layout`, as a float32 view or copy in NCX order."""
    return np.asarray(np.moveaxis(array, -1, 1) if layout == "NXC" else array, dtype=np.float32)


def drawn(shapes: Sequence[Sequence[int]], dtypes: Sequence[str], seed: int) -> list[np.ndarray]:
    """Inputs of a model, of NumPy's dtypes: normal numbers, of integers zeros and ones; the same for a seed."""
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal(shape) if np.dtype(kind).kind == "f" else rng.integers(0, 2, shape)).astype(kind)
        for shape, kind in zip(shapes, dtypes, strict=True)
    ]


def numbered(held: Iterable[str], letter: str) -> list[str]:
    """x0, x1, ... in the order of their numbers."""
    return sorted((key for key in held if key[0] == letter and key[1:]), key=lambda key: int(key[1:]))


# largest |difference| / largest |expected|: one rounding of the result and of the parts of a blocked sum
# of int8 a quantum of results that fill half their range
TOLERANCE = {"f32": 1e-5, "bf16": 1.6e-2, "f16": 2e-3, "int8": 1.2e-2}
# of normal numbers in f32, where each order of sums gives another result
TOLERANCE_REAL = 1e-4
# of f32 that is computed in fewer bits: more is no rounding
TOLERANCE_NARROW = 0.2


def relative_error(result: np.ndarray, expected: np.ndarray) -> float:
    """Largest |difference| / largest |expected|; infinite for a wrong shape or a NaN."""
    if result.shape != expected.shape:
        return math.inf
    difference = float(np.max(np.abs(result - expected), initial=0.0))
    scale = float(np.max(np.abs(expected), initial=0.0))
    error = difference / scale if scale else difference
    return error if math.isfinite(error) else math.inf
