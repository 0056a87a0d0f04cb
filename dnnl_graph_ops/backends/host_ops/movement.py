"""Computes MatMul, Concat, GenIndex, reductions and Dropout in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array, Rule

Attrs = Mapping[str, Any]
Shape = tuple[int, ...]
_WORD = 0xFFFFFFFF


def _matmul(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    a, b, *bias = inputs
    if attrs["transpose_a"] and a.ndim > 1:
        a = a.swapaxes(-1, -2)
    if attrs["transpose_b"] and b.ndim > 1:
        b = b.swapaxes(-1, -2)
    product = np.matmul(a, b)
    return (product + bias[0] if bias else product,)


def _concat(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    return (np.concatenate(inputs, axis=attrs["axis"]),)


def _gen_index(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    axis = attrs["axis"] % len(shape)
    return (np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))]),)


def _reduction(function: Callable[..., Any]) -> Rule:
    def rule(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
        axes = tuple(axis % inputs[0].ndim for axis in attrs["axes"])
        return (function(inputs[0], axes).reshape(shape),)

    return rule


def philox(count: int, seed: int, offset: int) -> Array:
    """Returns the first `count` 32-bit words of the Philox4x32-10 stream with key `seed`.

    Word i is word i % 4 of the block with counter (offset, i - i % 4), each number of 64 bits.

    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    blocks = np.arange(-(-count // 4), dtype=np.uint64) * np.uint64(4)
    low, half = np.uint64(_WORD), np.uint64(32)
    words = [
        np.full_like(blocks, offset & _WORD),
        np.full_like(blocks, offset >> 32 & _WORD),
        blocks & low,
        blocks >> half,
    ]
    keys = [seed & _WORD, seed >> 32 & _WORD]
    for _ in range(10):
        left, right = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            right >> half ^ words[1] ^ np.uint64(keys[0]),
            right & low,
            left >> half ^ words[3] ^ np.uint64(keys[1]),
            left & low,
        ]
        keys = [(keys[0] + 0x9E3779B9) & _WORD, (keys[1] + 0xBB67AE85) & _WORD]
    return np.stack(words, axis=1).reshape(-1)[:count]


def _dropout(attrs: Attrs, inputs: Sequence[Array], shape: Shape) -> Sequence[Any]:
    """Returns dst and mask: elements whose random word exceeds the probability p are kept, scaled by 1 / (1 - p)."""
    src = inputs[0].astype(np.float64)
    seed, offset = (int(item.reshape(-1)[0]) for item in inputs[1:3])
    probability = float(inputs[3].reshape(-1)[0])
    words = philox(src.size, seed, offset).astype(np.float64)
    mask = (words > probability * _WORD).reshape(src.shape)
    kept = src / (1 - probability) if probability < 1 else np.zeros_like(src)
    return np.where(mask, kept, 0.0), mask.astype(np.int64)


RULES: dict[str, Rule] = {
    "Concat": _concat,
    "Dropout": _dropout,
    "GenIndex": _gen_index,
    "MatMul": _matmul,
    "ReduceL1": _reduction(lambda x, axes: np.abs(x).sum(axes)),
    "ReduceL2": _reduction(lambda x, axes: np.sqrt(np.square(x).sum(axes))),
    "ReduceProd": _reduction(lambda x, axes: x.prod(axes)),
}
