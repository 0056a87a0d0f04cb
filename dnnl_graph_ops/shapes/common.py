"""Functions of several shape rules: broadcasting, axes, formats of data and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import ShapeError
from ..schema.arguments import INT32_MAX
from ..words import counted
from . import attributes
from .registry import Shape

Dim: TypeAlias = int | None


def text(shape: Sequence[Dim]) -> str:
    """Returns a shape for a message; "?" stands for an unknown dim."""
    words = ["?" if dim is None else str(dim) for dim in shape]
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"


def agree(a: Dim, b: Dim) -> bool:
    return a is None or b is None or a == b


def unify(where: str, first: str, a: Shape, second: str, b: Shape) -> Shape:
    """Returns the shape of two tensors that must have equal shapes; a known dim replaces an unknown one."""
    if len(a) != len(b) or not all(map(agree, a, b)):
        raise ShapeError(f"{where}: {first} has shape {text(a)}, {second} has shape {text(b)}; they must be equal")
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def expect(where: str, what: str, shape: Shape, wanted: Shape, why: str) -> None:
    """Raises unless a tensor has the shape that `why` states."""
    if len(shape) != len(wanted) or not all(map(agree, shape, wanted)):
        raise ShapeError(f"{where}: {what} has shape {text(shape)}, but {why}; give it the shape {text(wanted)}")


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    # an unknown dim can only be 1 or the other size
    return b if a is None else a


def broadcast(where: str, first: str, a: Shape, second: str, b: Shape, what: str = "shape") -> Shape:
    """Returns the broadcast shape by NumPy's rule: aligned at the right, sizes equal or 1."""
    rank = max(len(a), len(b))
    wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for x, y in zip(wide_a, wide_b, strict=True):
        if not agree(x, y) and 1 not in (x, y):
            raise ShapeError(
                f"{where}: {first} has {what} {text(a)}, {second} has {what} {text(b)}; the sizes {x} and "
                f"{y} "
                "do not broadcast, make them equal or one of them 1"
            )
    return tuple(map(_broadcast_dim, wide_a, wide_b))


def broadcast_onto(where: str, what: str, shape: Shape, onto: str, target: Shape) -> None:
    """Raises unless a shape broadcasts to `target` without enlarging it."""
    missing = len(target) - len(shape)
    fits = missing >= 0 and all(s == 1 or agree(s, t) for s, t in zip(shape, target[missing:], strict=True))
    if not fits:
        raise ShapeError(
            f"{where}: {what} of shape {text(shape)} does not broadcast onto {onto} of shape {text(target)}; "
            "align it at the right with sizes that are equal or 1"
        )


def axis_of(where: str, name: str, axis: int, rank: int) -> int:
    """Returns a possibly negative axis as a non-negative one."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{where}: {name} = {axis} is outside of a tensor with {counted(rank, 'axis')}; use {-rank} to {rank - 1}"
        )
    return axis % rank


def need_rank(where: str, what: str, shape: Shape, least: int, most: int, layout: str = "") -> None:
    if not least <= len(shape) <= most:
        ranks = f"{least}" if least == most else f"{least} to {most}"
        raise ShapeError(
            f"{where}: {what} has shape {text(shape)} with {counted(len(shape), 'axis')}; {counted(ranks, 'axis')} "
            "are needed" + (f" ({layout})" if layout else "")
        )


def channel_axis(rank: int, data_format: str) -> int:
    return 1 if data_format == "NCX" else rank - 1


def channels_of(shape: Shape, data_format: str) -> Dim:
    return shape[channel_axis(len(shape), data_format)]


def spatial_of(shape: Shape, data_format: str) -> Shape:
    return shape[2:] if data_format == "NCX" else shape[1:-1]


def data_shape(batch: Dim, channels: Dim, spatial: Shape, data_format: str) -> Shape:
    return (batch, channels, *spatial) if data_format == "NCX" else (batch, *spatial, channels)


def channel_axes(weights_format: str, ndim: int) -> tuple[int, int]:
    """Returns the axes I and O of weights."""
    first = 0 if weights_format.endswith("X") else ndim - 2
    return (first, first + 1) if "IO" in weights_format else (first + 1, first)


def split_weights(shape: Shape, weights_format: str) -> tuple[Dim, Dim, Shape]:
    """Returns (size of I, size of O, kernel size) of a weights shape."""
    i, o = channel_axes(weights_format, len(shape))
    return shape[i], shape[o], shape[2:] if weights_format.endswith("X") else shape[:-2]


def join_weights(i: Dim, o: Dim, kernel: Shape, weights_format: str) -> Shape:
    channels = (i, o) if "IO" in weights_format else (o, i)
    return (*channels, *kernel) if weights_format.endswith("X") else (*kernel, *channels)


def per_axis(
    where: str, attrs: Mapping[str, Any], name: str, rank: int, least: int, default: int = 0
) -> tuple[int, ...]:
    """Returns an attribute's value for each spatial axis, each from `least` to 2^31 - 1."""
    given = attrs.get(name)
    return attributes.per_axis(default if given is None else given, name, rank, least, where)


def check_span(where: str, axis: int, elements: int) -> None:
    """Raises if a window slides over more elements of an axis than the kernels count."""
    if elements > INT32_MAX:
        raise ShapeError(
            f"{where}: with its strides, dilations and padding spatial axis {axis} spans "
            f"{counted(elements, 'element')}; at most "
            f"{INT32_MAX} are possible"
        )


def check_counts(where: str, *counts: Dim) -> None:
    """Raises for more images or channels than the kernels count."""
    for count in counts:
        if count is not None and count > INT32_MAX:
            raise ShapeError(f"{where}: {count} images or channels; at most {INT32_MAX} are possible")


def known_product(shape: Shape) -> int | None:
    """Returns the number of elements; None if a dim is unknown and no other dim is 0."""
    if 0 in shape:
        return 0
    known = [dim for dim in shape if dim is not None]
    return math.prod(known) if len(known) == len(shape) else None
