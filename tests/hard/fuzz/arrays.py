"""Arrays made of choices: values, dtypes and memory layouts, the first of each the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from .choices import Choices

FLOATS = (np.dtype("f4"), np.dtype("f2"), np.dtype(ml_dtypes.bfloat16))
OTHERS = tuple(map(np.dtype, ("f8", "i1", "u1", "i4", "i8", "?", "c8", "O", ">f4", "U2", "M8[s]", "V4"))) + tuple(
    map(np.dtype, (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4))
)
# elements; more is time without news
MOST = 1 << 16


def array(c: Choices, shape: Sequence[int], dtype: Any) -> Any:
    """Small integers in this shape, in memory that lies in some way; now and then something else."""
    shape = tuple(min(max(int(n), 0), MOST) for n in shape)
    if int(np.prod(shape, dtype=float)) > MOST:
        shape = tuple(min(n, 3) for n in shape)
    if c.rarely():
        dtype = c.pick(OTHERS)
    return laid_out(c, values(c, shape, np.dtype(dtype)))


def values(c: Choices, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    rng = np.random.default_rng(c.byte())
    made = rng.integers(-2, 3, shape)
    return np.zeros(shape, dtype) if dtype.kind in "OUMV" and dtype.itemsize > 3 else made.astype(dtype)


def laid_out(c: Choices, plain: Any) -> Any:
    layout = c.byte() % 16
    shape, axes = plain.shape, range(plain.ndim)
    if layout < 6 or not plain.ndim:
        return plain
    if layout == 6:
        order = sorted(axes, key=lambda axis: c.byte())
        return np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
    if layout == 7:
        step = [1 + c.below(4) for _ in axes]
        wide = np.zeros([n * s for n, s in zip(shape, step, strict=True)], plain.dtype)
        view = wide[tuple(slice(None, None, s) for s in step)]
        view[...] = plain
        return view
    if layout == 8:
        return as_strided(plain, shape, [0 if c.often() else stride for stride in plain.strides])
    if layout == 9:
        return plain[tuple(slice(None, None, -1 if c.often() else 1) for _ in axes)]
    if layout == 10:
        raw = np.zeros(plain.nbytes + 64, np.uint8)
        view = raw[1 + c.below(63) :][: plain.nbytes]
        return view.view(plain.dtype).reshape(shape) if plain.dtype.kind != "O" else plain
    if layout == 11:
        plain.flags.writeable = False
        return plain
    if layout == 12:
        # windows that overlap
        flat = np.zeros(sum(shape) + plain.size + 1, plain.dtype)
        return as_strided(flat, shape, [plain.itemsize] * plain.ndim)
    if layout == 13:
        axis = c.below(plain.ndim)
        return np.repeat(plain, 2, axis) if plain.size < MOST else plain
    if layout == 14:
        return plain[..., : c.below(3)]
    return c.pick((None, plain.tolist(), plain[:1], plain.ravel(), plain[None], c.odd()))
