"""Converts weights between the formats (orders of axes) of frameworks and papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from .errors import InvalidArgumentError, ShapeError
from .shapes.attributes import choice, integer
from .words import FRAMEWORKS, VALUES, counted

Array = np.ndarray[Any, Any]


# Per op, the axes of each format: G groups, I and O channels, X the kernel's spatial axes; two letters are one axis.
_ORDINARY: dict[str, tuple[str, ...]] = {
    "oix": ("GO", "I", "X"),
    "xio": ("X", "I", "GO"),
    "iox": ("I", "GO", "X"),
    "xoi": ("X", "GO", "I"),
    "megengine": ("G", "O", "I", "X"),
}
_TRANSPOSED: dict[str, tuple[str, ...]] = {
    "iox": ("GI", "O", "X"),
    "xoi": ("X", "O", "GI"),
    "oix": ("O", "GI", "X"),
    "xio": ("X", "GI", "O"),
    "megengine": ("G", "I", "O", "X"),
    **{f"documented_{name}": _ORDINARY[name] for name in ("iox", "xoi", "oix", "xio")},
}


def _with_frameworks(formats: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The formats of an op; a framework's name maps to the first format that it may stand for."""
    named = {word: ours for word, ours in VALUES.items() if word in FRAMEWORKS}
    return {
        **formats,
        **{word: next(axes for fmt, axes in formats.items() if fmt.upper() in ours) for word, ours in named.items()},
    }


_FORMATS = {"conv_transpose": _with_frameworks(_TRANSPOSED), "convolution": _with_frameworks(_ORDINARY)}


def convert_weights(
    array: Any,
    source: str,
    target: str,
    *,
    groups: int = 1,
    op: Literal["conv_transpose", "convolution"] = "conv_transpose",
) -> Array:
    """Convert weights from one format to another: a view where strides can express it, else a copy.

    A format's order of axes depends on the op (g = groups, k... = the kernel size):

    | format | op="conv_transpose" | op="convolution" |
    |---|---|---|
    | IOX | (IC, OC/g, k...) | (IC/g, OC, k...) |
    | XOI | (k..., OC/g, IC) | (k..., OC, IC/g) |
    | OIX | (OC/g, IC, k...) | (OC, IC/g, k...) |
    | XIO | (k..., IC, OC/g) | (k..., IC/g, OC) |
    | "pytorch", "torch", "onnx" | IOX | OIX |
    | "keras", "tensorflow" | XOI | XIO |
    | "megengine" | (g, IC/g, OC/g, k...), g=1: (IC, OC, k...) | (g, OC/g, IC/g, k...), g=1: (OC, IC, k...) |

    For conv_transpose also the grouped shapes that oneDNN's pages print: "documented_iox" (IC/g, OC, k...),
    "documented_xoi" (k..., OC, IC/g), "documented_oix" (OC, IC/g, k...), "documented_xio" (k..., IC/g, OC).

    Args:
        array: weights in the format `source`.
        source, target: formats of the table or words for them such as OIHW, in any case.
        groups: number of groups.
        op: the op of the weights, "conv_transpose" or "convolution".

    Raises:
        InvalidArgumentError: an unknown format or op, groups below 1.
        ShapeError: a rank or channels that do not fit the format and the groups.
        TypeError: not an array.
    """
    where = "convert_weights"
    if not isinstance(array, np.ndarray):
        hint = "; a tensor's is tensor.detach().numpy()" if hasattr(array, "detach") else ""
        raise TypeError(f"{where}: 'array' must be a NumPy array, got {type(array).__name__}{hint}")
    groups = integer(groups, "groups", where, 1)
    family = choice(op, "op", tuple(_FORMATS), where)
    formats = (source, "source"), (target, "target")
    read, write = (_axes(value, name, groups, family, where) for value, name in formats)
    return _write(_read(array, read, groups, source), write)


def _axes(value: Any, name: str, groups: int, op: str, where: str) -> tuple[str, ...]:
    formats = _FORMATS[op]
    key = value.strip().lower() if isinstance(value, str) else None
    if key not in formats:
        others = [other for other, known in _FORMATS.items() if key in known]
        if others:
            raise InvalidArgumentError(
                f"{where}: {name!r}={value!r} is a format of op={others[0]!r}, not of op={op!r}; take one of "
                f"{', '.join(map(_spelt, formats))}"
            )
    axes = formats[choice(value, name, tuple(map(_spelt, formats)), where).lower()]
    return axes[1:] if axes[0] == "G" and groups == 1 else axes


def _spelt(name: str) -> str:
    return name.upper() if len(name) == 3 else name


def _letters(axes: tuple[str, ...], rank: int) -> list[str]:
    """The letters of each axis; X becomes one letter for each spatial axis."""
    return [letters for axis in axes for letters in ("XYZ"[:rank] if axis == "X" else (axis,))]


def _read(array: Array, axes: tuple[str, ...], groups: int, source: str) -> Array:
    """The array as a view (G, I, O, k...)."""
    rank = array.ndim - (len(axes) - 1)
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"convert_weights: {source} weights with groups={groups} have {len(axes)} to {len(axes) + 2} axes, "
            f"got shape {array.shape}"
        )
    shape: list[int] = []
    for position, (axis, size) in enumerate(zip(_letters(axes, rank), array.shape, strict=True)):
        if axis == "G" and size != groups:
            raise ShapeError(f"convert_weights: the first axis of {source} weights is {size}, but groups={groups}")
        if len(axis) == 2 and size % groups:
            raise ShapeError(
                f"convert_weights: axis {position} of size {size} does not divide into {counted(groups, 'group')}"
            )
        shape += [groups, size // groups] if len(axis) == 2 else [size]
    split, letters = array.reshape(shape), "".join(_letters(axes, rank))
    if "G" not in letters:
        split, letters = split[None], f"G{letters}"
    return split.transpose([letters.index(letter) for letter in "GIOXYZ"[: 3 + rank]])


def _write(array: Array, axes: tuple[str, ...]) -> Array:
    """An array (G, I, O, k...) in a format; merging axes may copy."""
    target = _letters(axes, array.ndim - 3)
    sizes = dict(zip("GIOXYZ", array.shape, strict=False))
    if not any("G" in axis for axis in axes):
        array = array[0]
        del sizes["G"]
    order = [[*sizes].index(letter) for letter in "".join(target)]
    return array.transpose(order).reshape([math.prod(sizes[letter] for letter in axis) for axis in target])
