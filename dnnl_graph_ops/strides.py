"""Strides of tensors, counted in elements."""

from __future__ import annotations

from collections.abc import Sequence


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        size = shape[axis]
        strides[axis - 1] = strides[axis] * (size if size.__class__ is int and size > 0 else max(size, 1))
    return tuple(strides)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of elements that a strided tensor spans, gaps included."""
    if 0 in shape:
        return 0
    last = 0
    for size, stride in zip(shape, strides, strict=True):
        last += (size - 1) * stride
    return 1 + last


def are_alike(shape: Sequence[int], strides: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two lists of strides address the elements of a shape alike: axes of one position may have any stride."""
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, others, strict=True))


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the strides are dense and row-major."""
    return 0 in shape or are_alike(shape, strides, dense_strides(shape))


def channels_last(rank: int) -> tuple[int, ...]:
    """The axes of (N, C, spatial...) from the slowest to the fastest, channels last."""
    return (0, *range(2, rank), 1)
