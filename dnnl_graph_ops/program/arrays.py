"""Makes the arrays that steps run on, aligned as the library and the kernels like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..graph.files import Pages, adjacent
from ..strides import extent
from .program import View

Array = np.ndarray[Any, Any]
ALIGNMENT = 64


def aligned(elements: int, dtype: np.dtype[Any]) -> Array:
    """Returns a new vector, aligned to 64 bytes as scratch is."""
    room = np.empty(elements * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + elements * dtype.itemsize].view(dtype)


def side_by_side(vectors: Sequence[tuple[int, np.dtype[Any]]]) -> list[Array]:
    """Returns new vectors, aligned to pages, for large data that is written at once; see `adjacent`."""
    every = adjacent(Pages, [max(elements * dtype.itemsize, 1) for elements, dtype in vectors])
    return [np.frombuffer(pages, dtype, n) for pages, (n, dtype) in zip(every, vectors, strict=True)]


def ones(view: View) -> Array:
    """Returns an array of ones with a view's shape and strides, aligned to 64 bytes as scratch is."""
    flat = aligned(max(extent(view.shape, view.strides), 1), dtypes.numpy_dtype(view.dtype))
    flat.fill(1)
    return np.lib.stride_tricks.as_strided(flat, view.shape, [s * flat.itemsize for s in view.strides])
