"""Data whose results are exact in float32, and outputs that show what was not written."""

from collections.abc import Sequence

import numpy as np

from .rounding import DTYPES

# of tensors all of whose axes are as long: a wrong axis has the right shape there
EXTENTS = (1, 2, 3, 4, 8)


def integers(rng: np.random.Generator, shape: Sequence[int], dtype: str = "f32", limit: int = 4) -> np.ndarray:
    """Whole numbers in [-limit, limit]: sums of products stay exact below 2**24."""
    return rng.integers(-limit, limit + 1, shape).astype(np.float32).astype(DTYPES[dtype])


def constant_beside(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Any array that broadcasts to `shape`: axes left out, of size 1 or whole; powers of two divide exactly."""
    whole = [1 if rng.random() < 0.5 else n for n in shape]
    axes = whole[int(rng.integers(0, len(shape) + 1)) :]
    return rng.choice([-4.0, -2.0, -1.0, 0.5, 1.0, 2.0, 4.0], axes).astype(np.float32)


def strided(array: np.ndarray, order: Sequence[int], gap: int = 0) -> np.ndarray:
    """Equal values with axes stored in `order` (slowest first) and `gap` unused elements along the last."""
    stored = [array.shape[a] for a in order]
    buffer = np.zeros([*stored[:-1], stored[-1] + gap], dtype=array.dtype)
    view = buffer[..., : stored[-1]].transpose(np.argsort(order))
    view[...] = array
    return view


def unwritten(shape: Sequence[int], dtype: str = "f32") -> np.ndarray:
    """An array full of NaN, or of a value that small integers never reach."""
    integer = dtype in ("s8", "u8", "s32", "s64")
    return np.full(shape, 111 if integer else np.nan, dtype=DTYPES[dtype])


def with_strides(array: np.ndarray, strides: Sequence[int]) -> np.ndarray:
    """Equal values at the given strides (in elements) of a buffer of its own."""
    last = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) if array.size else -1
    size = array.dtype.itemsize
    # NumPy does not stride the types of ml_dtypes
    buffer = np.zeros(last + 1, dtype=f"u{size}")
    view = np.lib.stride_tricks.as_strided(buffer, array.shape, [s * size for s in strides])
    view[...] = np.ascontiguousarray(array).view(buffer.dtype)
    return view.view(array.dtype)
